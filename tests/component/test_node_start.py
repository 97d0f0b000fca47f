"""A node that can't work says so in one sentence; one that can answers on its own port."""

from __future__ import annotations

import json
import os
from pathlib import Path

import httpx
import pytest

from gpu_node.settings import remove_proxy_variables
from shared.errors import ServiceLoadFailed, StartupError
from shared.node_profile import NodeProfile
from shared.records import Registered, Registration
from shared.states import NodeState, SessionState
from shared.store import Registry
from tests.support.node_process import NodeProcess
from tests.support.redis_server import POOL
from tests.support.running_node import SERVICE, RunningNode, running_node
from tests.support.wait import wait_until


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "The service file"),
        ("answer = 42", "has no function get_service()"),
        (
            "get_service = 1\nraise OSError('no weights here')",
            "can't be imported: OSError: no weights here",
        ),
        (
            "def get_service(): raise OSError('no card')",
            "get_service() in world.py failed: OSError",
        ),
        ("def get_service(): return 42", "returned a int, which is no model service"),
    ],
)
async def test_a_bad_service_file_ends_the_process_with_one_sentence(
    redis_url: str, tmp_path: Path, text: str | None, words: str
) -> None:
    """Exit code 2 and no traceback."""
    path = tmp_path / "world.py"
    if text is not None:
        path.write_text(text)
    process = await NodeProcess.start(redis_url, tmp_path, PIPE_PATH=str(path))
    code, _, err = await process.ended()
    assert code == 2
    assert err.startswith("greenroom node: ")
    assert words in err
    assert len(err.splitlines()) == 1


async def test_the_process_stops_cleanly_on_sigterm(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """Exit code 0, JSON lines, and a goodbye that frees its name."""
    process = await NodeProcess.start(redis_url, tmp_path, PIPE_PATH=str(SERVICE))
    await process.ready(registry)
    process.terminate()
    code, out, err = await process.ended()
    assert (code, err) == (0, "")
    events = [json.loads(line)["event"] for line in out.splitlines()]
    assert {"service_ready", "node_registered", "node_drains", "node_stopped"} <= set(events)
    assert (await registry.snapshot(POOL)).nodes == ()


async def test_a_node_shows_itself_loading_while_the_service_loads(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """Its beats go on; nothing is placed on it before it's ready."""
    gate = tmp_path / "gate"
    slow = tmp_path / "slow.py"
    slow.write_text(
        SERVICE.read_text() + "\nimport time, pathlib\n"
        f"while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.01)\n"
    )
    node = RunningNode(redis_url, registry, pipe_path=slow)

    async def beats_while_loading() -> bool:
        nodes = (await registry.snapshot(POOL)).nodes
        return (
            bool(nodes) and nodes[0].state is NodeState.LOADING and node.agent.heartbeat.stamp > 2
        )

    await wait_until(beats_while_loading, "beats of a loading node")
    session_id = await node.open()
    assert (await registry.read(session_id)).state is SessionState.QUEUED
    gate.touch()
    await node.reaches(session_id, SessionState.JOINING_ROOM)
    await node.aclose()


async def test_a_service_that_cant_start_ends_the_node(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """And its name is free at once."""
    broken = tmp_path / "broken.py"
    broken.write_text(
        SERVICE.read_text()
        + "\nSyntheticService.start = lambda self: (_ for _ in ()).throw(OSError('no card'))\n"
    )
    node = RunningNode(redis_url, registry, pipe_path=broken)
    with pytest.raises(ServiceLoadFailed, match=r"start\(\) in broken.py failed: OSError: no card"):
        await node.task
    assert (await registry.snapshot(POOL)).nodes == ()


async def test_a_services_own_start_limit_is_told_to_the_registry(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """Known only after loading, by when the node has long begun to beat."""
    slow = tmp_path / "slow.py"
    slow.write_text(SERVICE.read_text() + "\nSyntheticService.start_timeout_s = 300.0\n")
    async with running_node(redis_url, registry, pipe_path=slow) as node:
        (record,) = (await registry.snapshot(POOL)).nodes
        assert record.profile.start_timeout_s == 300.0
        await node.play()


async def test_a_fresh_process_waits_for_the_lease_of_the_one_before(
    redis_url: str, registry: Registry
) -> None:
    """Whoever was killed may still be playing until its lease has run out."""
    killed = await registry.register(
        Registration(
            pool=POOL,
            node_id="node-a",
            boot_id="the-one-before",
            ttl_s=1.0,
            capacity=1,
            state=NodeState.IDLE,
            profile=NodeProfile(
                service="x", mode="bidirectional", host="h", pid=1, release="0.0.test"
            ),
        )
    )
    assert isinstance(killed, Registered)
    node = RunningNode(redis_url, registry)

    async def swept() -> bool:
        await registry.sweep_nodes(POOL)
        return node.agent.heartbeat.incarnation > killed.incarnation

    await wait_until(swept, "the node registers")
    await node.ready()
    await node.aclose()


async def test_an_unreachable_registry_is_told_within_five_seconds(registry: Registry) -> None:
    """An operator's mistake."""
    node = RunningNode("redis://127.0.0.1:1/0", registry)
    with pytest.raises(StartupError, match="Redis can't be reached"):
        await node.task


async def test_the_nodes_own_port_tells_health_readiness_and_metrics(
    redis_url: str, registry: Registry, unused_tcp_port: int
) -> None:
    """Ready only while sessions may be placed here and played."""
    async with (
        running_node(redis_url, registry, metrics_port=unused_tcp_port) as node,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{unused_tcp_port}") as client,
    ):
        await node.play()
        health = await client.get("/health")
        assert health.status_code == 200
        assert health.json()["state"] == "busy"
        assert (await client.get("/ready")).status_code == 200
        metrics = (await client.get("/metrics")).text
        assert "greenroom_node_frames_total" in metrics
        assert 'greenroom_node_script_seconds_count{script="advance_session"}' in metrics
        assert "default-" not in metrics
        assert (await client.get("/nowhere")).status_code == 404
        node.venue.reachable = False
        node.agent._say(media_ok=False)
        assert (await client.get("/ready")).status_code == 503


def test_proxies_are_forgotten_in_any_spelling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK would send its signalling through them."""
    for name in ("http_proxy", "HTTPS_PROXY", "All_Proxy"):
        monkeypatch.setenv(name, "http://proxy:1")
    monkeypatch.setenv("NO_PROXY", "kept")
    remove_proxy_variables()
    assert not {name.lower() for name in os.environ} & {"http_proxy", "https_proxy", "all_proxy"}
    assert os.environ["NO_PROXY"] == "kept"
