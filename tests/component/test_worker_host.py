"""Does a service in a child do what it does in the node, and take down only its own process?"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from pathlib import Path

import numpy as np
import psutil
import pytest

from gpu_node.worker.host import ChildHost
from gpu_node.worker.watch import STUCK_AFTER_S
from shared.errors import BadChunk, InvalidConfig, ServiceFault, ServiceLoadFailed, ServiceLost
from tests.support import synthetic_service
from tests.support.wait import scaled_s, wait_until
from tests.support.worker_child import (
    HOSTILE,
    SOON_S,
    child_host,
    plan_for,
    service_file,
    shared_memory,
    worker_pids,
)

SYNTHETIC = Path(synthetic_service.__file__)
MEMORY_BYTES = 900 * 1024 * 1024


async def play(host: ChildHost, session: str, chunks: int) -> list[int]:
    """Take so many chunks; the brightness of each one's first frame."""
    seen = []
    stream = host.chunks(session)
    async for chunk in stream:
        seen.append(int(chunk["frames"][0][0, 0, 0]))
        stream.needed_in(0.02)
        if len(seen) == chunks:
            break
    return seen


async def test_a_session_plays_through_a_child_as_it_does_without_one(tmp_path: Path) -> None:
    """Chunks in order, an end, refusals and faults with the service's own words."""
    async with child_host(SYNTHETIC, tmp_path) as host:
        assert (await host.capacity(3)).sessions == 3
        short = await host.create_session({"chunks": 3, "prompt": "ä" * 10_000})
        assert [chunk["index"] async for chunk in host.chunks(short)] == [0, 1, 2]
        await host.push(short, {"type": "reset"})
        await host.close_session(short)
        with pytest.raises(InvalidConfig, match="unknown key"):
            await host.create_session({"fail_in": "config"})
        with pytest.raises(ServiceFault, match="no memory left for a world"):
            await host.create_session({"fail_in": "create"})
        broken = host.chunks(await host.create_session({"fail_in": "pull"}))
        await anext(broken)
        with pytest.raises(ServiceFault, match=r"pull_chunks.*the world fell apart"):
            await anext(broken)
        crooked = host.chunks(await host.create_session({"fail_in": "frame"}))
        await anext(crooked)
        with pytest.raises(BadChunk, match=r"must be \(height, width, 3\)"):
            await anext(crooked)
        assert isinstance(await host.runtime_metrics(), dict)
        assert isinstance(await host.track_frames(short), bool)
        assert isinstance(await host.report_frames(short, "published", 1, 1, 0.5), bool)


async def test_one_chunk_is_made_ahead_and_no_more(tmp_path: Path) -> None:
    """However often it's said that one is needed; the credit crosses the pipe."""
    async with child_host(SYNTHETIC, tmp_path) as host:
        session = await host.create_session({})
        stream = host.chunks(session)
        await wait_until(lambda: stream._inbox.qsize() == 1, "the first is made")
        for _ in range(5):
            stream.needed_in(0.0)
            await host.push(session, {"type": "reset"})  # has been round the service's loop
        assert stream._inbox.qsize() == 1
        assert (await anext(stream))["index"] == 0
        for _ in range(5):
            stream.needed_in(0.0)
        await wait_until(lambda: stream._inbox.qsize() == 1, "the next")
        await host.push(session, {"type": "reset"})
        assert stream._inbox.qsize() == 1
        assert (await anext(stream))["index"] == 1
        stream.needed_in(3600.0)
        assert (await anext(stream))["index"] == 2


async def test_pictures_cross_unharmed_while_slots_are_used_again(tmp_path: Path) -> None:
    """Two players at once, one that keeps what it got; few slots, and none after the end."""
    before = shared_memory()
    async with child_host(SYNTHETIC, tmp_path) as host:
        await _play_two(host)
        assert shared_memory() - before

    def are_gone() -> bool:
        gc.collect()
        return not shared_memory() - before

    await wait_until(are_gone, "the slots are gone")


async def _play_two(host: ChildHost) -> None:
    one, two = await host.create_session({}), await host.create_session({})
    stream = host.chunks(two)
    kept = [await anext(stream) for _ in range(5)]
    assert await play(host, one, 40) == [2 * index % 256 for index in range(40)]
    assert [int(chunk["frames"][1][3, 3, 1]) for chunk in kept] == [1, 3, 5, 7, 9]
    assert not kept[0]["frames"][0].flags.writeable
    await host.close_session(one)
    await host.close_session(two)
    assert host._slots is not None
    assert host._slots.count <= 12


async def test_many_sessions_leave_nothing_behind(tmp_path: Path) -> None:
    """Slots and descriptors on both sides are as few after fifty as after five."""
    async with child_host(SYNTHETIC, tmp_path) as host:
        held = []
        for count in (5, 45):
            for _ in range(count):
                session = await host.create_session({})
                await play(host, session, 3)
                await host.close_session(session)
            assert host.pid is not None
            child = psutil.Process(host.pid)
            gc.collect()
            held.append((psutil.Process().num_fds(), child.num_fds(), child.num_threads()))
        assert all(after <= before + 4 for before, after in zip(*held, strict=True)), held


@pytest.mark.parametrize(
    ("where", "how", "why"),
    [
        ("create", "exit", "exit status 3"),
        ("push", "segfault", "killed by SIGSEGV"),
        ("pull", "kill", "killed by SIGKILL"),
        ("close", "exit", "exit status 3"),
        ("pull", "hold_gil", "no sign of life"),
        ("push", "loop", "didn't return"),
    ],
)
async def test_a_child_that_breaks_is_gone_with_its_sessions_and_nothing_else(
    tmp_path: Path, where: str, how: str, why: str
) -> None:
    """Whoever waits for something hears why; closing what it held succeeds."""
    limit_s = SOON_S if how in ("hold_gil", "loop") else STUCK_AFTER_S
    async with child_host(HOSTILE, tmp_path, stuck_after_s=limit_s) as host:
        bystander = host.chunks(await host.create_session({}))
        await anext(bystander)
        config = {"break_in": where, "break_how": how}
        if where == "create":
            with pytest.raises(ServiceLost, match=why):
                await host.create_session(config)
        else:
            session = await host.create_session(config)
            stream = host.chunks(session)
            await anext(stream)
            if where == "push":
                with pytest.raises(ServiceLost, match=why):
                    await host.push(session, {"type": "control"})
            elif where == "close":
                await host.close_session(session)
            else:
                with pytest.raises(ServiceLost, match=why):
                    _ = [chunk async for chunk in stream]
            await host.close_session(session)
        assert why in await host.lost()
        with pytest.raises(ServiceLost, match=why):
            _ = [chunk async for chunk in bystander]
        with pytest.raises(ServiceLost):
            await host.create_session({})
        await host.push("p0", {"type": "control"})
        late = host.chunks("p0")
        with pytest.raises(ServiceLost):
            await anext(late)
        await wait_until(lambda: f"breaking in {where}" in host.last_lines, "its last words")
        assert worker_pids() == []


@pytest.mark.parametrize(
    ("how", "fault"), [("allocate", ServiceLost), ("allocate_once", ServiceFault)]
)
async def test_memory_has_a_limit(tmp_path: Path, how: str, fault: type[ServiceFault]) -> None:
    """One greedy step is a fault of the session; whoever takes the last crumb ends the child."""
    async with child_host(
        HOSTILE, tmp_path, memory_limit_bytes=MEMORY_BYTES, stuck_after_s=SOON_S
    ) as host:
        stream = host.chunks(await host.create_session({"break_in": "pull", "break_how": how}))
        with pytest.raises(ServiceFault) as caught:
            _ = [chunk async for chunk in stream]
        assert type(caught.value) is fault


async def test_what_raises_stays_alone_with_it(tmp_path: Path) -> None:
    """``sys.exit`` counts as raising; other sessions of the child play on."""
    async with child_host(HOSTILE, tmp_path) as host:
        bystander = host.chunks(await host.create_session({}))
        for how, words in (("raise", "the world fell apart"), ("leave", "SystemExit: 4")):
            for where in ("create", "push", "pull", "close"):
                await _meet_fault(host, where, how, words)
        await anext(bystander)


async def _meet_fault(host: ChildHost, where: str, how: str, words: str) -> None:
    config = {"break_in": where, "break_how": how}
    if where == "create":
        with pytest.raises(ServiceFault, match=words):
            await host.create_session(config)
        return
    session = await host.create_session(config)
    stream = host.chunks(session)
    if where == "push":
        with pytest.raises(ServiceFault, match=words):
            await host.push(session, {"type": "control"})
    if where == "pull":
        with pytest.raises(ServiceFault, match=words):
            _ = [chunk async for chunk in stream]
    if where == "close":
        with pytest.raises(ServiceFault, match=words):
            await host.close_session(session)
    else:
        await host.close_session(session)


async def test_a_service_that_doesnt_come_up_says_why(tmp_path: Path) -> None:
    """By raising, with its words; by dying, with its last lines."""
    service = service_file(tmp_path, HOSTILE)
    (tmp_path / "start.txt").write_text("raise")
    with pytest.raises(ServiceLoadFailed, match=r"start\(\) in service.py failed.*fell apart"):
        async with child_host(service, tmp_path):
            pass
    (tmp_path / "start.txt").write_text("segfault")
    with pytest.raises(ServiceLoadFailed, match=r"(?s)killed by SIGSEGV.*breaking in start"):
        async with child_host(service, tmp_path):
            pass
    assert worker_pids() == []


async def test_a_child_that_wont_stop_is_ended(tmp_path: Path) -> None:
    """By force, soon enough for a node's own end."""
    service = service_file(tmp_path, HOSTILE)
    host = ChildHost(plan_for(service, tmp_path))
    await host.start()
    (tmp_path / "stop.txt").write_text("hold_gil")
    await asyncio.wait_for(host.aclose(), scaled_s(10))
    assert worker_pids() == []


async def test_what_a_service_leaves_running_goes_with_it(tmp_path: Path) -> None:
    """A process that it started holds its output open and would live for long."""
    async with child_host(HOSTILE, tmp_path) as host:
        born = ["sleep", f"600.{host.pid:07}"]
        with pytest.raises(ServiceLost, match="exit status 5"):
            await host.create_session({"break_in": "create", "break_how": "bear_children"})
    assert [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == born] == []


async def test_a_child_knows_neither_media_server_nor_registry(tmp_path: Path) -> None:
    """No LiveKit and no Redis is loaded there, so none is broken by a model's libraries."""
    service = service_file(
        tmp_path,
        SYNTHETIC,
        "\nimport sys\n"
        "SyntheticService.runtime_metrics = lambda self, sid=None: {'modules': sorted(\n"
        "    {name.split('.')[0] for name in sys.modules} & {'livekit', 'redis', 'fastapi'})}\n",
    )
    async with child_host(service, tmp_path) as host:
        assert await host.runtime_metrics() == {"modules": []}


async def test_encoded_pictures_are_decoded_in_the_child(tmp_path: Path) -> None:
    """Images and JPEGs arrive as arrays, with what stands beside them."""
    service = service_file(
        tmp_path,
        SYNTHETIC,
        "\nimport base64, io\nfrom PIL import Image\n"
        "def _chunk(self, index, config):\n"
        "    image = Image.new('RGB', (32, 16), (200, 30, 30))\n"
        "    out = io.BytesIO(); image.save(out, 'JPEG')\n"
        "    jpeg = base64.b64encode(out.getvalue()).decode()\n"
        "    if index % 2:\n"
        "        return {'type': 'chunk', 'index': index, 'frames': 1, 'frames_b64': [jpeg]}\n"
        "    return {'type': 'chunk', 'index': index, 'data': {'frames': [image], 'fps': 8},\n"
        "            'audio_b64': 'AAAA' * 5000}\n"
        "SyntheticService._chunk = _chunk\n",
    )
    async with child_host(service, tmp_path) as host:
        stream = host.chunks(await host.create_session({}))
        first, second = await anext(stream), await anext(stream)
        for frame in (first["data"]["frames"][0], second["frames_b64"][0]):
            assert isinstance(frame, np.ndarray)
            assert frame.shape == (16, 32, 3)
            assert frame[0, 0, 0] > 180
        assert (first["data"]["fps"], second["frames"]) == (8, 1)
        assert first["audio_b64"] == "AAAA" * 5000


async def test_a_signal_to_all_processes_leaves_the_child_to_its_node(tmp_path: Path) -> None:
    """Service managers send it to everybody; the node may want to play on for its grace."""
    async with child_host(SYNTHETIC, tmp_path) as host:
        session = await host.create_session({})
        assert host.pid is not None
        os.kill(host.pid, signal.SIGTERM)
        os.kill(host.pid, signal.SIGINT)
        assert await play(host, session, 3) == [0, 2, 4]


async def test_a_child_that_is_given_up_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    """However early that is."""
    for turns in (0, 1, 3, 30):
        host = ChildHost(plan_for(HOSTILE, tmp_path))
        starting = asyncio.create_task(host.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait({starting})
        await host.aclose()
        gc.collect()
    assert worker_pids() == []
