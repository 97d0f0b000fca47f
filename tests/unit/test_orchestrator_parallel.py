"""Can a stage be several, and can one of them be a process?"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_node.orchestrator import Call, ChildStage, Ordering, ParallelActor
from shared.errors import ActorDied, GraphFault, StageFailed
from tests.support.graphs import one_stage
from tests.support.stage_code import Code, running
from tests.support.wait import scaled_s, wait_until

CHILD = '''
import os

class Counting:
    """Counts per session; what it printed must not reach the pipe."""

    def __init__(self, start):
        self.start, self.counts = start, {}

    def run(self, call):
        if call.inputs["a"] == "raise":
            raise ValueError("not that one")
        if call.inputs["a"] == "die":
            os._exit(7)
        self.counts[call.session] = self.counts.get(call.session, self.start) + 1
        return {"b": (self.counts[call.session], os.getpid())}

    def close(self, session):
        del self.counts[session]
'''


def child(folder: Path) -> ChildStage:
    """A counting stage in a process."""
    file = folder / "counting.py"
    file.write_text(CHILD)
    return ChildStage(file, "Counting", 10)


async def test_a_session_stays_with_its_member_and_sessions_spread() -> None:
    """A member keeps state from chunk to chunk."""
    codes = [Code("b"), Code("b")]
    members = ParallelActor(codes)
    async with running(one_stage(in_flight=4), {"only": members}) as pipeline:
        for name in ("a", "b", "c", "d"):
            pipeline.open(name)
            for sequence in range(3):
                pipeline.push(name, sequence, {"a": 1})
        for name in ("a", "b", "c", "d"):
            for _ in range(3):
                assert await pipeline.next_output(name) is not None
        homes = [{session for session, _ in code.calls} for code in codes]
        assert [len(home) for home in homes] == [2, 2]
        assert not homes[0] & homes[1]
        for name in ("a", "b", "c", "d"):
            await pipeline.close(name)
        assert [set(code.closed) for code in codes] == homes
        assert not members._home
        pipeline.open("never played")
        await pipeline.close("never played")


async def test_without_an_order_one_session_uses_all_members() -> None:
    """Both are at work on it at the same time."""
    both = threading.Barrier(2)
    codes = [Code("b", run=lambda call: both.wait(scaled_s(10))) for _ in range(2)]
    graph = one_stage(ordering=Ordering.NONE, in_flight=2, in_flight_per_session=2)
    async with running(graph, {"only": ParallelActor(codes)}) as pipeline:
        pipeline.open("a")
        for sequence in range(2):
            pipeline.push("a", sequence, {"a": 1})
        assert await pipeline.next_output("a") is not None
        assert await pipeline.next_output("a") is not None
        await pipeline.close("a")
    assert [code.closed for code in codes] == [["a"], ["a"]]


async def test_together_all_members_do_every_step_and_the_first_answers() -> None:
    """As ranks of one model do; nobody is ahead of the others."""
    codes = [Code("b", run=lambda call: "first"), Code("b", run=lambda call: "second")]
    group = ParallelActor(codes, together=True, mailbox=1)
    async with running(one_stage(in_flight=4, in_flight_per_session=4), {"only": group}) as pipe:
        pipe.open("a")
        for sequence in range(4):
            pipe.push("a", sequence, {"a": 1})
        outputs = [await pipe.next_output("a") for _ in range(4)]
        assert [one.values["b"] for one in outputs if one] == ["first"] * 4
        assert codes[0].calls == codes[1].calls == [("a", n) for n in range(4)]
        await pipe.close("a")
        assert [code.closed for code in codes] == [["a"], ["a"]]


async def test_together_one_member_s_failure_is_the_session_s() -> None:
    """Whichever it is; the next session is fine."""

    def fails_for_a(call: Call) -> Any:
        if call.session == "a":
            raise ValueError("rank 1 has no such key")
        return 1

    codes = [Code("b"), Code("b", run=fails_for_a)]
    group = ParallelActor(codes, together=True)
    async with running(one_stage(), {"only": group}) as pipeline:
        for name in ("a", "b"):
            pipeline.open(name)
            pipeline.push(name, 0, {"a": 1})
        with pytest.raises(StageFailed, match="rank 1 has no such key"):
            await pipeline.next_output("a")
        assert await pipeline.next_output("b") is not None


async def test_a_member_that_dies_takes_the_actor_with_it() -> None:
    """Half a model is no service."""

    def die(call: Call) -> Mapping[str, Any]:
        raise ActorDied(stage="only", what="rank 1 is gone.")

    codes = [Code("b"), Code("b", run=die)]
    group = ParallelActor(codes, together=True)
    async with running(one_stage(), {"only": group}) as pipeline:
        pipeline.open("a")
        pipeline.push("a", 0, {"a": 1})
        with pytest.raises(StageFailed, match="rank 1 is gone"):
            await pipeline.next_output("a")
        with pytest.raises(StageFailed, match="its actor is dead"):
            pipeline.open("b")
        pipeline._desks.clear()


def test_an_actor_without_members_is_refused() -> None:
    """When it is made."""
    with pytest.raises(GraphFault, match="needs at least one member"):
        ParallelActor([])


async def test_a_stage_in_a_process_keeps_its_state_and_its_faults_are_its_sessions(
    tmp_path: Path,
) -> None:
    """It runs elsewhere, its errors come back in its own words, and it ends with the pipeline."""
    stage = child(tmp_path)
    async with running(one_stage(), {"only": stage}) as pipeline:
        pipeline.open("a")
        pipeline.open("b")
        for sequence in range(2):
            pipeline.push("a", sequence, {"a": "count"})
        counts = [await pipeline.next_output("a") for _ in range(2)]
        assert [one.values["b"] for one in counts if one] == [(11, stage.pid), (12, stage.pid)]
        assert stage.pid != os.getpid()
        pipeline.push("b", 0, {"a": "raise"})
        with pytest.raises(StageFailed, match="ValueError: not that one"):
            await pipeline.next_output("b")
        await pipeline.close("a")
        with pytest.raises(StageFailed, match="KeyError"):
            await pipeline.close("b")
        pipeline._desks.clear()
    await wait_until(lambda: not _alive(stage.pid), "the process has ended")


async def test_a_process_that_is_killed_is_a_dead_actor(tmp_path: Path) -> None:
    """Found by its next step, with the exit code."""
    stage = child(tmp_path)
    async with running(one_stage(), {"only": stage}) as pipeline:
        pipeline.open("a")
        pipeline.push("a", 0, {"a": "count"})
        assert await pipeline.next_output("a") is not None
        assert stage.pid is not None
        os.kill(stage.pid, signal.SIGKILL)
        pipeline.push("a", 1, {"a": "count"})
        with pytest.raises(StageFailed, match="its process ended with exit code -9"):
            await pipeline.next_output("a")
        pipeline._desks.clear()


def _alive(pid: int | None) -> bool:
    try:
        os.kill(pid or 0, 0)
    except ProcessLookupError:
        return False
    return True
