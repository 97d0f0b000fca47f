"""What becomes of keys when they are revoked, when Redis is emptied, and when it is out?"""

from __future__ import annotations

import asyncio

import httpx
import pytest

from control_plane import key_ring
from shared.access_keys import ApiKey, Scope, id_of
from shared.ids import new_session_id
from shared.store import Registry
from tests.support.closed import ADMIN_KEY, add_key, bearer, closed
from tests.support.event_stream import following
from tests.support.manual_clock import ManualClock
from tests.support.redis_server import POOL, RawRedis, StartRedis
from tests.support.replica import SESSIONS, Client, assert_problem, served, settings_for
from tests.support.room_service import RoomService
from tests.support.wait import wait_until

HEALTH = "/v1/stream/health"


async def refused(api: Client, key: str, path: str = SESSIONS) -> httpx.Response:
    """Return the first answer that isn't friendly."""

    async def unfriendly() -> httpx.Response | None:
        answer = await api.get(path, headers=bearer(key))
        return answer if answer.status_code >= 400 else None

    answer = await wait_until(unfriendly, "the key is refused")
    assert answer is not None
    return answer


async def test_a_new_key_works_at_once_on_every_replica(
    redis_url: str, registry: Registry, room_service: RoomService
) -> None:
    """They have just read the keys, and read them again before they refuse it."""
    async with (
        closed(redis_url, room_service.url) as (_, one),
        closed(redis_url, room_service.url) as (_, other),
    ):
        for api in (one, other):
            await refused(api, "grk_aaaaaaaa_" + "a" * 32)
            key = await add_key(registry, Scope.ADMIN)
            assert (await api.get(SESSIONS, headers=bearer(key))).status_code == 200


async def test_a_revoked_key_is_refused_everywhere_soon(
    redis_url: str, registry: Registry, room_service: RoomService
) -> None:
    """Each replica reads the keys every two seconds."""
    async with (
        closed(redis_url, room_service.url) as (_, one),
        closed(redis_url, room_service.url) as (_, other),
    ):
        key = await add_key(registry, Scope.ADMIN)
        for api in (one, other):
            assert (await api.get(SESSIONS, headers=bearer(key))).status_code == 200
        await registry.access.revoke(id_of(key) or "", who="ann")
        for api in (one, other):
            assert_problem(await refused(api, key), 401, "bad_api_key")
    assert key_ring.READ_EVERY_S <= 2


async def test_a_stream_tells_a_revoked_key_nothing_more(
    redis_url: str, registry: Registry, room_service: RoomService
) -> None:
    """It ends at the next thing that it would have told."""
    async with closed(redis_url, room_service.url) as (replica, api):
        made = (await api.post(SESSIONS, json={"identity": "a"}, headers=bearer(ADMIN_KEY))).json()
        key = await add_key(registry, Scope.READ)
        async with following(replica.app, made["session_id"], credential=key) as stream:
            await stream.event("queued")
            await registry.access.revoke(id_of(key) or "", who="ann")
            await refused(api, key, f"{SESSIONS}/{made['session_id']}")
            await api.delete(f"{SESSIONS}/{made['session_id']}", headers=bearer(ADMIN_KEY))
            await stream.ended()


async def test_an_emptied_registry_opens_nothing(
    redis_url: str, registry: Registry, room_service: RoomService, raw_redis: RawRedis
) -> None:
    """All keys of the registry are gone; the admin key isn't one of them, nor are tokens."""
    async with closed(redis_url, room_service.url) as (_, api):
        key = await add_key(registry, Scope.ADMIN)
        created = (await api.post(SESSIONS, json={"identity": "a"}, headers=bearer(key))).json()
        raw_redis.flushall()
        assert_problem(await refused(api, key), 401, "bad_api_key")
        assert_problem(await api.get(SESSIONS), 401, "no_credentials")
        assert (await api.get(SESSIONS, headers=bearer(ADMIN_KEY))).status_code == 200
        path = f"{SESSIONS}/{created['session_id']}"
        gone = await api.get(path, headers=bearer(created["session_token"]))
        assert_problem(gone, 404, "unknown_session")
        assert (await api.get(HEALTH)).status_code == 200
    raw_redis.flushall()


async def test_while_redis_is_out_nobody_is_let_in_and_nobody_thrown_out(
    start_redis: StartRedis, room_service: RoomService
) -> None:
    """A key that can't be looked up is neither right nor wrong: come back. No key stays no key."""
    server = start_redis()
    registry = Registry.connect(server.url)
    key = await add_key(registry, Scope.ADMIN)
    await registry.aclose()
    async with closed(server.url, room_service.url) as (replica, api):
        assert (await api.get(SESSIONS, headers=bearer(key))).status_code == 200
        server.kill()
        unknown = "grk_aaaaaaaa_" + "a" * 32
        assert_problem(await api.get(SESSIONS, headers=bearer(unknown)), 503, "store_unavailable")
        assert_problem(await api.get(SESSIONS), 401, "no_credentials")
        down = await api.post(SESSIONS, json={"identity": "a"}, headers=bearer(ADMIN_KEY))
        assert_problem(down, 503, "store_unavailable")
        assert replica.access.is_open is False


async def test_after_five_seconds_without_redis_no_key_is_valid(
    start_redis: StartRedis,
) -> None:
    """Also one that was: it may have been revoked meanwhile, where this replica can't see it."""
    server, clock = start_redis(), ManualClock()
    registry = Registry.connect(server.url)
    key_id = id_of(await add_key(registry, Scope.READ)) or ""
    ring = key_ring.KeyRing(registry=registry, clock=clock)
    assert await ring.find(key_id)
    server.kill()
    clock.move(key_ring.GOOD_FOR_S - 0.1)
    assert await ring.find(key_id)
    clock.move(0.1)
    with pytest.raises(Exception, match="can't be reached"):
        await ring.find(key_id)
    server.start()
    clock.move(key_ring.LOOK_AGAIN_S)
    assert await ring.find(key_id) is None  # this server kept nothing over its end
    await ring.aclose()
    await registry.aclose()


async def test_strangers_don_t_make_a_replica_ask_redis_each_time(redis_url: str) -> None:
    """Fifty who show made-up keys at once wait for the same look, or for the one after it."""
    registry = Registry.connect(redis_url)
    ring = key_ring.KeyRing(registry=registry)
    looks: list[str] = []
    read = registry.access.keys

    async def counted() -> dict[str, ApiKey]:
        looks.append("look")
        return await read()

    registry.access.keys = counted  # type: ignore[method-assign]
    made_up = [f"nobody{number}" for number in range(50)]
    assert set(await asyncio.gather(*map(ring.find, made_up))) == {None}
    assert len(looks) <= 2
    await ring.aclose()
    await registry.aclose()


async def test_identities_of_two_keys_are_counted_apart(
    redis_url: str, registry: Registry, room_service: RoomService
) -> None:
    """One tenant's alice doesn't keep the other's out, and idempotency keys don't meet."""
    async with closed(redis_url, room_service.url, max_waiting_per_identity=1) as (_, api):
        keys = [await add_key(registry, Scope.CREATE) for _ in range(2)]
        ids = set()
        for key in keys:
            headers = bearer(key) | {"Idempotency-Key": "same"}
            first = await api.post(SESSIONS, json={"identity": "alice"}, headers=headers)
            second = await api.post(SESSIONS, json={"identity": "alice"}, headers=bearer(key))
            assert first.status_code == 202
            assert_problem(second, 429, "identity_limit")
            assert second.headers["retry-after"]
            ids.add(first.json()["session_id"])
        assert len(ids) == 2


async def test_what_an_admin_does_over_http_is_noted(
    redis_url: str, registry: Registry, room_service: RoomService
) -> None:
    """Who, what, to what and how it went; a refusal by the registry, too."""
    async with closed(redis_url, room_service.url) as (_, api):
        boss = await add_key(registry, Scope.ADMIN, name="boss")
        made = (await api.post(SESSIONS, json={"identity": "a"}, headers=bearer(boss))).json()
        session = made["session_id"]
        nobody = new_session_id(POOL)
        for key, target in ((boss, session), (ADMIN_KEY, nobody)):
            await api.delete(f"/v1/queue/{target}", headers=bearer(key))
        acts = [event for event in await registry.trail.latest(POOL, 9) if event.what == "act"]
    assert [(act.who, act.on, act.why) for act in acts] == [
        (f"boss ({id_of(boss)})", session, "cancel_waiting: done"),
        ("admin (admin)", nobody, "cancel_waiting: unknown_session"),
    ]


async def test_an_open_replica_asks_nobody_but_believes_no_wrong_token(
    redis_url: str, room_service: RoomService
) -> None:
    """A session's token that is shown must be right; whatever else is shown doesn't matter."""
    async with served(settings_for(redis_url, room_service.url)) as (_, api):
        made, other = [(await api.create()).json() for _ in range(2)]
        path = f"{SESSIONS}/{made['session_id']}"
        for credential in ("nonsense", ADMIN_KEY, made["session_token"]):
            assert (await api.get(path, headers=bearer(credential))).status_code == 200
        wrong = await api.get(path, headers=bearer(other["session_token"]))
        assert_problem(wrong, 403, "bad_session_token")
        assert (await api.get(SESSIONS)).status_code == 200
        assert (await api.get("/v1/service/metadata")).json()["closed"] is False
