"""Does a service play as it must: valid chunks, all controls, each session for itself?"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from gpu_node.conformance.bench import Bench, Ended, Failed, Playing, Skipped, now_s
from gpu_node.media import MediaChunk

_CHUNKS = 8
_PING_S = 0.02
_KNOWN_TYPES = frozenset(("chunk", "preview", "status", "error", "done"))
_CONTROLS: tuple[dict[str, object], ...] = (
    {"type": "control_state", "controls": ["w", "ArrowLeft"]},
    {"type": "control_state", "controls": []},
    {"type": "control", "control": "d", "event": "press"},
    {"type": "control", "control": "d", "event": "release"},
    {"type": "control", "event": "reset_pose"},
    {"type": "prompt", "prompt": "a forest"},
    {"type": "reset"},
)
_SLOWER = 1.2
"""A service that waits for its own frame rate is a little late."""
_UNEVEN = 0.2
"""Sound and picture of one chunk may differ by so much of its length."""


async def makes_a_first_frame(bench: Bench) -> str:
    """One session, one frame."""
    began_s = now_s()
    async with bench.session() as playing:
        try:
            chunk = await playing.frames()
        except Ended:
            raise Failed("The session ended before its first frame.") from None
    height, width = chunk.frames[0].shape[:2]
    return f"{width}x{height} after {now_s() - began_s:.2f} s"


async def makes_valid_chunks(bench: Bench) -> str:
    """Several in a row, of one kind."""
    async with bench.session() as playing:
        chunks = await _taken(playing, _CHUNKS)
    sizes = {frame.shape for chunk in chunks for frame in chunk.frames}
    if len(sizes) > 1:
        bench.remark(f"frames change their size ({len(sizes)} sizes): the track is replaced then")
    for chunk in chunks:
        if chunk.type not in _KNOWN_TYPES:
            bench.remark(f"chunks have the type {chunk.type!r}, which is played as a chunk")
        _compare_lengths(bench, chunk)
    frames = sum(len(chunk.frames) for chunk in chunks)
    return f"{len(chunks)} chunks, {frames} frames at {chunks[0].fps:g} fps"


def _compare_lengths(bench: Bench, chunk: MediaChunk) -> None:
    if chunk.audio is None:
        return
    picture_s, sound_s = len(chunk.frames) / chunk.fps, chunk.audio.duration_s
    if abs(picture_s - sound_s) > _UNEVEN * max(picture_s, sound_s):
        bench.remark(f"a chunk has {picture_s:.2f} s of picture and {sound_s:.2f} s of sound")


async def keeps_up(bench: Bench) -> str:
    """Whether chunks are made as fast as they play; a remark, for another machine may be faster."""
    async with bench.session() as playing:
        await _taken(playing, 1)
        began_s = now_s()
        chunks = await _taken(playing, _CHUNKS, or_fewer=True)
    if not chunks:
        raise Skipped("the film is too short to tell")
    made_s, plays_s = now_s() - began_s, sum(chunk.duration_s for chunk in chunks)
    if made_s > _SLOWER * plays_s:
        bench.remark(f"{plays_s:.2f} s of film took {made_s:.2f} s to make: it will stutter here")
    return f"{plays_s / max(made_s, 1e-3):.1f} times"


async def takes_every_control(bench: Bench) -> str:
    """In each of the shapes that the room lets through, without a word in the stream."""
    if bench.is_film:
        raise Skipped("a server push service gets no controls")
    async with bench.session() as playing:
        await playing.frames()
        for message in _CONTROLS:
            await bench.within(
                bench.limits.create, f"push_chunk() of {message}", _pushed(bench, playing, message)
            )
        await playing.frames()
    return f"{len(_CONTROLS)} kinds"


async def _pushed(bench: Bench, playing: Playing, message: dict[str, object]) -> None:
    await bench.host.push(playing.name, dict(message))


async def keeps_sessions_apart(bench: Bench) -> str:
    """Two at once: ids, chunks, memory and controls of their own; one may end under the other."""
    if bench.capacity < 2:
        raise Skipped("it keeps one session at a time")
    first, second = await bench.play(), await bench.play()
    if first.name == second.name:
        raise Failed(
            f"Two sessions got the same id {first.name!r}.",
            "Return a new id from each create_session(), for example str(uuid.uuid4()).",
        )
    await bench.host.push(first.name, {"type": "control_state", "controls": ["KeyJ"]})
    mine, other = [], []
    for _ in range(_CHUNKS // 2):
        mine.append(await playing_on(first))
        other.append(await playing_on(second))
    for chunks in (mine, other):
        _must_count_for_itself(chunks)
    if "KeyJ" in str([chunk.metadata.get("applied_controls") for chunk in other]):
        raise Failed(
            "A control of one session was applied in another.",
            "Keep controls by session id.",
        )
    await bench.close(first.name)
    await playing_on(second)
    await bench.close(second.name)
    return "two played at once"


async def playing_on(playing: Playing) -> MediaChunk:
    """Return the next chunk; ending is no part of this."""
    try:
        return await playing.frames()
    except Ended:
        raise Failed(
            "A session ended although nobody had ended it, while another one played or closed.",
            "Keep all state of a session by its id.",
        ) from None


def _must_count_for_itself(chunks: list[MediaChunk]) -> None:
    numbers = [
        c.index for c in chunks if isinstance(c.index, int) and not isinstance(c.index, bool)
    ]
    if len(numbers) < len(chunks):
        return
    if any(after <= before for before, after in itertools.pairwise(numbers)) or (
        numbers[-1] - numbers[0] != len(numbers) - 1
    ):
        raise Failed(
            f"With two sessions at once, one of them got the chunks {numbers}: not its own.",
            "Keep counter, queue and generator of a session by its id.",
        )


async def lets_others_run(bench: Bench) -> str:
    """How long the loop that all sessions share stands still while one plays; a remark."""
    async with bench.session() as playing:
        await playing.frames()
        watch = asyncio.create_task(_longest_stand_s(bench, over := asyncio.Event()))
        await _taken(playing, _CHUNKS // 2, or_fewer=True)
        over.set()
        longest_s = await watch
    if longest_s > bench.limits.s(bench.limits.block) and bench.capacity > 1:
        bench.remark(
            f"making a chunk stops all sessions for {longest_s:.2f} s; compute in a thread: "
            "await asyncio.to_thread(…)"
        )
    return f"the shared loop stood for {longest_s * 1000:.0f} ms at most"


async def _longest_stand_s(bench: Bench, over: asyncio.Event) -> float:
    """Ask the service loop again and again, until it's over, and return its slowest answer."""
    longest_s = 0.0
    while not over.is_set():
        turned = asyncio.Event()
        asked_s = now_s()
        bench.host.touch(_on_loop(asyncio.get_running_loop(), turned))
        await turned.wait()
        longest_s = max(longest_s, now_s() - asked_s)
        await asyncio.sleep(_PING_S)
    return longest_s


def _on_loop(loop: asyncio.AbstractEventLoop, turned: asyncio.Event) -> Callable[[], None]:
    def tell() -> None:
        loop.call_soon_threadsafe(turned.set)

    return tell


async def _taken(playing: Playing, count: int, *, or_fewer: bool = False) -> list[MediaChunk]:
    """Return the next chunks with frames; a film may end before."""
    chunks: list[MediaChunk] = []
    while len(chunks) < count:
        try:
            chunks.append(await playing.frames())
        except Ended:
            break
    if not chunks and not or_fewer:
        raise Failed("The session ended before its first frame.")
    return chunks
