"""Does a service let go: after late messages, at any moment, and after many sessions?"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import threading
from collections import Counter
from pathlib import Path

from gpu_node.conformance.bench import Bench, Ended, Failed, Skipped, now_s
from gpu_node.services.host import ServiceHost
from shared.errors import ServiceFault

_TRIES = 3
_PAGE_BYTES = 4096
_LEFT_MIB = 0.25
"""Per session and in both halves of the time, so that it's no cache that fills."""
_FIRST_CYCLES = 10
_LEAST_LEFT = 1.0
"""Objects of one class that stay per session; less is a cache that fills."""
_MANY_LEFT = 20
"""Small objects of any kind that stay per session: for what has no class of its own."""
_ODD_MOMENTS = (0.0, 0.01, 0.05)


async def tolerates_late_messages(bench: Bench) -> str:
    """Controls for sessions that are closed or never were, and a second close."""
    if bench.is_film:
        raise Skipped("a server push service has no sessions of its own")
    async with bench.session() as playing:
        await playing.frames()
    for who, name in (("closed", playing.name), ("unknown", "never-was")):
        for message in ({"type": "control_state", "controls": ["w"]}, {"type": "stop"}):
            try:
                await bench.host.push(name, dict(message))
            except ServiceFault as error:
                raise Failed(
                    f"A message for {'a closed' if who == 'closed' else 'an unknown'} session "
                    f"raises: {error}",
                    "Return from push_chunk() if the id isn't known: messages cross with the end.",
                ) from error
    try:
        await bench.close(playing.name)
    except ServiceFault as error:
        bench.remark(f"a second close_session() raises: {error}")
    return "closed and unknown ids"


async def calls_are_quick(bench: Bench) -> str:
    """``create_session`` and ``push_chunk`` run on the loop of all sessions."""
    created, pushed = [], []
    for _ in range(_TRIES):
        began_s = now_s()
        name = await bench.create()
        created.append(now_s() - began_s)
        began_s = now_s()
        if not bench.is_film:
            await bench.host.push(name, {"type": "control_state", "controls": ["w"]})
        pushed.append(now_s() - began_s)
        await bench.close(name)
    # The quickest of three: a busy machine slows one of them down, a slow service all.
    if min(pushed) > bench.limits.s(bench.limits.push):
        raise Failed(
            f"push_chunk() takes {min(pushed):.2f} s, in which no session gets a frame.",
            "Note the control and return; act on it in pull_chunks().",
        )
    if min(created) > bench.limits.s(bench.limits.create):
        bench.remark(
            f"create_session() takes {min(created):.2f} s, in which no session gets a frame: "
            "do the work at the first chunk"
        )
    return f"create {min(created) * 1000:.0f} ms, push {min(pushed) * 1000:.0f} ms"


async def closes_in_the_middle(bench: Bench) -> str:
    """While a chunk is being made, at several moments of it, and before the first."""
    took = []
    for moment_s in _ODD_MOMENTS:
        for chunks in (0, 1):
            playing = await bench.play()
            try:
                for _ in range(chunks):
                    await playing.frames()
            except Ended:
                pass
            playing.stream.ask()  # the service begins with the next chunk
            await asyncio.sleep(moment_s)
            took.append(await bench.close(playing.name))
            if not playing.stream.ended.is_set():
                raise Failed("pull_chunks() runs on after close_session() has returned.")
    if min(took) > bench.limits.s(bench.limits.close):
        raise Failed(
            f"close_session() takes {min(took):.1f} s; the slot stays taken so long.",
            "End the session's threads and waits at once.",
        )
    return f"{len(took)} times, {statistics.median(took) * 1000:.0f} ms each"


async def gives_everything_back(bench: Bench) -> str:
    """Many short sessions: no thread, no object and no memory of theirs stays."""
    first_ones = max(_FIRST_CYCLES, bench.limits.cycles // 5)  # caches fill meanwhile
    count = max(_FIRST_CYCLES, (bench.limits.cycles - first_ones) // 2)
    await _cycles(bench, first_ones)
    threads = threading.active_count()
    first, kinds_first, mib = _blocks(), _kinds(), _resident_mib()
    await _cycles(bench, count)
    middle, kinds_middle, mib_middle = _blocks(), _kinds(), _resident_mib()
    await _cycles(bench, count)
    last, kinds_last, mib_last = _blocks(), _kinds(), _resident_mib()
    await _threads_must_end(threads)
    left = min(middle - first, last - middle) / count
    kinds = _staying(kinds_first, kinds_middle, kinds_last, count)
    if kinds or left >= _MANY_LEFT:
        shown = ", ".join(f"{number:.0f} {name}" for name, number in kinds[:4])
        raise Failed(
            f"After each session {shown or f'{left:.0f} small objects'} stay in memory.",
            "Drop what you keep by session id in close_session(), also what waits for it.",
        )
    left_mib = min(mib_middle - mib, mib_last - mib_middle) / count
    if left_mib > _LEFT_MIB:
        raise Failed(
            f"After each session about {left_mib:.1f} MiB stay in memory.",
            "Free frames, latents and caches of a session in close_session().",
        )
    return f"{first_ones + 2 * count} sessions, {mib_last - mib:+.0f} MiB"


async def _cycles(bench: Bench, count: int) -> None:
    for _ in range(count):
        async with bench.session() as playing:
            try:
                await playing.frames()
            except Ended:
                raise Failed("The session ended before its first frame.") from None
            if not bench.is_film:
                await bench.host.push(playing.name, {"type": "control_state", "controls": ["w"]})


async def _threads_must_end(before: int) -> None:
    """Threads of the last closes may still be on their way out."""
    for _ in range(20):
        if threading.active_count() <= before + 2:
            return
        await asyncio.sleep(0.1)
    names = Counter(thread.name.split("_")[0].split("-")[0] for thread in threading.enumerate())
    raise Failed(
        f"Threads stay after their sessions: {threading.active_count()} instead of {before}, "
        f"most of them {names.most_common(1)[0][0]!r}.",
        "End a session's threads in close_session() and join them.",
    )


def _blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


def _kinds() -> Counter[str]:
    """Count the objects of each class."""
    return Counter(type(one).__qualname__ for one in gc.get_objects())


def _staying(
    first: Counter[str], middle: Counter[str], last: Counter[str], count: int
) -> list[tuple[str, float]]:
    """Return classes of which some stayed after each session, in both halves of the time."""
    grown = {
        name: min(middle[name] - first[name], last[name] - middle[name]) / count for name in last
    }
    found = [(name, rate) for name, rate in grown.items() if rate >= _LEAST_LEFT]
    return sorted(found, key=lambda pair: -pair[1])


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * _PAGE_BYTES / 1024**2


async def stops(host: ServiceHost, bench: Bench) -> str:
    """``stop()`` returns and the process could end."""
    began_s = now_s()
    await bench.within(
        bench.limits.close, "stop()", host.aclose(), "End all threads of the service in stop()."
    )
    return f"{(now_s() - began_s) * 1000:.0f} ms"
