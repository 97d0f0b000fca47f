"""Do two adjacent releases get along on one registry, as during a roll-out (R15)?

Each process brings its own scripts, so calls of both sets meet the same keys in any order.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from shared.errors import StartupError
from shared.store import Registry, schema
from shared.store.keys import SCHEMA
from shared.store.scripts import Argument, load
from tests.support.audit import violations
from tests.support.key_dump import read_all
from tests.support.redis_server import POOL, RawRedis
from tests.support.scenario import Reply, World, sid

PREVIOUS = Path(__file__).parent / "previous_release"
PREVIOUS_NAMES = frozenset(path.stem for path in PREVIOUS.glob("*.lua"))


class MixedWorld(World):
    """A world in which each call may be one of the release before."""

    def __init__(self, raw: RawRedis, is_previous: Callable[[str], bool]) -> None:
        super().__init__(raw)
        self._is_previous = is_previous

    def run(self, script: str, /, **named: Argument) -> Reply:
        """Call the script of one release or the other, and look at all keys after it."""
        if script in PREVIOUS_NAMES and self._is_previous(script):
            told = self._run_previous(script, **named)
        else:
            told = super().run(script, **named)
        assert violations(read_all(self.raw)) == [], f"after {script}"
        return told

    def _run_previous(self, script: str, /, **named: Argument) -> Reply:
        """It knows fewer arguments, and what comes back has fewer fields."""
        loaded = load(script, PREVIOUS)
        known = {name: value for name, value in named.items() if name in loaded.argv}
        arguments = loaded.arguments({"now_ms": self.now_ms, **known})
        try:
            reply = self.raw.evalsha(loaded.digest, 1, self.prefix, *arguments)
        except redis.exceptions.NoScriptError:
            reply = self.raw.eval(loaded.source, 1, self.prefix, *arguments)
        told = loaded.check(reply)
        if script in ("end_session", "give_back") and told[0] != "fenced":
            self._drop(named)
        return told


def a_day(world: World) -> None:
    """Two nodes and five sessions: they wait, play, move, end, and a node dies."""
    world.add_node("n1", capacity=2)
    world.add_node("n2", capacity=1)
    for letter in "abc":
        world.bring(letter, "running")
    world.open("d", "e", d_queued=0)
    assert world.line() == "de"
    world.run("touch_sessions", session_ids=sid("d"), replica="")
    world.pass_time(2)
    for name in ("n1", "n2"):
        world.beat(name)
    world.run("end_session", **world.owner("c"), reason="completed", error="")
    assert world.line() == "e"
    world.bring("d", "running")
    world.run("give_back", **world.giving("d", "node_shutdown", capacity=2))
    assert world.state("d").startswith("assigned")
    world.bring("d", "joining_room")
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    world.beat("n1")
    world.run("end_session", **world.owner("a"), reason="client_stop", error="")
    assert world.line() == ""
    world.bring("e", "running")
    for _ in range(5):
        world.pass_time(2)
        world.beat("n2")
    assert world.run("sweep_nodes", budget=64)[1][0] == ["n1"]
    world.run("sweep_deadlines", budget=64)
    alive = [letter for letter in "bde" if world.state(letter) != "queued"]
    assert len(alive) == 1
    again = world.add_node("n1", boot_id="boot-2", capacity=2)
    for letter in "bde":
        if world.state(letter) == "assigned n1":
            world.bring(letter, "running")
    assert [world.state(letter).split()[0] for letter in "ac"] == ["closed", "closed"]
    assert world.line() == ""
    world.run("retire_node", node_id="n1", incarnation=again.incarnation)


@pytest.mark.parametrize("seed", range(12))
def test_any_mixture_of_calls_keeps_the_registry_sound(raw_redis: RawRedis, seed: int) -> None:
    """Old and new ones in any order: the same story, and every key right after each of them."""
    chance = random.Random(seed)
    a_day(MixedWorld(raw_redis, lambda _script: chance.random() < 0.5))


NODES_CALLS = frozenset(
    {"register_node", "beat_node", "advance_session", "end_session", "give_back", "retire_node"}
)


@pytest.mark.parametrize("is_node_older", [True, False], ids=["old node", "old replica"])
def test_replicas_and_nodes_may_be_upgraded_in_any_order(
    raw_redis: RawRedis, is_node_older: bool
) -> None:
    """Either side first."""
    a_day(MixedWorld(raw_redis, lambda script: (script in NODES_CALLS) == is_node_older))


def test_a_node_of_the_release_before_is_given_sessions_after_a_failover(
    raw_redis: RawRedis,
) -> None:
    """It doesn't say in which generation it beat; nobody waits for that."""
    world = MixedWorld(raw_redis, lambda script: script in NODES_CALLS)
    world.add_node("n1")
    world.open("x")
    world.restart()
    world.run("sweep_deadlines", budget=64)
    world.open("a")
    for _ in range(3):
        world.pass_time(2)
        world.beat("n1")
        world.run("sweep_deadlines", budget=64)
    assert world.state("x") == "assigned n1"


# Further apart than that.


def test_the_highest_schema_stays_noted(world: World) -> None:
    """A process that is one behind doesn't take it back."""
    world.add_node()
    assert world.fact("ctr", "schema") == str(SCHEMA)
    world.raw.hset(f"{world.prefix}ctr", "schema", SCHEMA + 1)
    world.open("a")
    assert world.fact("ctr", "schema") == str(SCHEMA + 1)


@pytest.mark.parametrize("steps", [-1, 0, 1])
async def test_adjacent_releases_start(registry: Registry, raw_redis: RawRedis, steps: int) -> None:
    """One ahead, one behind, or the same."""
    raw_redis.hset(f"gr:{{{POOL}}}:ctr", "schema", SCHEMA + steps)
    await registry.check([POOL])


@pytest.mark.parametrize(("steps", "words"), [(2, "too new"), (-2, "too old")])
async def test_a_release_further_apart_refuses_to_start(
    registry: Registry, raw_redis: RawRedis, steps: int, words: str
) -> None:
    """With a sentence that says which way; other pools don't matter to it."""
    raw_redis.hset(f"gr:{{{POOL}}}:ctr", "schema", SCHEMA + steps)
    with pytest.raises(StartupError, match=words):
        await registry.check([POOL])
    await registry.check(["other"])


def test_a_registry_that_nobody_has_used_suits_any_release() -> None:
    """And a release compares with its own number."""
    schema.refuse(POOL, 4, known=5)
    with pytest.raises(StartupError):
        schema.refuse(POOL, 3, known=5)
