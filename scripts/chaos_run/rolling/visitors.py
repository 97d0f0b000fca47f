"""Who calls while replicas are restarted, and what counts as failed?

Visitors come one visit after another, through the load balancer alone: each creates a session with
an idempotency key, follows its events, asks how it stands, renews its token, and either ends it or
lets the service end it. **No call is repeated here**: what doesn't succeed at once has failed. Only
a broken event stream is taken up again, as a browser's EventSource does.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

import httpx

from scripts.chaos_run.event_stream import EventStream
from scripts.chaos_run.venue import Venue
from shared.lifecycle import Background

Answer = dict[str, Any]

_PAUSE_S = 0.15
"""Between two calls of one visitor."""
_PLAYS_S = 1.5
_CHUNK_S = 0.1
_LIMIT_S = 40.0
"""For one call: longer than the load balancer tries."""
_ENDS_WITHIN_S = 240.0
_FINE_ENDS = frozenset(("client_stop", "completed"))
_ON_STAGE = "running"
_SESSIONS = "/v1/stream/sessions"


@dataclass(slots=True, kw_only=True)
class Tally:
    """What all visitors together met with so far."""

    requests: int = 0
    sessions: int = 0
    resumed: int = 0
    """Streams that were taken up again and went on."""
    failed: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Sessions that were forgotten, or ended by nobody's wish, or never."""
    untold: list[str] = field(default_factory=list)
    """Events that came twice, or never."""

    def copy(self) -> Tally:
        """Return it as it is now."""
        return replace(self, failed=[*self.failed], lost=[*self.lost], untold=[*self.untold])

    def since(self, before: Tally) -> Tally:
        """Return what came after an earlier copy."""
        return Tally(
            requests=self.requests - before.requests,
            sessions=self.sessions - before.sessions,
            resumed=self.resumed - before.resumed,
            failed=self.failed[len(before.failed) :],
            lost=self.lost[len(before.lost) :],
            untold=self.untold[len(before.untold) :],
        )


class Visitors:
    """The load."""

    def __init__(self, address: str, venue: Venue, count: int) -> None:
        self.tally = Tally()
        self.told: dict[str, int] = {}
        """By session that ended: the number of the last event that came."""
        self._venue = venue
        self._is_closing = asyncio.Event()
        self._streams = Background()
        self._http = httpx.AsyncClient(
            base_url=address,
            timeout=_LIMIT_S,
            trust_env=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=count * 2),
        )
        self._visiting = [
            asyncio.create_task(self._come_again(f"visitor-{n}"), name=f"visitor-{n}")
            for n in range(count)
        ]

    async def stop(self) -> None:
        """Let nobody come any more; returns when all visits are over."""
        self._is_closing.set()
        await asyncio.gather(*self._visiting)

    async def aclose(self) -> None:
        """End everything at once."""
        for task in self._visiting:
            task.cancel()
        await asyncio.gather(*self._visiting, return_exceptions=True)
        await self._streams.aclose()
        await self._http.aclose()

    async def _come_again(self, name: str) -> None:
        number = 0
        while not self._is_closing.is_set():
            number += 1
            await self._visit(name, f"{name}-{number}", ends_it=number % 2 == 0)

    async def _visit(self, name: str, key: str, *, ends_it: bool) -> None:
        """One session from its beginning to its end."""
        chunks = 100_000 if ends_it else round(_PLAYS_S / _CHUNK_S)
        config = {"chunks": chunks, "chunk_s": _CHUNK_S}
        body = {"identity": name, "config": config}
        created = await self._call("POST", _SESSIONS, body, {"Idempotency-Key": key})
        if created is None:
            await asyncio.sleep(_PAUSE_S)
            return
        self.tally.sessions += 1
        session_id = str(created["session_id"])
        with self._followed(session_id) as stream, self._in_room(session_id, name):
            try:
                async with asyncio.timeout(_ENDS_WITHIN_S):
                    await self._stay(created, name, stream, ends_it=ends_it)
            except TimeoutError:
                self.tally.lost.append(f"{session_id} never ended; told last: {stream.record}")

    async def _stay(
        self, created: Answer, name: str, stream: EventStream, *, ends_it: bool
    ) -> None:
        session_id, since_s = str(created["session_id"]), 0.0
        path = f"{_SESSIONS}/{session_id}"
        bearer = {"Authorization": f"Bearer {created['session_token']}"}
        renewal = {"identity": name, "role": "controller"}
        while (record := stream.record) is not None and record.get("event") != "ended":
            if record.get("status") == _ON_STAGE:
                since_s = since_s or time.monotonic()
                if ends_it and time.monotonic() - since_s > _PLAYS_S:
                    await self._call("DELETE", path, headers=bearer)
                    ends_it = False
                elif ends_it:
                    await self._call("POST", f"{path}/tokens", renewal, bearer)
            await asyncio.sleep(_PAUSE_S)
            await self._call("GET", path, headers=bearer)
        if record is None or record.get("reason") not in _FINE_ENDS:
            self.tally.lost.append(f"{session_id} ended so: {record}")
        self.told[session_id] = stream.told[-1] if stream.told else 0

    async def _call(
        self, method: str, path: str, body: Answer | None = None, headers: Answer | None = None
    ) -> Answer | None:
        """Return the answer's body; None if the call failed, which is noted."""
        self.tally.requests += 1
        try:
            answer = await self._http.request(method, path, json=body, headers=headers)
        except httpx.TransportError as error:
            self.tally.failed.append(f"{method} {path}: {error!r}")
            return None
        if answer.status_code == HTTPStatus.CONFLICT:  # it has ended meanwhile
            return {}
        if not answer.is_success:
            said = " ".join(answer.text.split())[:120]
            self.tally.failed.append(f"{method} {path} → {answer.status_code} {said}")
            return None
        told: Answer = answer.json()
        return told

    @contextlib.contextmanager
    def _followed(self, session_id: str) -> Iterator[EventStream]:
        """Follow a session for the length of the block."""
        stream = _CountedStream(self._http, session_id, self.tally)
        task = self._streams.start("event stream", stream.run())
        try:
            yield stream
        finally:
            task.cancel()
            self.tally.untold += [f"{session_id}: {fault}" for fault in stream.faults]
            if stream.told != sorted(set(stream.told)):
                self.tally.untold.append(f"{session_id} was told {stream.told}")

    @contextlib.contextmanager
    def _in_room(self, session_id: str, name: str) -> Iterator[None]:
        self._venue.enter(session_id, name)
        try:
            yield
        finally:
            for one in self._venue.people(session_id):
                if one.identity == name:
                    one.leave()


class _CountedStream(EventStream):
    """One visitor's stream, through the load balancer."""

    def __init__(self, http: httpx.AsyncClient, session_id: str, tally: Tally) -> None:
        super().__init__(http, lambda: "", session_id)
        self._name = session_id
        self._tally = tally

    def note_open(self, *, again: bool) -> None:
        self._tally.requests += 1
        self._tally.resumed += again

    def note_refused(self, why: str) -> None:
        self._tally.requests += 1
        self._tally.failed.append(f"events of {self._name}: {why}")
