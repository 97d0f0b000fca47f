"""What does an operator see and do who has the sessions of a node moved while people play?"""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
from pathlib import Path

import pytest

from shared.errors import NodeChanged
from shared.states import Admin
from shared.store import Registry
from tests.support.all_in_one import GREENROOM, clean_environment
from tests.support.operator import Operator, open_sessions
from tests.support.played_node import PlayedNode
from tests.support.redis_server import POOL
from tests.support.replica import BeginNode


async def a_busy_node(registry: Registry, begin_node: BeginNode) -> tuple[PlayedNode, str]:
    """One who plays on ``node-a``, which has two slots."""
    node = await begin_node(capacity=2)
    (playing,) = await open_sessions(registry, 1)
    await node.play(playing)
    return node, playing


async def test_the_preview_shows_whom_it_touches_and_changes_nothing(
    registry: Registry, operator: Operator, begin_node: BeginNode
) -> None:
    """Nobody is at the terminal to confirm it: it isn't done, and says how it would be."""
    _, playing = await a_busy_node(registry, begin_node)
    await begin_node(node_id="node-b", capacity=3)
    told = await operator.says("drain", "node-a", "--in", "120")
    assert told.status == 2
    assert told.lines[-1] == "Try: the same with --yes"
    shown = (await operator.says("drain", "node-a", "--in", "120", "--json")).json
    assert [one["session_id"] for one in shown["sessions"]] == [playing]
    assert (shown["done"], shown["admin"], shown["free_elsewhere"]) == (False, "open", 3)
    assert (await registry.snapshot(POOL)).nodes[0].admin is Admin.OPEN


async def test_a_live_drain_says_what_will_happen_and_when(
    registry: Registry, operator: Operator, begin_node: BeginNode
) -> None:
    """And everything that shows the node or its sessions shows it, until it's called off."""
    node, playing = await a_busy_node(registry, begin_node)
    told = await operator.says("drain", "node-a", "--in", "120", "--yes")
    assert told.status == 0
    assert told.lines[0].startswith("1 session of node-a would leave it in 2 m 0 s")
    assert told.lines[1] == "Elsewhere 0 slots are free; 0 sessions wait."
    assert playing in told.lines[3]
    assert told.lines[-1] == "greenroom resume node-a opens it again and calls it off."
    reply = await node.beat()
    assert reply.moves_in_s is not None
    assert 100 < reply.moves_in_s <= 120
    assert "closed by an operator: its sessions move in" in (await operator.says("nodes")).text
    assert "moves in" in (await operator.says("ps")).text
    explained = (await operator.says("explain", playing)).text
    assert "An operator drains node-a: it moves in" in explained
    assert "an operator drains node-a: its sessions move in 120 s" in explained
    assert (await operator.says("ps", "--json")).json["sessions"][0]["moves_in_s"] > 100
    assert (await operator.says("nodes", "--json")).json["nodes"][0]["moves_in_s"] > 100
    assert "node_drain" in (await operator.says("events", "--json")).text

    told = await operator.says("resume", "node-a")
    assert told.lines[1] == "Its countdown is called off: who is on it stays."
    assert (await node.beat()).moves_in_s is None
    assert "move" not in (await operator.says("ps")).text


@pytest.mark.parametrize(("answer", "admin"), [("n", Admin.OPEN), ("y", Admin.DRAINING)])
async def test_at_a_terminal_a_person_is_asked(
    registry: Registry,
    redis_url: str,
    begin_node: BeginNode,
    tmp_path: Path,
    answer: str,
    admin: Admin,
) -> None:
    """After the preview; whoever doesn't agree changes nothing."""
    _, playing = await a_busy_node(registry, begin_node)
    asked = ("drain", "node-a", "--in", "120", "--redis-url", redis_url, "--data-dir", tmp_path)
    shown = await asyncio.to_thread(at_a_terminal, answer, *asked)
    assert playing in shown
    assert "Move them? [y/N]" in shown
    assert ("Nothing was changed." in shown) == (admin is Admin.OPEN)
    assert (await registry.snapshot(POOL)).nodes[0].admin is admin


def at_a_terminal(answer: str, *arguments: str | Path) -> str:
    """Run a command at a terminal where somebody types one line; returns what was to be seen."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(GREENROOM), *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=clean_environment(),
    )
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode())
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert process.wait() == 0, seen
    return seen.decode()


async def test_a_node_without_sessions_is_drained_without_a_question(
    operator: Operator, begin_node: BeginNode
) -> None:
    """Nobody is touched."""
    await begin_node()
    told = await operator.says("drain", "node-a", "--in", "60")
    assert (told.status, told.lines[0]) == (
        0,
        "node-a is given no new sessions from now on.",
    )


async def test_a_program_gets_what_it_did(
    registry: Registry, operator: Operator, begin_node: BeginNode
) -> None:
    """With --yes the same object says that it's done."""
    _, playing = await a_busy_node(registry, begin_node)
    told = (await operator.says("drain", "node-a", "--in", "0", "--yes", "--json")).json
    assert (told["done"], told["admin"], told["in_s"]) == (True, "draining", 0)
    assert [one["session_id"] for one in told["sessions"]] == [playing]


async def test_the_second_of_two_operators_is_told_to_look_again(
    registry: Registry, operator: Operator, begin_node: BeginNode
) -> None:
    """The first one's order stands."""
    await begin_node()
    seen = ""
    assert (await operator.says("drain", "node-a", "--in", "60")).status == 0
    with pytest.raises(NodeChanged, match="look again"):
        await registry.set_node_admin(POOL, "node-a", Admin.OPEN, replaces=seen)


@pytest.mark.parametrize("seconds", ["-1", "86401", "soon"])
async def test_a_time_that_is_none_is_told(operator: Operator, seconds: str) -> None:
    """Nothing is looked at."""
    told = await operator.says("drain", "node-a", "--in", seconds)
    assert told.status == 2
