"""A film that is only watched plays through the same host as a world that is played."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from gpu_node.services.contract import Chunk
from gpu_node.services.host import ServiceHost
from gpu_node.services.server_push import BRIDGE_CHUNKS, ServerPushAdapter
from shared.errors import ServiceFault, ServiceLoadFailed
from tests.support.hosting import hosted
from tests.support.wait import scaled_s

Serve = Callable[[dict[str, Any]], AsyncIterator[Chunk]]


class Film:
    """A server push service whose ``serve`` the test writes."""

    def __init__(self, serve: Serve) -> None:
        self.serve = serve
        self.stopped = False

    def start(self) -> None:
        """Nothing to load."""

    def stop(self) -> None:
        """Notes it."""
        self.stopped = True


def playing(serve: Serve) -> Any:
    """A host around a film with this ``serve``."""
    return hosted(ServerPushAdapter(Film(serve)))


async def pictures(request: dict[str, Any]) -> AsyncIterator[Chunk]:
    """As many chunks as the request says."""
    for index in range(int(request["chunks"])):
        yield {"type": "chunk", "index": index}


async def show_of(host: ServiceHost, **config: Any) -> tuple[str, Any]:
    """A session's id and its chunks."""
    name = await host.create_session(config)
    return name, host.chunks(name)


async def test_a_film_plays_to_its_end_and_the_next_one_begins() -> None:
    """One after the other, each with its own request."""
    async with playing(pictures) as host:
        for count in (3, 0, 5):
            name, chunks = await show_of(host, chunks=count, session_id="default-a")
            assert [chunk["index"] async for chunk in chunks] == list(range(count))
            await host.close_session(name)


async def test_the_request_is_the_sessions_config() -> None:
    """With all that a bidirectional service gets."""
    seen: list[dict[str, Any]] = []

    async def serve(request: dict[str, Any]) -> AsyncIterator[Chunk]:
        seen.append(request)
        yield {"type": "done"}

    config = {
        "session_id": "default-a",
        "control_idle_timeout": 10.0,
        "prompt": "a sea",
        "speed": 2,
    }
    async with playing(serve) as host:
        name, chunks = await show_of(host, **config)
        await anext(chunks)
        await host.close_session(name)
    assert seen == [config]


async def test_serve_runs_on_a_loop_of_its_own_in_a_thread_of_its_own() -> None:
    """What it blocks there stops nobody else."""
    where: set[int] = set()

    async def serve(request: dict[str, Any]) -> AsyncIterator[Chunk]:
        where.add(threading.get_ident())
        yield {"type": "chunk", "loop": id(asyncio.get_running_loop())}

    async with playing(serve) as host:
        loops = set()
        for _ in range(2):
            name, chunks = await show_of(host)
            loops.add((await anext(chunks))["loop"])
            await host.close_session(name)
        assert id(asyncio.get_running_loop()) not in loops
        assert id(host._loop) not in loops
        assert threading.get_ident() not in where
        assert host._thread.ident not in where


async def test_a_quick_film_waits_for_the_player() -> None:
    """The bridge holds a few chunks, however fast they are made."""
    made = 0

    async def serve(request: dict[str, Any]) -> AsyncIterator[Chunk]:
        nonlocal made
        while True:
            made += 1
            yield {"type": "chunk", "index": made}

    async with playing(serve) as host:
        name, chunks = await show_of(host)
        for taken in range(1, 6):
            await anext(chunks)
            # What was taken, what the host keeps ahead, what the bridge holds.
            assert taken <= made <= taken + 1 + BRIDGE_CHUNKS + 1
        await host.close_session(name)


async def test_stop_ends_a_film_between_two_chunks() -> None:
    """The room's stop reaches it, as it never did in the reference."""
    cleaned = threading.Event()

    async def serve(request: dict[str, Any]) -> AsyncIterator[Chunk]:
        try:
            while True:
                yield {"type": "chunk"}
        finally:
            cleaned.set()

    async with playing(serve) as host:
        name, chunks = await show_of(host)
        await anext(chunks)
        await host.push(name, {"type": "stop"})
        async with asyncio.timeout(scaled_s(5)):
            async for _ in chunks:
                pass
        await host.close_session(name)
        assert cleaned.is_set()


async def test_a_film_that_waits_for_ever_is_closed() -> None:
    """Its await is cancelled, and its own clean-up runs."""
    entered, cleaned = threading.Event(), threading.Event()

    async def serve(request: dict[str, Any]) -> AsyncIterator[Chunk]:
        try:
            entered.set()
            await asyncio.Event().wait()
            yield {"type": "chunk"}
        finally:
            cleaned.set()

    async with playing(serve) as host:
        name, _ = await show_of(host)
        await asyncio.to_thread(entered.wait)
        async with asyncio.timeout(scaled_s(5)):
            await host.close_session(name)
        assert cleaned.is_set()


async def test_a_film_that_blocks_ends_for_its_people_at_once_and_is_clean_when_it_lets_go() -> (
    None
):
    """Nobody can interrupt it: the stream ends, the close waits for the truth."""
    entered, release = threading.Event(), threading.Event()

    async def serve(request: dict[str, Any]) -> AsyncIterator[Chunk]:
        yield {"type": "chunk"}
        entered.set()
        release.wait()
        yield {"type": "chunk", "after": True}

    async with playing(serve) as host:
        name, chunks = await show_of(host)
        await anext(chunks)
        await asyncio.to_thread(entered.wait)
        closing = asyncio.create_task(host.close_session(name))
        async with asyncio.timeout(scaled_s(5)):
            assert [chunk async for chunk in chunks] == []
        assert not closing.done()
        with pytest.raises(ServiceFault, match="its one session is still there"):
            await host.create_session({})
        release.set()
        await closing
        await show_of(host)


async def test_a_film_that_swallows_its_cancellation_ends_after_its_next_chunk() -> None:
    """It may finish what it was doing; what it makes then reaches nobody."""
    waiting = threading.Event()

    async def serve(request: dict[str, Any]) -> AsyncIterator[Chunk]:
        yield {"type": "chunk"}
        while True:
            try:
                waiting.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                yield {"type": "chunk"}

    async with playing(serve) as host:
        name, chunks = await show_of(host)
        await anext(chunks)
        await asyncio.to_thread(waiting.wait)
        async with asyncio.timeout(scaled_s(5)):
            await host.close_session(name)
            assert [chunk async for chunk in chunks] == []


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (RuntimeError("the reel tore"), "serve.* RuntimeError: the reel tore"),
        (SystemExit(3), "serve.* SystemExit: 3"),
        (asyncio.CancelledError(), "serve.* it was cancelled from within"),
    ],
)
async def test_what_serve_raises_arrives_as_a_fault(raised: BaseException, words: str) -> None:
    """After the chunks before it, and the next film plays."""

    async def serve(request: dict[str, Any]) -> AsyncIterator[Chunk]:
        yield {"type": "chunk"}
        if request.get("tear"):
            raise raised

    async with playing(serve) as host:
        name, chunks = await show_of(host, tear=True)
        await anext(chunks)
        with pytest.raises(ServiceFault, match=words):
            await anext(chunks)
        await host.close_session(name)
        name, chunks = await show_of(host)
        assert len([chunk async for chunk in chunks]) == 1
        await host.close_session(name)


async def test_a_coroutine_that_returns_its_generator_is_served_too() -> None:
    """Both readings of ``async def serve`` are about."""

    async def serve(request: dict[str, Any]) -> AsyncIterator[Chunk]:
        return pictures({"chunks": 2})

    async with playing(serve) as host:  # type: ignore[arg-type]
        name, chunks = await show_of(host)
        assert len([chunk async for chunk in chunks]) == 2
        await host.close_session(name)


async def test_tasks_that_a_film_leaves_behind_end_with_it() -> None:
    """A closed session has nothing that runs on."""
    left: list[asyncio.Task[Any]] = []

    async def serve(request: dict[str, Any]) -> AsyncIterator[Chunk]:
        left.append(asyncio.create_task(asyncio.Event().wait()))
        yield {"type": "chunk"}

    async with playing(serve) as host:
        name, chunks = await show_of(host)
        assert len([chunk async for chunk in chunks]) == 1
        await host.close_session(name)
        assert left[0].cancelled()
        assert not [t for t in threading.enumerate() if t.name.startswith("serve ")]


async def test_ids_that_arent_there_do_no_harm() -> None:
    """Messages and closes may come late; a session that was never watched closes, too."""
    async with playing(pictures) as host:
        await host.push("never-was", {"type": "stop"})
        await host.close_session("never-was")
        name = await host.create_session({"chunks": 1})
        await host.close_session(name)
        await host.close_session(name)
        await host.push(name, {"type": "stop"})


async def test_stopping_the_service_ends_a_film_that_plays() -> None:
    """The host's own end, with a session on."""
    adapter = ServerPushAdapter(film := Film(pictures))
    async with hosted(adapter) as host:
        _, chunks = await show_of(host, chunks=1000)
        await anext(chunks)
    assert film.stopped
    assert not any(show._thread.is_alive() for show in adapter._shows.values())


@pytest.mark.parametrize("wanted", [None, 1])
async def test_a_film_has_one_session_at_a_time(wanted: int | None) -> None:
    """Whatever else the service says."""
    async with playing(pictures) as host:
        assert (await host.capacity(wanted)).sessions == 1


async def test_more_than_one_session_of_a_film_is_a_start_failure() -> None:
    """With what to do instead."""
    async with playing(pictures) as host:
        with pytest.raises(ServiceLoadFailed, match="one session at a time, not 3: leave --max-se"):
            await host.capacity(3)


async def test_hooks_and_declarations_of_a_film_are_its_own() -> None:
    """The adapter hides none of them."""
    film = Film(pictures)
    film.start_timeout_s = 77.0  # type: ignore[attr-defined]
    film.runtime_metrics = lambda session_id=None: {"of": session_id}  # type: ignore[attr-defined]
    async with hosted(ServerPushAdapter(film)) as host:
        assert host.start_timeout_s == 77.0
        assert await host.runtime_metrics("show-1") == {"of": "show-1"}
        assert await host.track_frames("show-1") is False
