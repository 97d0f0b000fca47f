"""What does a node do about its GPUs, as the real nvidia-ml-py tells of a stand-in's?"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_node.agent import EXIT_CRASHED
from gpu_node.fleet import gpus_of_nodes
from gpu_node.gpu_reader import GpuReader
from shared.clock import SystemClock
from shared.errors import StartupError
from shared.gpus import GpuFacts, read_gpus
from shared.states import NodeState, SessionState
from shared.store import Registry
from tests.support.fake_driver import LOST, FakeDriver, FakeGpu, driver
from tests.support.operator import Operator, operator
from tests.support.redis_server import POOL
from tests.support.running_node import RunningNode, node_settings, running_node
from tests.support.wait import wait_until
from tests.support.worker_child import HOSTILE, worker_pids

__all__ = ["driver", "operator"]

QUICK_S = 0.1


def watched(**options: Any) -> dict[str, Any]:
    """Options of a node that looks at its GPUs often."""
    return {"gpus": GpuReader(None, SystemClock(), ecc_limit=1, every_s=QUICK_S), **options}


async def facts_of(registry: Registry, node_id: str = "node-a") -> GpuFacts | None:
    """What the registry knows of a node's GPUs."""
    (node,) = (await registry.inspection.look(POOL, nodes=[node_id])).nodes
    return read_gpus(node.record.get("gpus", ""))


async def known(registry: Registry, is_so: Callable[[GpuFacts], bool], what: str) -> GpuFacts:
    """Wait until the registry knows something of the node's GPUs."""
    found: GpuFacts | None = None

    async def there() -> bool:
        nonlocal found
        found = await facts_of(registry)
        return found is not None and is_so(found)

    await wait_until(there, what, timeout_s=20)
    assert found is not None
    return found


async def is_in_error(node: RunningNode) -> str:
    """Wait until the registry has the node in error; why."""
    why = ""

    async def told() -> bool:
        nonlocal why
        (record,) = (await node.registry.snapshot(POOL)).nodes
        why = record.progress.error if record.progress else ""
        return record.state is NodeState.ERROR and record.capacity == 0 and why != ""

    await wait_until(told, "the node is in error", timeout_s=20)
    return why


async def test_beats_carry_how_the_gpus_are_and_change_with_them(
    redis_url: str, registry: Registry, driver: FakeDriver
) -> None:
    """A GPU that nobody chose is one of the node's."""
    driver.have(FakeGpu(uuid="GPU-aaaa"), FakeGpu(uuid="GPU-bbbb", used_mib=70))
    async with running_node(redis_url, registry, **watched()):
        facts = await known(registry, lambda facts: len(facts.gpus) == 2, "both are told")
        assert [gpu.used_mib for gpu in facts.gpus] == [1000, 70]
        driver.change(1, used_mib=71, heat_c=90)
        facts = await known(registry, lambda f: f.gpus[1].used_mib == 71, "the change is told")
        assert facts.gpus[1].temperature_c == 90


async def test_a_new_life_tells_of_the_gpus_anew(
    redis_url: str, registry: Registry, driver: FakeDriver
) -> None:
    """Also if nothing has changed since the registry lost all that it knew."""
    async with running_node(redis_url, registry, **watched()):
        await known(registry, lambda facts: len(facts.gpus) == 1, "it is told")
        await registry._connection.command(POOL, "FLUSHALL")
        await known(registry, lambda facts: len(facts.gpus) == 1, "it is told again")


async def test_without_a_driver_a_node_says_that_it_has_no_gpu(
    redis_url: str, registry: Registry, driver: FakeDriver
) -> None:
    """It serves as ever."""
    driver.path.unlink()
    async with running_node(redis_url, registry, **watched()) as node:
        await node.play()
        facts = await known(registry, lambda facts: True, "it is told")
        assert facts == GpuFacts()


async def test_a_driver_that_hangs_stops_neither_beats_nor_frames(
    redis_url: str, registry: Registry, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was seen last stays told, with for how long it has been so."""
    monkeypatch.setattr("gpu_node.gpu_reader.UNKNOWN_AFTER_S", 1.0)
    monkeypatch.setattr("gpu_node.gpu_reader._UNKNOWN_STEP_S", 1)
    async with running_node(redis_url, registry, **watched()) as node:
        _, alice = await node.play()
        await known(registry, lambda facts: len(facts.gpus) == 1, "it is told")
        driver.hang()
        try:
            facts = await known(registry, lambda facts: facts.unknown_s >= 2, "it is unknown")
            assert facts.gpus[0].used_mib == 1000
            stamp, frames = node.agent.heartbeat.stamp, len(alice.frames)
            await wait_until(lambda: node.agent.heartbeat.stamp > stamp + 2, "beats")
            await wait_until(lambda: len(alice.frames) > frames, "frames")
            assert node.agent.heartbeat.report.state is NodeState.IDLE
        finally:
            driver.hang(False)
        await known(registry, lambda facts: not facts.unknown_s, "it is known again")


@pytest.mark.parametrize("how", ["lost", "unlisted", "memory", "xid"])
async def test_a_node_that_loses_its_gpu_goes_to_error_and_its_sessions_move(
    redis_url: str, registry: Registry, driver: FakeDriver, how: str
) -> None:
    """With the reason; the client hears at once that it waits again, and plays elsewhere."""
    async with running_node(redis_url, registry, **watched()) as node:
        session_id, alice = await node.play()
        before = await registry.read(session_id)
        await known(registry, lambda facts: len(facts.gpus) == 1, "it is told")
        match how:
            case "lost":
                driver.change(0, state=LOST)
            case "unlisted":
                driver.have()
            case "memory":
                driver.change(0, ecc=1)
            case _:
                driver.raise_xid(79, 0)
        why = await is_in_error(node)
        assert why.startswith("GPU 0 (GPU-aaaa): ")
        record = await node.reaches(session_id, SessionState.QUEUED)
        assert record.returned_because == "gpu_lost"
        assert record.ticket == before.ticket
        assert [said["reason"] for said in alice.of_type("requeued")] == ["gpu_lost"]
        async with running_node(redis_url, registry, node_id="node-b") as other:
            other.venue.stage(session_id).enter("alice")
            record = await other.reaches(session_id, SessionState.RUNNING)
            assert record.node_id == "node-b"
        assert node.agent.heartbeat.report.state is NodeState.ERROR


async def test_a_gpu_that_nobody_computes_on_takes_no_node_out_of_service(
    redis_url: str, registry: Registry, driver: FakeDriver
) -> None:
    """The world at hand needs none."""
    driver.change(0, users=0)
    async with running_node(redis_url, registry, **watched()) as node:
        driver.change(0, state=LOST)
        await known(
            registry, lambda facts: any(gpu.trouble for gpu in facts.gpus), "the loss is told"
        )
        _, alice = await node.play()
        seen = len(alice.frames)
        await wait_until(lambda: len(alice.frames) > seen + 3, "frames")


async def test_a_child_is_brought_up_anew_when_its_gpu_is_well_again(
    redis_url: str, registry: Registry, driver: FakeDriver, tmp_path: Path
) -> None:
    """Not before: till then the node stays in error."""
    options = {"worker_mode": "process", "pipe_path": HOSTILE, "data_dir": tmp_path}
    async with running_node(redis_url, registry, **watched(**options)) as node:
        session_id, _ = await node.play()
        (pid,) = worker_pids()
        driver.change(0, state=LOST)
        await is_in_error(node)
        await node.reaches(session_id, SessionState.QUEUED)
        await wait_until(lambda: worker_pids() == [], "the child is gone")
        driver.change(0, state=0)
        await node.reaches(session_id, SessionState.RUNNING)
        assert worker_pids() != [pid]


async def test_a_node_whose_own_process_lost_the_gpu_ends_when_that_is_well_again(
    redis_url: str, registry: Registry, driver: FakeDriver
) -> None:
    """A process never gets a lost GPU back, so whoever supervises it must start another one."""
    async with running_node(redis_url, registry, **watched()) as node:
        await node.play()
        driver.change(0, state=LOST)
        await is_in_error(node)
        driver.change(0, state=0)
        assert await node.task == EXIT_CRASHED


async def test_nodes_shows_the_gpus_to_people_and_to_programs(
    redis_url: str, registry: Registry, driver: FakeDriver, operator: Operator
) -> None:
    """Memory, use and heat in the table; all of it for programs."""
    driver.have(FakeGpu(uuid="GPU-aaaa", used_mib=41 * 1024, total_mib=141 * 1024))
    async with running_node(redis_url, registry, **watched()):
        await known(registry, lambda facts: len(facts.gpus) == 1, "it is told")
        said = (await operator.says("nodes")).text
        assert "41/141 GiB 50% 61°C" in said
        (node,) = (await operator.says("nodes", "--json")).json["nodes"]
        (gpu,) = node["gpus"]
        assert (gpu["uuid"], gpu["used_mib"], gpu["ecc_errors"]) == ("GPU-aaaa", 41 * 1024, 0)


@pytest.mark.parametrize("have", [0, 2])
def test_a_map_that_names_gpus_which_aren_t_there_is_refused(driver: FakeDriver, have: int) -> None:
    """Where the driver knows; without one nobody can say."""
    settings = node_settings("redis://127.0.0.1:1/0", worker_gpu_map="99")
    driver.have(*(FakeGpu(uuid=f"GPU-{number}") for number in range(have)))
    with pytest.raises(StartupError, match="it names GPU 99, but"):
        gpus_of_nodes(settings)
    driver.path.unlink()
    assert gpus_of_nodes(settings) == (("99",),)


def test_a_start_waits_for_a_driver_that_hangs_only_so_long(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the map is taken as it is."""
    monkeypatch.setattr("shared.nvml._COUNTED_WITHIN_S", 0.2)
    driver.hang()
    try:
        began_s = time.monotonic()
        settings = node_settings("redis://127.0.0.1:1/0", worker_gpu_map="1")
        assert gpus_of_nodes(settings) == (("1",),)
        assert time.monotonic() - began_s < 10
    finally:
        driver.hang(False)
