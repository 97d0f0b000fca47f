"""What does ``greenroom top`` show, once and live?

A real Redis and a played node; no replica is needed.
"""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shared.play_facts import PlayFacts, play_text
from shared.records import Owner
from shared.states import Reason
from shared.store import Registry
from tests.support.operator import Operator, open_sessions
from tests.support.played_node import PlayedNode
from tests.support.redis_server import RedisServer, StartRedis
from tests.support.replica import BeginNode
from tests.support.wait import scaled_s, wait_until

KEYS = {
    "pool", "sessions", "longest_wait_s", "slots", "nodes", "totals", "durations_s", "lately",
    "node_list",
}  # fmt: skip
DURATIONS = {
    "queue_wait", "readmission_wait", "first_frame", "recovery", "kill_to_first_frame", "slot_idle",
}  # fmt: skip


async def first_frame(registry: Registry, node: PlayedNode, session_id: str) -> None:
    """Play a session up to its first frame, as its node tells it."""
    await node.play(session_id)
    owner = Owner(
        node_id=node.node_id,
        incarnation=node.incarnation,
        session_id=session_id,
        epoch=node.residents[session_id].epoch,
    )
    assert await registry.note_first_frame(owner) == "noted"


async def one_handed_over(registry: Registry, node: PlayedNode) -> None:
    """One has played, the next one plays, and a third waits."""
    first, second, _ = await open_sessions(registry, 3)
    await first_frame(registry, node, first)
    await node.end(first, Reason.COMPLETED)
    await first_frame(registry, node, second)


def row(text: str, name: str) -> list[str]:
    """Return the cells of the line that begins with *name*."""
    line = next(line for line in text.splitlines() if line.startswith(name))
    return re.split(r" {2,}", line)[1:]


async def test_one_look_tells_line_slots_nodes_and_waits(
    registry: Registry, operator: Operator, begin_node: BeginNode
) -> None:
    """In at most a hundred columns; nothing was counted lately, so there is no such column."""
    await one_handed_over(registry, await begin_node())
    told = await operator.says("top", "--once")
    assert told.status == 0
    assert told.lines[0].startswith("Pool default: 1 waits, the first for ")
    assert told.lines[0].endswith("; 1 on stage")
    assert told.lines[1] == "1 of 1 slots taken; nodes: ● 1 serves"
    assert row(told.text, "came") == ["3"]
    assert row(told.text, "got a slot") == ["2"]
    assert row(told.text, "ended") == ["1"]
    assert row(told.text, "failed") == ["0"]
    assert row(told.text, "a slot empty between two users")[0] == "1"
    assert row(told.text, "from a slot to the first frame")[0] == "2"
    assert row(told.text, "kill to first frame") == ["0", "–", "–"]
    assert row(told.text, "node-a")[:2] == ["● busy", "■ 1/1"]
    assert "LAST" not in told.text
    assert max(map(len, told.lines)) <= 100


async def test_how_nodes_play_stands_beside_them(
    registry: Registry, operator: Operator, begin_node: BeginNode
) -> None:
    """In the nodes' own figures; a node where nobody plays has none."""
    node = await begin_node(node_id="node-a")
    await begin_node(node_id="node-b")
    facts = PlayFacts(
        playing=2, fps=15.9, fps_min=14.0, chunk_p95_s=0.4, in_time=0.975, late_p95_s=0.01
    )
    await registry.note_play("default", node.node_id, node.incarnation, play_text(facts))
    told = await operator.says("top", "--once")
    assert row(told.text, "node-a")[2:6] == ["14.0", "0.400 s", "98%", "0.010 s"]
    assert row(told.text, "node-b")[2].endswith(" s")
    assert max(map(len, told.lines)) <= 100
    listed = (await operator.says("top", "--once", "--json")).json["node_list"]
    assert [one["play"] and one["play"]["fps"] for one in listed] == [15.9, None]


async def test_programs_get_one_object(
    registry: Registry, operator: Operator, begin_node: BeginNode
) -> None:
    """Under names that stay."""
    await one_handed_over(registry, await begin_node())
    told = (await operator.says("top", "--once", "--json")).json
    assert told.keys() == KEYS
    assert told["durations_s"].keys() == DURATIONS
    assert told["durations_s"]["slot_idle"]["count"] == 1
    assert told["sessions"]["queued"] == 1
    assert told["lately"] is None
    assert [node["node_id"] for node in told["node_list"]] == ["node-a"]


async def test_an_empty_pool_is_told_too(registry: Registry, operator: Operator) -> None:
    """Nothing has ever happened there."""
    told = await operator.says("top", "--once")
    assert told.lines[0] == "Pool default: 0 wait; 0 on stage"
    assert told.lines[1] == "0 of 0 slots taken; nodes: none"


async def test_one_node_is_told_as_one(operator: Operator, begin_node: BeginNode) -> None:
    """Not as several."""
    await begin_node()
    assert (await operator.says("top", "--once")).lines[1].endswith("nodes: ● 1 is idle")


async def test_more_nodes_than_may_be_shown_are_counted(
    registry: Registry, operator: Operator, begin_node: BeginNode
) -> None:
    """The numbers are of all of them."""
    for name in ("node-a", "node-b", "node-c"):
        await begin_node(node_id=name)
    told = await operator.says("top", "--once", "--limit", "1")
    assert told.lines[1] == "0 of 3 slots taken; nodes: ● 3 are idle"
    assert "… and 2 more nodes (--limit shows them)" in told.lines
    assert "node-b" not in told.text


def _heed_ctrl_c() -> None:
    """Tests that a shell runs in the background ignore it, and their children would, too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Watching:
    """One ``greenroom top`` that goes on."""

    def __init__(self, process: subprocess.Popen[bytes], out: int) -> None:
        self._process = process
        self._out = out
        self._seen = b""

    def text(self) -> str:
        """All that it has written so far."""
        os.set_blocking(self._out, False)
        try:
            while more := os.read(self._out, 65536):
                self._seen += more
        except (BlockingIOError, OSError):
            pass
        return self._seen.decode(errors="replace")

    def interrupt(self) -> int:
        """Press Ctrl-C; returns its exit status."""
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(scaled_s(20))


@contextmanager
def watching(
    redis_url: str, folder: Path, *options: str, terminal: bool = False
) -> Iterator[Watching]:
    """Run it for the length of the block, on a terminal or into a pipe."""
    reading, writing = pty.openpty() if terminal else os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "control_plane.cli.main", "top", "--interval", "0.2", *options],
        env={
            **os.environ,
            "GREENROOM_REDIS_URL": redis_url,
            "GREENROOM_DATA_DIR": str(folder),
            "TERM": "xterm-256color",
        },
        stdout=writing,
        stderr=writing,
        preexec_fn=_heed_ctrl_c,  # noqa: PLW1509 - it only sets a signal
    )
    os.close(writing)
    try:
        yield Watching(process, reading)
    finally:
        process.kill()
        process.wait()
        os.close(reading)


async def test_what_happens_meanwhile_counts_as_lately(
    redis_url: str, registry: Registry, begin_node: BeginNode, tmp_path: Path
) -> None:
    """Only what came after the first look; Ctrl-C is no mistake."""
    await begin_node()
    await open_sessions(registry, 2)
    with watching(redis_url, tmp_path, "--json") as top:
        await wait_until(lambda: top.text().count("\n") >= 1, "a look", timeout_s=20)
        await open_sessions(registry, 3)

        def last() -> dict[str, object]:
            told: dict[str, object] = json.loads(top.text().splitlines()[-1])
            return told

        def has_seen() -> bool:
            lately = last()["lately"]
            return isinstance(lately, dict) and lately["counts"]["opened"] == 3

        await wait_until(has_seen, "it counts the three", timeout_s=20)
        totals = last()["totals"]
        assert isinstance(totals, dict)
        assert totals["opened"] == 5
        assert top.interrupt() == 0


async def test_on_a_terminal_each_look_replaces_the_one_before(
    redis_url: str, registry: Registry, begin_node: BeginNode, tmp_path: Path
) -> None:
    """The page is cleared once, then written over from its top; colours come on top of words."""
    await begin_node()
    with watching(redis_url, tmp_path, terminal=True) as top:
        await wait_until(lambda: top.text().count("\x1b[H") >= 3, "three looks", timeout_s=20)
        text = top.text()
        assert text.count("\x1b[2J") == 1
        assert "LAST 0 S" in text or "LAST 1 S" in text
        assert top.interrupt() == 0


async def test_a_registry_that_goes_is_waited_for(start_redis: StartRedis, tmp_path: Path) -> None:
    """What was seen last stays, and the page says how old it is; it goes on afterwards."""
    server: RedisServer = start_redis()
    with watching(server.url, tmp_path, terminal=True) as top:
        await wait_until(lambda: "0 on stage" in top.text(), "a look", timeout_s=20)
        server.kill()
        await wait_until(lambda: "Last update" in top.text(), "it says so", timeout_s=20)
        assert "Waiting for it." in top.text()
        server.start()
        seen = len(top.text())
        await wait_until(
            lambda: "LAST" in top.text()[seen:].split("Last update")[-1], "it goes on", timeout_s=20
        )
        assert top.interrupt() == 0


@pytest.mark.parametrize("option", ["--interval=0", "--limit=-1"])
async def test_nonsense_is_refused(operator: Operator, option: str) -> None:
    """With exit status 2, as any wrong option."""
    assert (await operator.says("top", option)).status == 2
