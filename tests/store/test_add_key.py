"""add_key: one more API key is let in, and nothing is kept that could be used as one."""

from __future__ import annotations

import pytest

from shared.access_errors import TooManyKeys
from shared.access_keys import ApiKey, Scope, digest_of, new_key
from shared.store import Registry, access, keys
from shared.store.scripts import Argument
from tests.support.redis_server import RawRedis
from tests.support.scenario import World

NEW: dict[str, Argument] = {
    "key_id": "abcdefgh",
    "record": "{}",
    "told": "backend: create",
    "who": "ann@ops",
    "most": 2,
}


def test_a_key_is_added_once_and_written_to_the_trail(world: World) -> None:
    """Under its id; another record under the same id is refused."""
    assert world.call("add_key", **NEW)[0] == "added"
    assert world.changes == {"keys abcdefgh": "{}", "ev 1": "key_added backend: create"}
    assert world.call("add_key", **NEW | {"record": "other"})[0] == "taken"
    assert world.changes == {}


def test_there_is_a_most_of_keys(world: World) -> None:
    """Each replica holds all of them."""
    world.run("add_key", **NEW)
    world.run("add_key", **NEW | {"key_id": "b2345672"})
    assert world.call("add_key", **NEW | {"key_id": "c2345672"})[0] == "full"
    assert world.changes == {}
    assert world.run("add_key", **NEW)[0] == "added"  # a repeat of one that is there


def record(key: str, *scopes: Scope) -> ApiKey:
    """Return what is kept of *key*."""
    return ApiKey(
        key_id=key.split("_")[1], name="a", scopes=frozenset(scopes), digest=digest_of(key)
    )


async def test_nothing_of_a_key_is_kept_but_its_digest(
    registry: Registry, raw_redis: RawRedis
) -> None:
    """It is read back as it was written, and its secret stands nowhere."""
    key = new_key()
    kept = record(key, Scope.READ, Scope.CREATE)
    await registry.access.add(kept, who="ann")
    assert await registry.access.keys() == {kept.key_id: kept}
    stored = raw_redis.hgetall(keys.api_keys_key())
    trail = raw_redis.xrange(keys.trail_key(keys.ACCESS))
    assert key.rsplit("_", 1)[1] not in f"{stored} {trail}"


async def test_what_is_no_record_of_ours_is_no_key(registry: Registry, raw_redis: RawRedis) -> None:
    """Nonsense in Redis lets nobody in, and doesn't keep the others out."""
    await registry.access.add(record(new_key(), Scope.READ), who="ann")
    other = '{"name":"a","scopes":["read"],"digest":"%s","created":0}'
    digests = (other % "", other % ("é" * 64), other % ("A" * 64), other.replace('"%s"', "7"))
    nonsense = (
        *digests,
        "",
        "{",
        "[]",
        "7",
        "{}",
        '{"name":"a","scopes":["root"],"digest":"","created":0}',
    )
    for number, text in enumerate(nonsense):
        raw_redis.hset(keys.api_keys_key(), f"k{number}", text)
    assert len(await registry.access.keys()) == 1


async def test_one_too_many_is_an_error(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what to do."""
    monkeypatch.setattr(access, "MOST_KEYS", 0)
    with pytest.raises(TooManyKeys):
        await registry.access.add(record(new_key(), Scope.READ), who="ann")
