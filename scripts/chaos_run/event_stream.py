"""How does a guest follow its session without asking again and again?

As a browser's EventSource does: one stream of server-sent events, taken up on any replica when it
breaks, with the id of the last event that came. What it must never see is noted as a fault: an
event that comes twice, or a stream that is over before the session is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import httpx

_TIMES = httpx.Timeout(3.0, read=20.0)
"""Each stream says something every 15 s."""
_AGAIN_S = 0.3


class EventStream:
    """One guest's look at one session."""

    def __init__(
        self, http: httpx.AsyncClient, any_address: Callable[[], str], session_id: str
    ) -> None:
        self._http = http
        self._any_address = any_address
        self._session_id = session_id
        self._last_id = 0
        self.record: dict[str, Any] | None = {}
        """What the last event told; None while nobody knows the session."""
        self.faults: list[str] = []
        self.told: list[int] = []
        """The numbers of the events that had one, in the order in which they came."""
        self._times_open = 0

    def note_open(self, *, again: bool) -> None:
        """It is open and will tell; *again*: it was cut before. For whoever counts."""

    def note_refused(self, why: str) -> None:
        """It couldn't be opened."""

    async def run(self) -> None:
        """Follow until the session has ended."""
        while not self._is_over():
            times_open = self._times_open
            try:
                await self._follow_once()
            except httpx.TransportError as error:
                if times_open == self._times_open:
                    self.note_refused(repr(error))
            await asyncio.sleep(_AGAIN_S)

    def _is_over(self) -> bool:
        return self.record is not None and self.record.get("event") == "ended"

    async def _follow_once(self) -> None:
        url = f"{self._any_address()}/v1/stream/sessions/{self._session_id}/events"
        headers = {"Last-Event-ID": str(self._last_id)} if self._last_id else {}
        async with self._http.stream("GET", url, headers=headers, timeout=_TIMES) as answer:
            if answer.status_code != HTTPStatus.OK:
                self.note_refused(f"it answered {answer.status_code}")
            if answer.status_code == HTTPStatus.NOT_FOUND:
                self.record = None
            elif answer.status_code == HTTPStatus.NO_CONTENT:
                self.faults.append("the stream was over before the session's end was told")
                self.record = None
            elif answer.is_success:
                self.note_open(again=self._times_open > 0)
                self._times_open += 1
                await self._read(answer)
            elif answer.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
                self.faults.append(f"the stream answered {answer.status_code}")

    async def _read(self, answer: httpx.Response) -> None:
        fields: dict[str, str] = {}
        async for line in answer.aiter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            if "event" in fields:
                self._take(fields)
            fields = {}

    def _take(self, fields: dict[str, str]) -> None:
        number = int(fields.get("id", 0))
        if number and number == self._last_id:
            self.faults.append(f"event {number} ({fields['event']}) was told twice")
        if number:
            self.told.append(number)
        self._last_id = number or self._last_id
        data = json.loads(fields["data"])
        if data.get("reason") == "unknown_session":
            self.record = None
        else:
            self.record = {**data, "event": fields["event"]}
