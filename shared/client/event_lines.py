"""Which events are in these bytes of a stream? Pure; as the HTML standard says, `id` kept.

Only a blank line ends an event, so one that was cut off by the end of the connection is not told:
the client comes back with the id of the one before.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One event with its text."""

    name: str
    data: str


class EventLines:
    """Takes a stream apart; one for all connections of a client."""

    def __init__(self) -> None:
        self.last_id = ""
        """What to go on from."""
        self.retry_s = 1.0
        """How long to wait before coming back."""
        self._rest = b""
        self._name = self._id = ""
        self._data: list[str] = []

    def begin(self) -> None:
        """Take what comes now as the begin of another connection."""
        self._rest = b""
        self._clear()

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that *chunk* completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [event for line in lines if (event := self._line(line.removesuffix(b"\r")))]

    def _line(self, raw: bytes) -> Event | None:
        if not raw:
            return self._finish()
        name, _, value = raw.decode(errors="replace").partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._name = value
            case "data":
                self._data.append(value)
            case "id":
                self._id = value
            case "retry" if value.isascii() and value.isdigit():
                self.retry_s = min(int(value[:9]) / 1000, 60.0)
            case _:  # a comment, or something of a later release
                pass
        return None

    def _finish(self) -> Event | None:
        event = Event(self._name or "message", "\n".join(self._data)) if self._data else None
        self.last_id = self._id or self.last_id
        self._clear()
        return event

    def _clear(self) -> None:
        self._name = self._id = ""
        self._data = []
