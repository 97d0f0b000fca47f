"""The tour with redis-cli in the documents: every command of it, on a live registry."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from shared.store import Registry
from tests.support.operator import open_sessions
from tests.support.played_node import PlayedNode
from tests.support.redis_server import POOL, RedisServer, StartRedis
from tests.support.wait import wait_until

DOCUMENT = Path(__file__).parents[2] / "shared/README.md"
TITLE = "## A tour with redis-cli"
LEASE_S = 0.5


def tour() -> list[str]:
    """Return the commands of the tour, in order."""
    text = DOCUMENT.read_text(encoding="utf-8").split(TITLE, 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^redis-cli (.+)$", text, re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What there is to see: two sessions, one of which was on a node that died."""

    moved: str
    waiting: str
    ticket: str


async def set_up(server: RedisServer, registry: Registry) -> Scene:
    """A node dies with a session; another node plays it on, and somebody waits."""
    await PlayedNode.begin(registry, server.url, node_id="node-dead", ttl_s=LEASE_S)
    moved, waiting = await open_sessions(registry, 2)

    async def is_dead() -> bool:
        return "node-dead" in (await registry.sweep_nodes(POOL)).dead_nodes

    await wait_until(is_dead, "the first node is declared dead")
    node = await PlayedNode.begin(registry, server.url, node_id="node-live", capacity=1)
    await node.play(moved)
    await PlayedNode.begin(registry, server.url, node_id="node-none", capacity=0)
    with server.client() as raw:
        ticket = raw.hget(f"gr:{{{POOL}}}:s:{moved}", "ticket")
    return Scene(moved=moved, waiting=waiting, ticket=str(ticket))


EXPECTED = {
    "q' 0 -1": ["WAITING"],
    "ZCARD": ["1"],
    "nodes' 0 -1": ["node-live"],
    "n:NODE": ["state", "busy", "capacity"],
    "ns:NODE' 0 -1": ["MOVED"],
    "free": [""],
    "s:SESSION": ["state", "running", "ticket", "t_session"],
    "sd:SESSION": ["identity"],
    "XRANGE": ["queued", "returned", "node_died", "running", "MOVED"],
    "ZSCORE": [""],
    "EXISTS": ["0"],
    "n:DEAD_NODE": ["state", "dead"],
    "XREVRANGE": ["node_died", "returned"],
    "ctr": ["rt", "ticket", "n_nodes_died"],
}
"""Part of a command → what its reply must hold."""


def expected(command: str) -> list[str]:
    """Return what the reply to a command of the tour must hold."""
    for part, words in EXPECTED.items():
        if re.search(rf"\b{re.escape(part)}", command):
            return words
    pytest.fail(f"nothing is expected of the new command of the tour: {command}")


def answer(redis_cli: str, socket_path: str, words: str) -> str:
    """Run one command as a person does and return what is shown; an error fails the test."""
    told = subprocess.run(
        [redis_cli, "-s", socket_path, "-e", *shlex.split(words)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, f"{words}: {told.stderr}"
    return told.stdout


async def test_every_command_of_the_tour_shows_what_it_says(start_redis: StartRedis) -> None:
    """With the real redis-cli, so that quotes and words are right, too."""
    if (redis_cli := shutil.which("redis-cli")) is None:
        pytest.skip("redis-cli is not installed (Debian's package is redis-tools)")
    server = start_redis()
    registry = Registry.connect(server.url)
    scene = await set_up(server, registry)
    await registry.aclose()
    commands = tour()
    assert len(commands) == len(EXPECTED)
    for command in commands:
        words = (
            command.replace("DEAD_NODE", "node-dead")
            .replace("NODE", "node-live")
            .replace("SESSION", scene.moved)
            .replace("TICKET", scene.ticket)
        )
        told = answer(redis_cli, server.socket_path, words)
        for word in expected(command):
            meant = word.replace("WAITING", scene.waiting).replace("MOVED", scene.moved)
            assert meant in told, f"{command} doesn't show {meant}:\n{told}"
