"""A node's name is one process's at a time, whether it was made in a data folder or given."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from shared.store import Registry
from tests.support.node_process import PROCESS_S, NodeProcess, node_process
from tests.support.redis_server import POOL
from tests.support.running_node import SERVICE
from tests.support.wait import wait_until

NOT_GIVEN = ""
FORKING = """
import os, pathlib, time
from tests.support.synthetic_service import SyntheticService, Journal
def get_service():
    if (child := os.fork()) == 0:
        os.closerange(1, 3)
        while True:
            time.sleep(60)
    pathlib.Path(__file__).with_name("orphan").write_text(str(child))
    return SyntheticService(Journal())
"""


@asynccontextmanager
async def node_in(folder: Path, redis_url: str, **options: str) -> AsyncIterator[NodeProcess]:
    """Run a node that takes the name that its folder keeps."""
    given = {"PIPE_PATH": str(SERVICE), "NODE_ID": NOT_GIVEN, "NODE_TTL_S": "4.0"}
    given |= {"BEAT_INTERVAL_S": "0.3", "SILENCE_MARGIN_S": "1.0"}
    process = await NodeProcess.start(redis_url, folder, **(given | options))
    try:
        yield process
    finally:
        await process.aclose()


async def pid_of_the_node(registry: Registry) -> int:
    """Wait until one node serves; return its process."""

    async def served() -> int:
        await registry.sweep_nodes(POOL)
        serving = [n.profile.pid for n in (await registry.snapshot(POOL)).nodes if n.capacity]
        return serving[0] if serving else 0

    return await wait_until(served, "a node serves", timeout_s=PROCESS_S)


async def test_the_second_process_in_a_folder_is_refused(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """It would be the same node; the sentence names the one that runs, the advice two ways out."""
    async with node_in(tmp_path, redis_url):
        pid = await pid_of_the_node(registry)
        async with node_in(tmp_path, redis_url) as second:
            code, _, told = await second.ended()
        assert code == 2
        folder = tmp_path / "data"
        assert told.splitlines() == [
            f"greenroom node: The node id kept in {folder} is in use by process {pid}.",
            "Try: a name of its own with --node-id, or another folder with --data-dir",
        ]


async def test_the_name_is_free_with_the_process_even_if_its_service_left_an_orphan(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """After kill -9 the next one has the same name, whatever the first one had forked."""
    forking = tmp_path / "forking.py"
    forking.write_text(FORKING)
    # Validation refuses a fork; here it is meant as it stands.
    given = {"PIPE_PATH": str(forking), "SKIP_VALIDATION": "true"}
    async with node_in(tmp_path, redis_url, **given) as first:
        killed = await pid_of_the_node(registry)
        name = (await registry.snapshot(POOL)).nodes[0].node_id
        first.kill()
    orphan = int((tmp_path / "orphan").read_text())
    try:
        async with node_in(tmp_path, redis_url):

            async def is_back() -> bool:
                return await pid_of_the_node(registry) != killed

            await wait_until(is_back, "the next process serves", timeout_s=PROCESS_S)
            assert [n.node_id for n in (await registry.snapshot(POOL)).nodes] == [name]
    finally:
        os.kill(orphan, signal.SIGKILL)


async def test_named_nodes_share_a_folder(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """What else is kept there is the same for all of them."""
    async with (
        node_process(redis_url, registry, tmp_path, NODE_ID="node-a", PIPE_PATH=str(SERVICE)),
        node_process(redis_url, registry, tmp_path, NODE_ID="node-b", PIPE_PATH=str(SERVICE)),
    ):
        names = {node.node_id for node in (await registry.snapshot(POOL)).nodes}
    assert names == {"node-a", "node-b"}
