"""Does a receipt of a real registry prove the order, and show who was overtaken?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from shared.states import Reason
from shared.store import Registry, trail
from tests.support.operator import Operator, open_sessions
from tests.support.redis_server import POOL, RawRedis
from tests.support.replica import BeginNode
from tests.support.wait import wait_until

Filed: TypeAlias = Callable[[str], str]


@pytest.fixture
def filed(tmp_path: Path) -> Filed:
    """Puts a text on paper and says where."""

    def file(text: str) -> str:
        path = tmp_path / "receipt.jsonl"
        path.write_text(text)
        return str(path)

    return file


async def test_a_real_history_is_proven_fair(
    registry: Registry, operator: Operator, begin_node: BeginNode, filed: Filed
) -> None:
    """A death, returns, a cancelled one, some who still wait: checked without the registry."""
    first = await begin_node(node_id="node-a", capacity=2, ttl_s=0.2)
    names = await open_sessions(registry, 5)
    for name in names[:2]:
        await first.play(name)

    async def is_dead() -> bool:
        return bool((await registry.sweep_nodes(POOL)).dead_nodes)

    await wait_until(is_dead, "the node is declared dead")
    await registry.cancel(names[2], Reason.CLIENT_STOP)
    second = await begin_node(node_id="node-b", capacity=2)
    await second.play(names[0])
    await second.end(names[0], Reason.COMPLETED)
    exported = await operator.says("receipt", "--since", await _since_the_first(registry))
    assert exported.status == 0
    paper = filed(exported.text)
    told = await Operator("redis://127.0.0.1:1/0").says("receipt", "--verify", paper)
    assert (told.status, told.lines[1]) == (0, "Nobody was overtaken.")
    assert told.lines[0].endswith(": 5 admissions.")
    checked = (await operator.says("receipt", "--verify", paper, "--json")).json
    assert checked == {
        "pool": "default",
        "complete": True,
        "admissions": 5,
        "waits": 7,
        "findings": [],
    }


async def test_an_overtaking_in_the_registry_is_named(
    registry: Registry,
    operator: Operator,
    begin_node: BeginNode,
    raw_redis: RawRedis,
    filed: Filed,
) -> None:
    """Somebody was moved to the end of the line by hand: the next one stepped on before it."""
    moved, gains = await open_sessions(registry, 2)
    raw_redis.zincrby("gr:{default}:q", 10_000, moved)
    await begin_node()
    paper = filed((await operator.says("receipt", "--since", "1h")).text)
    told = await operator.says("receipt", "--verify", paper)
    assert told.status == 1
    assert f"{moved} was overtaken by {gains}" in " ".join(told.text.split())
    assert "whoever has the lowest ticket steps on first" in " ".join(told.text.split())
    (finding,) = (await operator.says("receipt", "--verify", paper, "--json")).json["findings"]
    assert (finding["rule"], finding["session_id"], finding["by"]) == (
        "lowest_first",
        moved,
        gains,
    )
    raw_redis.flushall()


async def test_a_changed_receipt_is_noticed(
    registry: Registry, operator: Operator, filed: Filed
) -> None:
    """It proves nothing any more."""
    await open_sessions(registry, 1)
    text = (await operator.says("receipt", "--since", "1h")).text
    paper = filed(text.replace('"by": "queued"', '"by": "before"'))
    told = await operator.says("receipt", "--verify", paper)
    assert told.status == 1
    assert told.lines[0].startswith("This receipt was changed after it was written")


async def test_a_window_that_begins_later_knows_who_waited_before(
    registry: Registry, operator: Operator, begin_node: BeginNode, filed: Filed
) -> None:
    """From tickets, and from the line for who never moved."""
    first, second, third = await open_sessions(registry, 3)
    facts = await registry.inspection.look(POOL)
    begin = f"{(facts.at_ms + 1) / 1000:.3f}"

    async def has_begun() -> bool:
        return (await registry.inspection.look(POOL)).at_ms > facts.at_ms + 2

    await wait_until(has_begun, "the window has begun")
    await begin_node()
    await registry.cancel(second, Reason.CLIENT_STOP)
    lines = (await operator.says("receipt", "--since", begin)).lines
    waits = {line.split('"')[3]: line for line in lines[1:] if line.startswith('{"wait"')}
    assert waits.keys() == {first, second, third}
    assert all('"from": null' in line for line in waits.values())
    assert '"left_by": "assigned"' in waits[first]
    assert '"left_by": "ended: client_stop"' in waits[second]
    assert '"left_by": "waiting"' in waits[third]


async def test_a_trimmed_trail_is_said(
    registry: Registry,
    operator: Operator,
    raw_redis: RawRedis,
    filed: Filed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The window begins where the trail does; what follows is still checked."""
    monkeypatch.setattr(trail, "PAGE", 2)
    await open_sessions(registry, 6)
    raw_redis.xtrim("gr:{default}:ev", maxlen=4, approximate=False)
    paper = filed((await operator.says("receipt", "--since", "1h")).text)
    told = await operator.says("receipt", "--verify", paper)
    assert told.status == 0
    assert "trimmed or lost" in " ".join(told.text.split())


async def test_a_trail_that_was_lost_is_no_complete_one(
    registry: Registry, operator: Operator, raw_redis: RawRedis, filed: Filed
) -> None:
    """What Redis lost within the window can't be proven; what came after it is checked."""
    await open_sessions(registry, 2)
    since = await _since_the_first(registry)
    raw_redis.flushall()
    await registry.check((POOL,))
    nothing = filed((await operator.says("receipt", "--since", since)).text)
    assert not (await operator.says("receipt", "--verify", nothing, "--json")).json["complete"]
    await open_sessions(registry, 2)
    first = await registry.trail.first(POOL)
    assert first is not None
    exported = await operator.says("receipt", "--since", since)
    assert f'"from": "{first.id}"' in exported.lines[0]
    paper = filed(exported.text)
    told = await operator.says("receipt", "--verify", paper)
    assert told.status == 0
    assert "trimmed or lost" in " ".join(told.text.split())
    checked = (await operator.says("receipt", "--verify", paper, "--json")).json
    assert (checked["complete"], checked["waits"]) == (False, 2)


async def _since_the_first(registry: Registry) -> str:
    """Return the moment of the trail's oldest entry."""
    first = await registry.trail.first(POOL)
    assert first is not None
    return f"{first.place[0] / 1000:.3f}"


async def test_a_window_from_before_all_times_is_all_that_is_known(
    registry: Registry, operator: Operator, filed: Filed
) -> None:
    """It is no mistake to ask for everything."""
    (name,) = await open_sessions(registry, 1)
    told = await operator.says("receipt", "--since", "99999999999h")
    assert told.status == 0
    assert name in told.text
    assert (await operator.says("receipt", "--verify", filed(told.text))).status == 0
