"""How does a client behave, whatever breaks behind the API?

Like a good one: it creates with an idempotency key and repeats the call, to any replica, until it
is answered; it asks how its session stands; when nobody knows the session any more (Redis lost it)
it asks again with the same key. Some follow the event stream instead of asking; some create twice
at once, delete, close the tab or reload. What they were told is noted, for the verdict.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx

from scripts.chaos_run.event_stream import EventStream
from scripts.chaos_run.schedule import Guest
from scripts.chaos_run.venue import Venue
from shared.lifecycle import Background
from tests.support.fake_room import FakePerson

CHUNK_S = 0.1
_POLL_S = 0.4
_AGAIN_S = 0.2
_UNKNOWN_S = 2.0
"""A session that Redis lost is brought back by its node after two beats, if it had one."""
_LIMIT_S = 3.0
_DELETE_LIMIT_S = 12.0
"""A DELETE waits up to ten seconds for the clean-up."""
_ENDED = frozenset(("closed", "expired", "failed"))
_ON_STAGE = frozenset(("assigned", "joining_room", "starting_pipeline", "running"))

Answer = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Visit:
    """What one guest saw."""

    guest: Guest
    accepted: list[tuple[str, float]] = field(default_factory=list)
    """Session and when a create call was answered (monotonic); more than one session only after
    Redis lost one."""
    since_s: dict[str, float] = field(default_factory=dict)
    """By session: from when on its guest looked after it. The answer to a second call counts only
    as accepted: nobody reads it."""
    forgotten: list[tuple[str, float]] = field(default_factory=list)
    """Sessions that were accepted and answered with 404 later, and when."""
    end: str = ""
    """The last status that was seen, with its reason; empty: it never ended for this guest."""
    faults: list[str] = field(default_factory=list)
    """Answers that no client should get."""


class Client:
    """Plays guests against a fleet's replicas."""

    def __init__(self, addresses: tuple[str, ...], venue: Venue, seed: int) -> None:
        self._addresses = addresses
        self._venue = venue
        self._chance = random.Random(f"guests {seed}")  # noqa: S311 - only spreads the calls
        self._spare = Background()
        self._http = httpx.AsyncClient(timeout=_LIMIT_S, trust_env=False)

    async def aclose(self) -> None:
        """Close the connections; calls that nobody waits for are given up."""
        await self._spare.aclose()
        await self._http.aclose()

    async def visit(self, visit: Visit, started_s: float) -> None:
        """Play one guest to its end; cancelled when nothing more will come."""
        guest = visit.guest
        await asyncio.sleep(max(0.0, started_s + guest.at_s - time.monotonic()))
        while not visit.end:
            session_id = await self._create(visit)
            visit.since_s.setdefault(session_id, time.monotonic())
            person = self._enter(session_id, guest)
            stream = EventStream(self._http, self._any_address, session_id)
            following = self._spare.start("event stream", stream.run()) if guest.follows else None
            with contextlib.ExitStack() as inside:
                inside.callback(self._go_out, session_id, guest)
                await self._stay(visit, session_id, person, stream)
            if following is not None:
                following.cancel()
                visit.faults += stream.faults

    def _enter(self, session_id: str, guest: Guest) -> FakePerson | None:
        return self._venue.enter(session_id, guest.name) if guest.shows_up else None

    def _back_in(
        self, session_id: str, guest: Guest, person: FakePerson | None, record: Answer
    ) -> FakePerson | None:
        """Do as a page does whose room was closed while its session is on stage."""
        if person is not None and record.get("status") in _ON_STAGE and _is_out(person):
            return self._enter(session_id, guest)
        return person

    def _go_out(self, session_id: str, guest: Guest) -> None:
        """Leave the room, under whichever connection."""
        for one in self._venue.people(session_id):
            if one.identity == guest.name:
                one.leave()

    async def _create(self, visit: Visit) -> str:
        guest = visit.guest
        body = {"identity": guest.name, "config": _config(guest)}
        if guest.asks_twice:
            self._spare.start("spare call", self._create_once(visit, body))
        return await self._create_once(visit, body)

    async def _create_once(self, visit: Visit, body: Answer) -> str:
        """Repeat the call until it is answered; the key makes that safe."""
        key = {"Idempotency-Key": visit.guest.name}
        while True:
            url = f"{self._any_address()}/v1/stream/sessions"
            with contextlib.suppress(httpx.TransportError):
                answer = await self._http.post(url, json=body, headers=key)
                if answer.is_success:
                    session_id = str(answer.json()["session_id"])
                    visit.accepted.append((session_id, time.monotonic()))
                    return session_id
                _check(visit, answer)
            await asyncio.sleep(_AGAIN_S)

    async def _stay(
        self, visit: Visit, session_id: str, person: FakePerson | None, stream: EventStream
    ) -> None:
        """Look after the session until it has ended, is forgotten, or the guest goes."""
        guest, since_s = visit.guest, time.monotonic()
        reloads_after_s, unknown_since_s = guest.reloads_after_s, 0.0
        while True:
            stayed_s = time.monotonic() - since_s
            if guest.vanishes_after_s is not None and stayed_s > guest.vanishes_after_s:
                visit.end = "vanished"
                return
            if person is not None and reloads_after_s is not None and stayed_s > reloads_after_s:
                person.stage.reload(person)
                reloads_after_s = None
            if guest.deletes_after_s is not None and stayed_s > guest.deletes_after_s:
                record = await self._ask(visit, "DELETE", session_id)
            elif guest.follows:
                record = stream.record
            else:
                record = await self._ask(visit, "GET", session_id)
            if record is None:
                unknown_since_s = unknown_since_s or time.monotonic()
                if time.monotonic() - unknown_since_s > _UNKNOWN_S:
                    visit.forgotten.append((session_id, time.monotonic()))
                    return
                record = {}
            else:
                unknown_since_s = 0.0  # after an outage nodes need their time anew
            person = self._back_in(session_id, guest, person, record)
            if record.get("status") in _ENDED:
                visit.end = f"{record['status']} {record.get('reason') or ''}".strip()
                return
            await asyncio.sleep(_POLL_S)

    async def _ask(self, visit: Visit, method: str, session_id: str) -> Answer | None:
        """Return what one replica says; None if the session is unknown, {} if it can't say."""
        url = f"{self._any_address()}/v1/stream/sessions/{session_id}"
        limit_s = _DELETE_LIMIT_S if method == "DELETE" else _LIMIT_S
        with contextlib.suppress(httpx.TransportError):
            answer = await self._http.request(method, url, timeout=limit_s)
            if answer.status_code == HTTPStatus.NOT_FOUND:
                return None
            if answer.is_success:
                record: Answer = answer.json()
                return record
            _check(visit, answer)
        return {}

    def _any_address(self) -> str:
        return self._chance.choice(self._addresses)


def _config(guest: Guest) -> Answer:
    config: Answer = {"chunks": max(1, round(guest.plays_s / CHUNK_S)), "chunk_s": CHUNK_S}
    return {**config, "fail_in": "process"} if guest.is_poison else config


def _check(visit: Visit, answer: httpx.Response) -> None:
    """An outage is answered with 503; anything else is a bug."""
    if answer.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
        told = f"{answer.request.method} → {answer.status_code} {answer.text[:200]}"
        visit.faults.append(told)


def _is_out(person: FakePerson) -> bool:
    """Whether nobody of this name is in the room any more: it was deleted."""
    return all(one.identity != person.identity for one in person.stage.people.values())
