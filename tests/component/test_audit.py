"""Does the audit of a live registry find every contradiction, and change nothing?

Each test plants one by hand, as a bug, a second release or a person with redis-cli might.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from control_plane.evidence import audit
from shared.ids import new_session_id
from shared.rooms.admin import RoomAdmin
from shared.states import Reason
from shared.store import Registry
from tests.support.key_dump import changes, dump
from tests.support.operator import Operator, open_sessions
from tests.support.redis_server import POOL, RawRedis
from tests.support.replica import API_KEY, API_SECRET, BeginNode
from tests.support.room_service import RoomService

AT_ONCE = ("audit", "--json", "--again-after", "0")
GHOST = "default-" + "x" * 26
LIVEKIT_KEYS = ("--livekit-api-key", API_KEY, "--livekit-api-secret", API_SECRET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A pool with somebody on stage, somebody who waits and somebody who has left."""

    playing: str
    waiting: str
    gone: str


Plant = Callable[[RawRedis, str, Stage], object]


async def set_up(registry: Registry, begin_node: BeginNode) -> Stage:
    """Bring the pool into that state."""
    node = await begin_node()
    playing, waiting, gone = await open_sessions(registry, 3)
    await node.play(playing)
    await registry.cancel(gone, Reason.CLIENT_STOP)
    await node.beat()
    return Stage(playing=playing, waiting=waiting, gone=gone)


async def test_a_sound_pool_has_no_differences(
    registry: Registry, operator: Operator, begin_node: BeginNode, raw_redis: RawRedis
) -> None:
    """It is told what was compared, and that the rooms weren't."""
    await set_up(registry, begin_node)
    await registry.set_node_admin(POOL, "node-a", "draining")  # type: ignore[arg-type]
    before = dump(raw_redis)
    told = await operator.says("audit")
    assert (told.status, told.lines[-1]) == (0, "Nothing differs.")
    assert told.lines[0].startswith("Pool default: compared 2 live sessions, 1 node, ")
    assert "Rooms weren't compared" in told.lines[1]
    changed = changes(before, dump(raw_redis))
    assert [fact for fact in changed if not fact.endswith(" ttl")] == []  # those run by themselves


async def test_a_deployment_id_that_is_no_text_is_told(operator: Operator, tmp_path: Path) -> None:
    """Which file it is, and what to do about it."""
    (tmp_path / "deployment-id").write_bytes(b"\xff\xfe")
    told = await operator.says("audit")
    assert told.status == 2
    assert "deployment-id holds something else" in told.lines[0]


@pytest.mark.parametrize(
    ("given", "wanting"),
    [
        ((), "the media server with --livekit-url and whose rooms are meant with --deployment-id"),
        (("--deployment-id", "d"), "the media server with --livekit-url"),
        (
            ("--livekit-url", "ws://127.0.0.1:1", *LIVEKIT_KEYS),
            "whose rooms are meant with --deployment-id",
        ),
    ],
)
async def test_what_is_wanting_to_compare_rooms_is_told(
    registry: Registry, operator: Operator, given: tuple[str, ...], wanting: str
) -> None:
    """And nothing that was named."""
    await open_sessions(registry, 1)
    told = await operator.says("audit", *given, "--again-after", "0")
    assert told.lines[1] == f"Rooms weren't compared: name {wanting}."


PLANTS: dict[str, tuple[Plant, str, str]] = {
    "somebody waits and stands nowhere": (
        lambda raw, p, on: raw.zrem(f"{p}q", on.waiting), "place", "waiting"),
    "a place that isn't the ticket's": (
        lambda raw, p, on: raw.zincrby(f"{p}q", 5, on.waiting), "place", "waiting"),
    "an ended session in line": (
        lambda raw, p, on: raw.zadd(f"{p}q", {on.gone: 1}), "place", "gone"),
    "a slot that was lost": (
        lambda raw, p, on: raw.zrem(f"{p}ns:node-a", on.playing), "place", "playing"),
    "a slot of nobody": (
        lambda raw, p, on: raw.zadd(f"{p}ns:node-a", {GHOST: 1}), "slot", "node-a"),
    "a slot of somebody who waits": (
        lambda raw, p, on: raw.zadd(f"{p}ns:node-a", {on.waiting: 1}), "slot", "node-a"),
    "a quarantine that never ends": (
        lambda raw, p, on: raw.zadd(f"{p}ns:node-a", {f"!{on.gone}": 1}), "slot", "node-a"),
    "a full node that is given more": (
        lambda raw, p, on: raw.zadd(f"{p}free", {"node-a": 0}), "free", "node-a"),
    "a deadline that isn't the first": (
        lambda raw, p, on: raw.zincrby(f"{p}dl", 5, on.playing), "deadline", "playing"),
    "a state that was set back": (
        lambda raw, p, on: raw.hset(f"{p}s:{on.playing}", "state", "starting_pipeline"),
        "step", "playing"),
    "a state that doesn't exist": (
        lambda raw, p, on: raw.hset(f"{p}s:{on.waiting}", "state", "dancing"), "step", "waiting"),
    "an epoch that was never issued": (
        lambda raw, p, on: raw.hset(f"{p}ctr", "epoch", 5), "number", "playing"),
    "a request that vanishes": (
        lambda raw, p, on: raw.expire(f"{p}sp:{on.waiting}", 99), "lifetime", "waiting"),
    "an ended session that stays": (
        lambda raw, p, on: raw.persist(f"{p}sd:{on.gone}"), "lifetime", "gone"),
    "bytes that nobody holds": (
        lambda raw, p, on: raw.hincrby(f"{p}ctr", "image_bytes", 9), "image", "default"),
    "a key of nobody": (
        lambda raw, p, on: raw.set(f"{p}zzz", "1"), "key", "zzz"),
    "a request of nobody": (
        lambda raw, p, on: raw.set(f"{p}sp:{GHOST}", "1"), "key", f"sp:{GHOST}"),
    "a node's record that stays": (
        lambda raw, p, on: raw.hset(f"{p}n:node-z", "state", "dead"), "key", "n:node-z"),
    "a promise to a session that is gone": (
        lambda raw, p, on: raw.set(f"{p}idem:ab", f"{GHOST} f"), "key", "idem:ab"),
    "a node that holds what isn't its own": (
        lambda raw, p, on: raw.hincrby(f"{p}n:node-a", "strangers", 1), "node", "node-a"),
}  # fmt: skip


@pytest.mark.parametrize("planted", PLANTS)
async def test_a_contradiction_is_found_and_left_alone(
    registry: Registry,
    operator: Operator,
    begin_node: BeginNode,
    raw_redis: RawRedis,
    planted: str,
) -> None:
    """By part and subject; exit status 1, and every key as it was."""
    stage = await set_up(registry, begin_node)
    plant, part, subject = PLANTS[planted]
    plant(raw_redis, "gr:{default}:", stage)
    before = dump(raw_redis)
    told = await operator.says(*AT_ONCE)
    assert told.status == 1
    found = {(one["part"], one["subject"]) for one in told.json["differences"]}
    assert (part, getattr(stage, subject, subject)) in found
    changed = changes(before, dump(raw_redis))
    assert [fact for fact in changed if not fact.endswith(" ttl")] == []  # those run by themselves
    raw_redis.flushall()


async def test_what_differs_is_said_in_a_table(
    registry: Registry, operator: Operator, begin_node: BeginNode, raw_redis: RawRedis
) -> None:
    """Part, who, and what."""
    stage = await set_up(registry, begin_node)
    raw_redis.zrem("gr:{default}:q", stage.waiting)
    told = await operator.says("audit", "--again-after", "0")
    assert told.status == 1
    assert told.lines[-1] == f"▲ place  {stage.waiting}  waits and doesn't stand in line"
    raw_redis.flushall()


async def test_what_passes_within_a_heartbeat_is_no_difference(
    registry: Registry, begin_node: BeginNode, raw_redis: RawRedis
) -> None:
    """Only what two looks find counts."""
    stage = await set_up(registry, begin_node)
    raw_redis.zincrby("gr:{default}:dl", 5, stage.playing)

    looks = 0
    look = registry.inspection.node_ids

    async def node_ids(pool: str) -> list[str]:
        nonlocal looks
        looks += 1
        if looks > 2:  # each look asks twice
            raw_redis.zadd("gr:{default}:dl", {stage.playing: before})
        return await look(pool)

    before = raw_redis.zscore("gr:{default}:dl", stage.playing) - 5  # type: ignore[operator]
    registry.inspection.node_ids = node_ids  # type: ignore[method-assign]
    audited = await audit(registry, POOL, rooms=None, again_after_s=0)
    assert (audited.differences, looks) == ((), 4)


def metadata(deployment: str, epoch: int) -> str:
    """What a room says of itself."""
    return json.dumps({"deployment": deployment, "epoch": epoch})


async def test_rooms_are_compared_with_their_sessions(
    registry: Registry,
    redis_url: str,
    begin_node: BeginNode,
    room_service: RoomService,
    tmp_path: Path,
) -> None:
    """Ours alone: a room of another deployment is nobody's business here."""
    stage = await set_up(registry, begin_node)
    stranger = new_session_id(POOL)
    room_service.list_room(stage.playing, metadata("test", 1), participants=2)
    room_service.list_room(stranger, metadata("test", 1), participants=1)
    room_service.list_room(new_session_id(POOL), metadata("another", 1))
    room_service.list_room(new_session_id("elsewhere"), metadata("test", 1))
    rooms = Operator(
        redis_url,
        GREENROOM_DATA_DIR=str(tmp_path),
        GREENROOM_LIVEKIT_URL=room_service.url,
        GREENROOM_LIVEKIT_API_KEY=API_KEY,
        GREENROOM_LIVEKIT_API_SECRET=API_SECRET,
        GREENROOM_DEPLOYMENT_ID="test",
    )
    told = await rooms.says(*AT_ONCE)
    assert told.status == 1
    assert told.json["rooms"] == 2
    assert told.json["differences"] == [
        {
            "part": "room",
            "subject": stranger,
            "text": "has a room with 1 in it and no record",
        }
    ]
    room_service.down = True
    told = await rooms.says(*AT_ONCE)
    assert told.status == 2
    assert "The media server can't be reached" in told.lines[0]
    assert told.lines[1].startswith("Try: --livekit-url")


async def test_the_same_check_runs_without_a_scan(
    registry: Registry, begin_node: BeginNode, room_service: RoomService
) -> None:
    """As a replica does it now and then."""
    await set_up(registry, begin_node)
    rooms = RoomAdmin(room_service.url, API_KEY, API_SECRET, "test")
    audited = await audit(registry, POOL, rooms=rooms, with_keys=False)
    await rooms.aclose()
    assert (audited.differences, audited.keys, audited.rooms) == ((), None, 0)
    assert (audited.sessions, audited.nodes) == (2, 1)
