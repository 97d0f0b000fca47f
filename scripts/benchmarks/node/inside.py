"""What does a node cost inside: handing chunks over, changing turns, staying responsive?

Without rooms: the host of the service as the agent uses it, in this process and with a child.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_node.services.host import ServiceHost
from gpu_node.services.hosting import Host
from gpu_node.services.loader import LoadedService
from gpu_node.worker.host import ChildHost, ChildPlan
from scripts.benchmarks.node import bench_service
from scripts.benchmarks.node.bench_service import BenchWorld

FILE = Path(bench_service.__file__)
LARGE = {"width": 832, "height": 480}
CHUNKS = 200
BUSY_S = 0.2
TICK_S = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Milliseconds of many tries."""

    median_ms: float
    p99_ms: float
    worst_ms: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """Of values in seconds."""
        ordered = sorted(seconds)
        return cls(
            median_ms=1000 * ordered[len(ordered) // 2],
            p99_ms=1000 * ordered[int(0.99 * len(ordered))],
            worst_ms=1000 * ordered[-1],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """All figures of this file."""

    frame_us: dict[str, float]
    """By way: from the service to the agent, one frame of 832 × 480 with all that a chunk costs."""
    copy_us: float
    """One copy of such a frame, the baseline."""
    turn: Spread
    """Execution lease: from the end of one session's chunk to the beginning of another's."""
    lag: dict[str, Spread]
    """By way: how late the agent's loop is while a service computes in Python."""
    idle_lag: Spread
    """The same with no service, the baseline."""


async def measure() -> Inside:
    """Measure all, one after the other."""
    frame_us: dict[str, float] = {}
    lag: dict[str, Spread] = {}
    idle_lag = Spread.of(await _lags(3.0))
    for way, hosted in (("in-process", _here), ("process", _in_a_child)):
        async with hosted() as host:
            frame_us[way] = await _frame_us(host)
            lag[way] = await _lag(host)
    return Inside(
        frame_us=frame_us, copy_us=_copy_us(), turn=await _turn(), lag=lag, idle_lag=idle_lag
    )


@contextlib.asynccontextmanager
async def _here(service: Any = None) -> AsyncIterator[Host]:
    loaded = LoadedService(path=FILE, module_name="bench_service", service=service or BenchWorld())
    host = ServiceHost(loaded)
    await host.start()
    await host.capacity(4)
    yield host
    await host.aclose()


@contextlib.asynccontextmanager
async def _in_a_child() -> AsyncIterator[Host]:
    with tempfile.TemporaryDirectory() as folder:
        plan = ChildPlan(
            path=FILE, gpu_ids=None, env=dict(os.environ), log=Path(folder) / "child.log"
        )
        host = ChildHost(plan)
        await host.start()
        await host.capacity(4)
        host.serve()
        yield host
        await host.aclose()


async def _frame_us(host: Host) -> float:
    """Chunks as quickly as they come; each frame is touched once, as the SDK does."""
    session = await host.create_session(dict(LARGE))
    began_s, taken = 0.0, 0
    async for chunk in host.chunks(session):
        for frame in chunk["frames"]:
            frame.tobytes()
        taken += 1
        if taken == CHUNKS // 10:
            began_s = time.perf_counter()
        if taken == CHUNKS + CHUNKS // 10:
            break
    took_s = time.perf_counter() - began_s
    await host.close_session(session)
    return 1e6 * took_s / CHUNKS / bench_service.CHUNK_FRAMES


def _copy_us() -> float:
    frame = bench_service.pictures(**LARGE)[0]
    began_s = time.perf_counter()
    for _ in range(CHUNKS):
        frame.tobytes()
    return 1e6 * (time.perf_counter() - began_s) / CHUNKS


async def _lag(host: Host) -> Spread:
    """How late the loop is while one session's chunks are computed without a pause."""
    session = await host.create_session({"busy_s": BUSY_S})
    stream = host.chunks(session)
    pulling = asyncio.create_task(_pull(stream))
    await asyncio.sleep(BUSY_S)
    lags = await _lags(4.0)
    pulling.cancel()
    await asyncio.gather(pulling, return_exceptions=True)
    await host.close_session(session)
    return Spread.of(lags)


async def _lags(seconds: float) -> list[float]:
    lags = []
    until_s = time.perf_counter() + seconds
    while time.perf_counter() < until_s:
        due_s = time.perf_counter() + TICK_S
        await asyncio.sleep(TICK_S)
        lags.append(max(0.0, time.perf_counter() - due_s))
    return lags


class _Turns(BenchWorld):
    execution_lease = "node"
    execution_lease_max_chunks = 1


async def _turn() -> Spread:
    """Two sessions that always want a chunk, one model."""
    async with _here(_Turns()) as host:
        bench_service.TURNS.clear()
        sessions = [await host.create_session({"busy_s": 0.002}) for _ in range(2)]
        pulls = [asyncio.create_task(_pull(host.chunks(session))) for session in sessions]
        await asyncio.sleep(3.0)
        for pull in pulls:
            pull.cancel()
        await asyncio.gather(*pulls, return_exceptions=True)
        for session in sessions:
            await host.close_session(session)
    turns = itertools.pairwise(list(bench_service.TURNS))
    return Spread.of([
        later[1] - earlier[2] for earlier, later in turns if earlier[0] != later[0]
    ])  # fmt: skip


async def _pull(stream: AsyncIterator[dict[str, Any]]) -> None:
    async for _ in stream:
        pass
