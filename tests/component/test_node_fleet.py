"""Do several nodes run as one command, and does nothing outlive it?"""

from __future__ import annotations

from pathlib import Path

import psutil

from shared.states import NodeState
from shared.store import Registry
from tests.support.node_process import PROCESS_S, NodeProcess
from tests.support.redis_server import POOL
from tests.support.wait import wait_until
from tests.support.worker_child import HOSTILE, service_file, worker_pids


async def start(redis_url: str, folder: Path, **options: str) -> NodeProcess:
    """Start the command; the hostile service is loaded as it stands."""
    return await NodeProcess.start(redis_url, folder, SKIP_VALIDATION="true", **options)


async def serving(registry: Registry) -> dict[str, int]:
    """The nodes that take sessions, each with its process id."""
    nodes = (await registry.snapshot(POOL)).nodes
    return {n.node_id: n.profile.pid for n in nodes if n.state is NodeState.IDLE}


async def both_serve(registry: Registry) -> dict[str, int]:
    """Wait for both nodes."""
    found: dict[str, int] = {}

    async def both() -> bool:
        nonlocal found
        found = await serving(registry)
        return set(found) == {"node-a-1", "node-a-2"}

    await wait_until(both, "both nodes serve", timeout_s=2 * PROCESS_S)
    return found


async def test_two_nodes_run_as_one_command_and_come_back_and_stop_together(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """Each with a name and a child of its own; one that is killed returns, SIGTERM ends all."""
    fleet = await start(
        redis_url,
        tmp_path,
        PIPE_PATH=str(HOSTILE),
        NUM_WORKERS="2",
        WORKER_MODE="process",
        NODE_TTL_S="4",
        BEAT_INTERVAL_S="0.4",
    )
    try:
        first = await both_serve(registry)
        before = worker_pids(fleet._process.pid)
        assert len(before) == 2
        psutil.Process(first["node-a-1"]).kill()

        async def is_back() -> bool:
            await registry.sweep_nodes(POOL)
            found = await serving(registry)
            return found.get("node-a-1", first["node-a-1"]) != first["node-a-1"]

        await wait_until(is_back, "the killed one is back", timeout_s=2 * PROCESS_S)
        after = await both_serve(registry)
        assert after["node-a-2"] == first["node-a-2"]
        family = psutil.Process(fleet._process.pid).children(recursive=True)
        fleet.terminate()
        code, out, err = await fleet.ended()
        assert (code, err) == (0, "")
        assert out.count('"event": "node_stopped"') == 2
        assert (await registry.snapshot(POOL)).nodes == ()
        assert not [process for process in family if process.is_running()]
    finally:
        await fleet.aclose()


async def test_nothing_outlives_a_command_that_is_killed(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """Neither nodes nor the children in which their services live."""
    fleet = await start(
        redis_url, tmp_path, PIPE_PATH=str(HOSTILE), NUM_WORKERS="2", WORKER_MODE="process"
    )
    try:
        await both_serve(registry)
        family = psutil.Process(fleet._process.pid).children(recursive=True)
        assert len(family) > 4
        fleet.kill()
        await wait_until(
            lambda: not [p for p in family if p.is_running() and p.status() != "zombie"],
            "all are gone",
        )
    finally:
        await fleet.aclose()


async def test_a_service_that_no_node_can_load_ends_the_command_with_its_sentence(
    redis_url: str, tmp_path: Path
) -> None:
    """Exit status 2, as with one node."""
    service = service_file(tmp_path, HOSTILE)
    (tmp_path / "start.txt").write_text("raise")
    fleet = await start(
        redis_url, tmp_path, PIPE_PATH=str(service), NUM_WORKERS="2", START_ATTEMPTS="1"
    )
    try:
        code, _, err = await fleet.ended()
        assert code == 2
        assert "start() in service.py failed: RuntimeError: the world fell apart" in err
        assert len(err.splitlines()) == 1
    finally:
        await fleet.aclose()


async def test_a_map_that_doesnt_fit_ends_the_command_at_once(
    redis_url: str, tmp_path: Path
) -> None:
    """Before a node is started."""
    fleet = await start(redis_url, tmp_path, NUM_WORKERS="3", WORKER_GPU_MAP="0;1")
    try:
        code, _, err = await fleet.ended()
        assert code == 2
        assert "--worker-gpu-map (GREENROOM_WORKER_GPU_MAP) can't be used: it names 2 groups" in err
    finally:
        await fleet.aclose()


async def test_a_child_sees_its_own_gpus_and_none_of_our_secrets(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """The group's GPUs by name; neither the registry's address nor the media server's secret."""
    told = tmp_path / "told.txt"
    service = service_file(
        tmp_path,
        HOSTILE,
        "\ndef get_service(gpu_num=None, gpu_ids=None):\n"
        f"    with open({str(told)!r}, 'w') as out:\n"
        "        out.write(f'{gpu_num} {gpu_ids} {os.environ[\"CUDA_VISIBLE_DEVICES\"]}\\n')\n"
        "        out.write(' '.join(name for name in os.environ if 'GREENROOM' in name))\n"
        "    return HostileService()\n",
    )
    node = await start(
        redis_url, tmp_path, PIPE_PATH=str(service), WORKER_GPU_MAP="5,3", WORKER_MODE="process"
    )
    try:
        await node.ready(registry)
        gpus, ours = told.read_text().split("\n")
        assert gpus == "2 ['5', '3'] 5,3"
        assert ours == ""
    finally:
        await node.aclose()
