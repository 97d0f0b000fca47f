"""A closed replica: who may do what, with a key, with a session's token, with nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
import pytest_asyncio

from shared.access_keys import Scope, new_key
from shared.store import Registry
from tests.support.closed import ADMIN_KEY, add_key, bearer, closed
from tests.support.replica import SESSIONS, Client
from tests.support.room_service import RoomService

MINE = {"identity": "alice"}
VIEWER = {"identity": "vera"}


class Doors(NamedTuple):
    """One closed replica, and everything that may be shown to it."""

    api: Client
    shown: dict[str, str]
    """Credential by who shows it; ``client`` and ``maker`` have to do with the session."""
    session_id: str


@pytest_asyncio.fixture
async def doors(
    redis_url: str, registry: Registry, room_service: RoomService
) -> AsyncIterator[Doors]:
    """A closed replica with a session that the key of ``maker`` created."""
    async with closed(redis_url, room_service.url) as (_, api):
        maker = await add_key(registry, Scope.CREATE, name="maker")
        created = (await api.post(SESSIONS, json=MINE, headers=bearer(maker))).json()
        other = (await api.post(SESSIONS, json=VIEWER, headers=bearer(maker))).json()
        shown = {
            "admin": ADMIN_KEY,
            "admin by name": await add_key(registry, Scope.ADMIN, name="boss"),
            "reader": await add_key(registry, Scope.READ, name="reader"),
            "maker": maker,
            "creator": await add_key(registry, Scope.CREATE, name="other"),
            "client": created["session_token"],
            "stranger": other["session_token"],
            "forger": f"gst1.{created['session_id']}.{'A' * 43}",
            "guesser": new_key(),
            "viewer": created["token"],  # of the room
            "nobody": "",
        }
        yield Doors(api, shown, created["session_id"])


CALLS = {
    "create": ("POST", SESSIONS, MINE),
    "look": ("GET", f"{SESSIONS}/SID", None),
    "follow": ("GET", f"{SESSIONS}/SID/events", None),
    "watch": ("POST", f"{SESSIONS}/SID/tokens", VIEWER),
    "renew": ("POST", f"{SESSIONS}/SID/tokens", {"role": "controller"}),
    "end": ("DELETE", f"{SESSIONS}/SID", None),
    "list": ("GET", SESSIONS, None),
    "line": ("GET", "/v1/queue", None),
    "cancel": ("DELETE", "/v1/queue/SID", None),
    "numbers": ("GET", "/metrics", None),
    "service numbers": ("GET", "/v1/service/metrics", None),
}
OWN = {"look", "follow", "watch", "renew", "end"}
MAY = {
    "admin": set(CALLS),
    "admin by name": set(CALLS),
    "reader": {"look", "follow", "numbers", "service numbers"},
    "maker": {"create", *OWN},
    "creator": {"create"},
    "client": OWN,
}


async def call(doors: Doors, what: str, who: str) -> int:
    """Make one of the calls and return its status; of a stream, only how it begins."""
    method, path, body = CALLS[what]
    headers = bearer(doors.shown[who]) if doors.shown[who] else {}
    url = path.replace("SID", doors.session_id)
    if what == "follow":
        # A stream would never end: told that it knows all there is, it has nothing to say.
        await doors.api.request(
            "DELETE", f"{SESSIONS}/{doors.session_id}", headers=bearer(ADMIN_KEY)
        )
        headers["Last-Event-ID"] = "9" * 15
    return (await doors.api.request(method, url, json=body, headers=headers)).status_code


@pytest.mark.parametrize("what", CALLS)
async def test_each_may_do_what_is_theirs_and_nothing_else(doors: Doors, what: str) -> None:
    """Whoever isn't let in hears 401 or 403, and nothing happens."""
    for who in doors.shown:
        if what in MAY.get(who, ()):
            continue
        status = await call(doors, what, who)
        assert status in (401, 403), f"{who} may {what}: {status}"


@pytest.mark.parametrize(("who", "what"), [(who, what) for who, may in MAY.items() for what in may])
async def test_who_may_is_let_in(doors: Doors, who: str, what: str) -> None:
    """Admins do all; a key does what its scopes say; a client what its session needs."""
    assert await call(doors, what, who) in (200, 202, 204)
