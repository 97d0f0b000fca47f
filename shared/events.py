"""What does one entry of the audit trail say? Pure.

Every change of a session or a node is one entry of the pool's stream ``ev``, written by the script
that made the change. The stream's own ids never go back, whatever the clock does, so the order of
ids is the order of changes; ``at_ms`` is only what the server's clock showed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Place = tuple[int, int]
"""Where an entry stands in the trail; comparable."""


def place_of(entry_id: str) -> Place:
    """Return where ``<milliseconds>-<number>`` stands; raises `ValueError` for anything else."""
    ms, _, number = entry_id.partition("-")
    return int(ms), int(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One change of one session or node."""

    id: str
    what: str
    """A session's new state, queued, returned, adopted (why: its state), rebased, first_frame,
    credited (why: milliseconds) or ended; or node_<what>; or act, key_added, key_revoked."""
    at_ms: int
    session_id: str = ""
    ticket: int | None = None
    node_id: str = ""
    epoch: int | None = None
    version: int | None = None
    why: str = ""
    who: str = ""
    """Who did it, of what an admin did."""
    on: str = ""
    """What the admin did it to."""

    @property
    def place(self) -> Place:
        return place_of(self.id)

    def as_dict(self) -> dict[str, object]:
        """Return it as programs get it; what doesn't apply is left out."""
        told = {
            "id": self.id,
            "at": self.at_ms / 1000,
            "what": self.what,
            "session_id": self.session_id,
            "ticket": self.ticket,
            "node_id": self.node_id,
            "epoch": self.epoch,
            "version": self.version,
            "why": self.why,
            "who": self.who,
            "on": self.on,
        }
        return {name: value for name, value in told.items() if value not in ("", None)}


def event(entry_id: str, fields: Mapping[str, str]) -> Event:
    """Decode one entry of ``ev``."""
    return Event(
        id=entry_id,
        what=fields.get("what", ""),
        at_ms=int(fields.get("at") or 0),
        session_id=fields.get("sid", ""),
        ticket=_number(fields.get("ticket")),
        node_id=fields.get("node", ""),
        epoch=_number(fields.get("epoch")),
        version=_number(fields.get("ver")),
        why=fields.get("why", ""),
        who=fields.get("who", ""),
        on=fields.get("on", ""),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text else None
