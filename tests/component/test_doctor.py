"""Does ``greenroom doctor`` find what is wrong, and nothing where nothing is?

What concerns LiveKit is in `tests/livekit/test_doctor.py`.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from control_plane.cli.doctor import of_gpus, of_machine
from control_plane.cli.doctor.findings import Level
from control_plane.cli.doctor.of_machine import look_at_folder, look_at_proxies
from control_plane.cli.doctor.of_replica import look_at_replica
from shared.states import NodeState
from shared.store import Registry
from tests.support.fake_driver import LOST, FakeDriver, driver
from tests.support.operator import Operator, Told
from tests.support.played_node import PlayedNode
from tests.support.redis_proxy import proxied
from tests.support.redis_server import RedisServer, StartRedis
from tests.support.replica import BeginNode
from tests.support.replica_process import Start
from tests.support.room_service import RoomService
from tests.support.stepped_clock import StepLever
from tests.support.version_proxy import aged
from tests.support.wait import wait_until

__all__ = ["driver"]


@pytest.fixture
def server(start_redis: StartRedis) -> RedisServer:
    """A Redis as it should be."""
    return start_redis("--appendonly", "yes")


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxies and no choice of GPUs of whoever runs the tests."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


async def examined(url: str, folder: Path, *arguments: str) -> Told:
    """What the doctor says to a program."""
    doctor = Operator(url, GREENROOM_DATA_DIR=str(folder))
    return await doctor.says("doctor", "--json", *arguments)


def wrong(told: Told) -> list[str]:
    """What is wrong, each in a sentence behind its area; all of it says what to do."""
    found = [one for one in told.json["findings"] if one["level"] == "wrong"]
    assert all(one["try"] for one in found)
    assert told.json["wrong"] == len(found)
    assert told.status == (1 if found else 0)
    return [f"{one['area']}: {one['text']}" for one in found]


def of_the_gpu(told: Told) -> list[str]:
    """The same without what torch says, where that is installed: it asks the real driver."""
    return [one for one in wrong(told) if not one.startswith("torch: ")]


async def test_a_sound_setup_has_nothing_wrong(server: RedisServer, tmp_path: Path) -> None:
    """People read one line per thing that was looked at."""
    told = await examined(server.url, tmp_path)
    assert wrong(told) == []
    (redis,) = (one for one in told.json["findings"] if one["area"] == "redis")
    assert redis["text"].startswith(("7.", "8.", "9."))
    said = await Operator(server.url, GREENROOM_DATA_DIR=str(tmp_path)).says("doctor")
    assert said.lines[-1] == "All is well."
    assert all(len(line) <= 100 for line in said.lines)


async def test_a_redis_that_may_evict_is_found(server: RedisServer, tmp_path: Path) -> None:
    """People read what to do below it."""
    with server.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    (found,) = wrong(await examined(server.url, tmp_path))
    assert found.startswith("redis: This Redis may evict keys (maxmemory-policy allkeys-lru)")
    said = await Operator(server.url, GREENROOM_DATA_DIR=str(tmp_path)).says("doctor")
    assert "▲ redis" in said.text
    assert "Try: redis-cli CONFIG SET maxmemory-policy noeviction" in said.text
    assert said.lines[-1] == "1 thing is wrong."
    assert said.status == 1


async def test_a_redis_that_keeps_nothing_is_found(start_redis: StartRedis, tmp_path: Path) -> None:
    """Everybody who waits would lose the place with it."""
    bare = start_redis("--appendonly", "no")
    (found,) = wrong(await examined(bare.url, tmp_path))
    assert "no append-only file" in found


async def test_a_redis_that_is_nearly_full_is_found(server: RedisServer, tmp_path: Path) -> None:
    """Full, it takes no new session."""
    with server.client() as client:
        used = int(client.info("memory")["used_memory"])
        client.config_set("maxmemory", int(used * 1.02))
    (found,) = wrong(await examined(server.url, tmp_path))
    assert "of its memory is in use" in found


async def test_an_old_redis_is_found(server: RedisServer, tmp_path: Path) -> None:
    """By what it says of itself."""
    async with aged(server, 6) as url:
        (found,) = wrong(await examined(url, tmp_path))
    assert "Greenroom needs 7.0 or newer" in found


async def test_a_redis_that_is_far_away_is_found(server: RedisServer, tmp_path: Path) -> None:
    """Its answers take a while."""
    async with proxied(server) as way:
        way.delay_s = lambda: 0.1
        (found,) = wrong(await examined(way.url, tmp_path))
    assert "ms away" in found


async def test_a_redis_that_is_out_is_found(server: RedisServer, tmp_path: Path) -> None:
    """Once, although two looks meet it."""
    server.kill()
    (found,) = wrong(await examined(server.url, tmp_path))
    assert "can't be reached" in found


async def test_a_stepped_clock_is_found(server: RedisServer, tmp_path: Path) -> None:
    """Ours or that of Redis: only the difference is known."""
    lever = StepLever(tmp_path / "lever")
    lever.set_s(90)
    deceived = (
        "from pathlib import Path; from tests.support.stepped_clock import deceive; "
        f"deceive(Path({str(lever.path)!r})); "
        "from control_plane.cli.main import main; import sys; sys.argv[0] = 'greenroom'; main()"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", deceived, "doctor", "--json"),
        env={
            **os.environ,
            "GREENROOM_REDIS_URL": server.url,
            "GREENROOM_DATA_DIR": str(tmp_path),
        },
        stdout=asyncio.subprocess.PIPE,
    )
    answer, _ = await process.communicate()
    (found,) = wrong(Told(status=process.returncode or 0, text=answer.decode()))
    assert found == "clock: The clock of Redis is 1 m 30 s behind this machine's."


@pytest.mark.parametrize(
    ("variables", "level"),
    [
        ({}, None),
        ({"NO_PROXY": "example.org"}, None),
        ({"HTTP_PROXY": "http://p:3128"}, Level.WRONG),
        ({"all_proxy": "socks5://p:1", "no_proxy": "example.org"}, Level.WRONG),
        ({"http_proxy": "http://p:3128", "NO_PROXY": "localhost, 10.0.0.6"}, Level.NOTE),
        ({"https_proxy": "http://p:3128", "no_proxy": "*"}, Level.NOTE),
    ],
)
def test_a_proxy_that_would_catch_livekit_is_found(
    variables: Mapping[str, str], level: Level | None
) -> None:
    """Spared by NO_PROXY it is only told, since not every SDK reads that."""
    found = list(look_at_proxies("ws://10.0.0.6:7880", variables))
    assert [one.level for one in found] == ([] if level is None else [level])


async def test_proxy_variables_of_the_environment_count(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whichever spelling; a proxy stops no look of the doctor's own."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    told = await examined(
        server.url,
        tmp_path,
        *("--livekit-url", "ws://127.0.0.1:1", "--livekit-api-key", "k"),
        *("--livekit-api-secret", "s" * 32),
    )
    proxy, livekit = sorted(wrong(told), key=lambda text: not text.startswith("proxy"))
    assert proxy.startswith("proxy: http_proxy sends what goes to LiveKit at 127.0.0.1")
    assert "can't be reached at ws://127.0.0.1:1" in livekit


def test_a_folder_that_can_t_be_written_is_found(tmp_path: Path) -> None:
    """One below a file, which not even root may make."""
    (tmp_path / "file").write_text("")
    (found,) = look_at_folder(tmp_path / "file" / "data")
    assert found.level is Level.WRONG
    assert "can't be written" in found.text
    assert not (tmp_path / "data").exists(), "nothing was made"


async def test_an_unwritable_folder_is_found_by_the_command(
    server: RedisServer, tmp_path: Path
) -> None:
    """While everything else is looked at as ever."""
    (tmp_path / "file").write_text("")
    (found,) = wrong(await examined(server.url, tmp_path / "file" / "data"))
    assert found.startswith("folder: ")


def test_a_full_disk_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is full."""
    monkeypatch.setattr(of_machine, "_LEAST_FREE_BYTES", 1 << 60)
    (found,) = look_at_folder(tmp_path)
    assert (found.area, found.level) == ("disk", Level.WRONG)


@pytest.fixture
def few_files() -> Iterator[None]:
    """Let this process have few files open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_too_few_descriptors_are_found(
    server: RedisServer, tmp_path: Path, few_files: None
) -> None:
    """With the number that would do."""
    (found,) = wrong(await examined(server.url, tmp_path))
    assert "1024 files open" in found


async def test_a_broken_gpu_is_found_and_a_sound_one_isn_t(
    server: RedisServer, tmp_path: Path, driver: FakeDriver
) -> None:
    """By its number and its name."""
    assert of_the_gpu(await examined(server.url, tmp_path)) == []
    driver.change(0, ecc=2)
    (found,) = of_the_gpu(await examined(server.url, tmp_path))
    assert found == "gpu: GPU 0 (GPU-aaaa): 2 memory errors couldn't be corrected."
    driver.change(0, state=LOST)
    (found,) = of_the_gpu(await examined(server.url, tmp_path))
    assert "fallen off the bus" in found


async def test_a_gpu_that_was_chosen_and_isn_t_there_is_found(
    server: RedisServer, tmp_path: Path, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA would leave it out without a word."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,7")
    (found,) = of_the_gpu(await examined(server.url, tmp_path))
    assert "CUDA_VISIBLE_DEVICES names 7" in found


async def test_a_driver_that_hangs_is_found(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doctor doesn't hang with it."""
    monkeypatch.setattr(of_gpus, "_DRIVER_WITHIN_S", 0.3)
    driver.hang()
    try:
        (found,) = await of_gpus.look_at_gpus()
    finally:
        driver.hang(False)
    assert "doesn't answer" in found.text


async def test_gpus_without_a_driver_are_found(driver: FakeDriver, tmp_path: Path) -> None:
    """The device is there, and nothing that could be asked about it."""
    driver.path.unlink()
    (found,) = await of_gpus.look_at_gpus(tmp_path)
    assert found.level is Level.NOTE
    (tmp_path / "nvidia0").touch()
    (found,) = await of_gpus.look_at_gpus(tmp_path)
    assert found.level is Level.WRONG


async def test_a_node_that_can_t_serve_is_found(server: RedisServer, tmp_path: Path) -> None:
    """In the words of ``greenroom nodes``; one that serves is no matter."""
    registry = Registry.connect(server.url)
    try:
        node = await PlayedNode.begin(registry, server.url)
        assert wrong(await examined(server.url, tmp_path)) == []
        node.state = NodeState.ERROR
        await node.beat()
        (found,) = wrong(await examined(server.url, tmp_path))
        assert found.startswith("nodes: node-a its model can't serve")
        await node.retire()
    finally:
        await registry.aclose()


async def test_a_registry_that_somebody_else_wrote_to_is_found(
    server: RedisServer, tmp_path: Path
) -> None:
    """A key of ours that holds something of another kind."""
    with server.client() as client:
        client.set("gr:{default}:nodes", "mine")
        (found,) = wrong(await examined(server.url, tmp_path))
        client.delete("gr:{default}:nodes")
    assert found.startswith("registry: The registry holds what Greenroom never wrote")


async def test_a_replica_is_asked_how_it_is(
    redis_url: str,
    registry: Registry,
    room_service: RoomService,
    start_replica: Start,
    begin_node: BeginNode,
) -> None:
    """Sound with a node that serves, unhealthy without; another server is none, nobody is none."""
    address = start_replica(LIVEKIT_URL=room_service.url).address()
    (found,) = await look_at_replica(address)
    assert (found.level, "unhealthy" in found.text) == (Level.WRONG, True)
    await begin_node()

    async def is_sound() -> bool:
        (found,) = await look_at_replica(address + "/")
        return found.level is Level.FINE

    await wait_until(is_sound, "the replica has seen LiveKit and the node", timeout_s=15)
    (found,) = await look_at_replica(room_service.url.replace("ws://", "http://"))
    assert "isn't a replica" in found.text
    (found,) = await look_at_replica("http://127.0.0.1:1")
    assert "No replica answers at http://127.0.0.1:1" in found.text


async def test_the_command_asks_the_replica_that_is_named(
    server: RedisServer, tmp_path: Path
) -> None:
    """And no other."""
    (found,) = wrong(await examined(server.url, tmp_path, "--api-url", "http://127.0.0.1:1"))
    assert found.startswith("replica: ")


async def test_nothing_named_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may be looked at before anything runs on it."""
    told = await Operator("", GREENROOM_DATA_DIR=str(tmp_path)).says("doctor", "--json")
    assert wrong(told) == []
