"""What is asked of Redis at the start: refused, or a concern that an operator should know."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import redis
from structlog.testing import capture_logs

from shared.errors import StartupError
from shared.redis_url import Kind
from shared.store import Registry
from shared.store.server_check import ServerFacts, concerns, refuse
from tests.support.redis_server import RawRedis, StartRedis
from tests.support.replica import served, settings_for
from tests.support.room_service import RoomService
from tests.support.wait import scaled_s, wait_until

SOUND = ServerFacts(
    version="7.0.15",
    eviction="noeviction",
    mode="standalone",
    serves_all_slots=True,
    keeps_log=True,
    clock_ahead_s=0.2,
)


@pytest.mark.parametrize(
    ("server", "kind", "words"),
    [
        (replace(SOUND, version="6.2.14"), Kind.SERVER, "6.2.14; Greenroom needs 7.0"),
        (replace(SOUND, eviction="volatile-ttl"), Kind.SENTINEL, "may evict keys"),
        (replace(SOUND, mode="sentinel"), Kind.SERVER, "is a Sentinel"),
        (replace(SOUND, mode="cluster", serves_all_slots=False), Kind.SERVER, "one of several"),
    ],
)
def test_a_server_that_could_lose_sessions_is_refused(
    server: ServerFacts, kind: Kind, words: str
) -> None:
    """In one sentence, with the way out."""
    with pytest.raises(StartupError, match=words) as told:
        refuse(server, kind)
    assert told.value.try_


@pytest.mark.parametrize(
    ("server", "kind"),
    [
        (SOUND, Kind.SENTINEL),
        (replace(SOUND, version="9.1.2"), Kind.SERVER),
        (replace(SOUND, mode="cluster"), Kind.SERVER),
        (replace(SOUND, mode="cluster", serves_all_slots=False), Kind.CLUSTER),
    ],
)
def test_a_sound_server_is_no_concern(server: ServerFacts, kind: Kind) -> None:
    """One server, a cluster of one, a part of a cluster that is named as such."""
    refuse(server, kind)
    assert concerns(server) == ()


@pytest.mark.parametrize(
    ("ahead_s", "words"), [(3.21, "is 3.2 s ahead of"), (-3600.0, "is 3600.0 s behind")]
)
def test_clocks_that_differ_are_a_concern(ahead_s: float, words: str) -> None:
    """With what that does and what it doesn't."""
    (told,) = concerns(replace(SOUND, clock_ahead_s=ahead_s))
    assert words in told
    assert "order, leases and deadlines follow Redis's clock" in told


async def test_a_server_that_forgets_is_a_concern_in_log_and_health(
    start_redis: StartRedis, room_service: RoomService
) -> None:
    """It stops nobody; CONFIG SET cures it for the next start."""
    server = start_redis("--appendonly", "no")
    async with served(settings_for(server.url, room_service.url)) as (replica, api):
        with capture_logs() as logs:
            await replica.registry.check()
        health = (await api.get("/v1/service/health")).json()
    (concern,) = health["concerns"]
    assert "keeps no append-only file" in concern
    told = {line["event"]: line for line in logs}
    assert told["redis_concern"]["text"] == concern
    assert told["redis_concern"]["log_level"] == "warning"
    assert abs(told["redis_checked"]["clock_ahead_ms"]) < 1000
    with server.client() as client:
        client.config_set("appendonly", "yes")
    registry = Registry.connect(server.url)
    await registry.check()
    assert registry.concerns == ()
    await registry.aclose()


async def test_a_server_that_is_loading_its_data_is_waited_for(start_redis: StartRedis) -> None:
    """It answers some questions by then, with less than the truth: no reason to refuse it."""
    server = start_redis("--appendonly", "yes", "--key-load-delay", "60")
    with server.client() as client, client.pipeline(transaction=False) as batch:
        for number in range(16_384):
            batch.set(f"filler:{number}", number, ex=60)
        batch.execute()
    server.kill()
    starting = asyncio.create_task(asyncio.to_thread(server.start))
    with server.client() as client:
        await wait_until(lambda: _is_loading(client), "it loads its data", timeout_s=20)
    registry = Registry.connect(server.url)
    await registry.check(["default"], within_s=scaled_s(20))
    assert registry.concerns == ()
    await registry.aclose()
    await starting
    with server.client() as client:
        client.flushall()


def _is_loading(client: RawRedis) -> bool:
    try:
        return bool(client.info("persistence")["loading"])
    except redis.ConnectionError:
        return False
