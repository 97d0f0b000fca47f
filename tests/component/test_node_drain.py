"""A node that is asked to stop takes nothing new, lets sessions finish, and gives back the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gpu_node import agent
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.support.redis_server import POOL
from tests.support.running_node import SERVICE, running_node
from tests.support.wait import wait_until
from tests.support.worker_child import worker_pids


async def test_running_sessions_finish_within_the_grace(redis_url: str, registry: Registry) -> None:
    """The last frame is played, then the node goes with exit code 0."""
    async with running_node(redis_url, registry, drain_grace_s=20.0) as node:
        session_id, alice = await node.play(chunks=40)
        node.stop.set()

        async def draining() -> bool:
            return (await registry.snapshot(POOL)).nodes[0].draining

        await wait_until(draining, "the registry knows")
        waiting_id = await node.open()
        assert (await registry.read(waiting_id)).state is SessionState.QUEUED
        assert await node.task == 0
        assert len(alice.frames) == 80
        assert (await registry.read(session_id)).reason is Reason.COMPLETED
        assert (await registry.read(waiting_id)).state is SessionState.QUEUED


async def test_what_outlasts_the_grace_is_given_back_to_the_line(
    redis_url: str, registry: Registry
) -> None:
    """It waits first in line with its old ticket; room and pipeline session are let go."""
    async with running_node(redis_url, registry, drain_grace_s=0.2) as node:
        session_id, alice = await node.play()
        ticket = (await registry.read(session_id)).ticket
        later_id = await node.open()
        node.stop.set()
        assert await node.task == 0
        record = await registry.read(session_id)
        assert (record.state, record.position) == (SessionState.QUEUED, 1)
        assert record.ticket == ticket
        assert record.returned_because == "node_shutdown"
        assert (await registry.read(later_id)).position == 2
        assert node.venue.stage(session_id).rooms() == []
        assert session_id not in node.keeper.deleted
        assert node.journal.closed == ["pipeline-1"]
        assert alice.of_type("closed") == []
        assert (await registry.snapshot(POOL)).nodes == ()


async def test_a_session_that_hasnt_begun_isnt_kept_waiting_for_the_grace(
    redis_url: str, registry: Registry
) -> None:
    """Its controller isn't there yet: another node can have it at once."""
    async with running_node(redis_url, registry, drain_grace_s=60.0) as node:
        session_id = await node.open()
        await node.reaches(session_id, SessionState.JOINING_ROOM)
        await node.aclose()
        assert (await registry.read(session_id)).state is SessionState.QUEUED


async def test_the_next_process_needs_no_lease_to_run_out(
    redis_url: str, registry: Registry
) -> None:
    """After the goodbye the same node id registers at once, and gets the session back."""
    async with running_node(redis_url, registry) as node:
        session_id, _ = await node.play()
    async with running_node(redis_url, registry) as node:
        alice = node.venue.stage(session_id).enter("alice")
        await wait_until(lambda: alice.of_type("resumed"), "the session resumes")
        record = await registry.read(session_id)
        assert record.state is SessionState.RUNNING
        assert record.attempt == 2
        assert alice.of_type("resumed")[0]["attempt"] == 2


BLOCKED = """
import time
def blocked(self, *_): time.sleep(3600)
SyntheticService.close_session = SyntheticService.stop = blocked
"""


@pytest.mark.parametrize("place", ["in-process", "process"])
async def test_a_ctrl_c_doesn_t_wait_for_a_service_that_lets_nothing_go(
    redis_url: str,
    registry: Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    """The session is back in the line by then; it's said what is waited for, and until when."""
    monkeypatch.setattr(agent, "_CLEAN_UP_S", 3600.0)  # as long as another stop may take
    path = tmp_path / "blocked.py"
    path.write_text(SERVICE.read_text() + BLOCKED)
    options: dict[str, Any] = {"pipe_path": path, "worker_mode": place, "data_dir": tmp_path}
    with capture_logs() as logs:
        async with running_node(redis_url, registry, drain_grace_s=600.0, **options) as node:
            session_id, _ = await node.play()
            node.in_haste = True
            node.stop.set()
            assert await node.task == 0
    record = await registry.read(session_id)
    assert (record.state, record.returned_because) == (SessionState.QUEUED, "node_shutdown")
    said = {line["event"]: line for line in logs}
    assert said["waits_for_clean_up"]["at_most_s"] == 2.0
    assert said["waits_for_service"]["service"] == "blocked.py"
    assert worker_pids() == []
