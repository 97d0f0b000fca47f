"""A service lives on threads of its own, and what it does wrong arrives as our error."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_node.services.host import ServiceHost
from gpu_node.services.loader import LoadedService
from gpu_node.services.server_push import ServerPushAdapter
from shared.errors import InvalidConfig, ServiceFault, ServiceLoadFailed
from tests.support.hosting import hosted
from tests.support.synthetic_service import Journal, SyntheticService
from tests.support.wait import scaled_s, wait_until


async def test_one_chunk_is_made_ahead_and_no_more() -> None:
    """A player that stands still lets the service stand still."""
    journal = Journal()
    async with hosted(SyntheticService(journal)) as host:
        name = await host.create_session({})
        chunks = host.chunks(name)
        await anext(chunks)
        chunks.needed_in(0.25)
        await wait_until(lambda: journal.made == 2, "the next one is made")
        await host.push(name, {"type": "reset"})  # has been round the service's loop
        chunks.needed_in(0.25)
        await host.push(name, {"type": "reset"})
        assert journal.made == 2
        await anext(chunks)
        chunks.needed_in(0.25)
        await wait_until(lambda: journal.made == 3, "one more")
        await host.close_session(name)


async def test_a_quick_service_makes_the_next_chunk_as_late_as_it_can() -> None:
    """So that it knows the controls of the meantime; a slow one begins at once."""
    journal = Journal()
    async with hosted(SyntheticService(journal)) as host:
        quick = host.chunks(await host.create_session({}))
        slow = host.chunks(await host.create_session({"chunk_s": 0.05}))
        assert quick._lead_s() == math.inf
        for _ in range(4):
            await anext(quick)
            await anext(slow)
        assert quick._lead_s() < math.inf
        assert slow._lead_s() >= 0.05 + 0.04
        before_s = quick._lead_s()
        quick.learn(0.3)
        assert quick._lead_s() >= before_s + 0.3
        for _ in range(1000):
            quick.learn(0.0)
        assert quick._lead_s() <= before_s


async def test_a_player_that_didnt_say_when_gets_its_chunk_all_the_same() -> None:
    """Asking for it is enough."""
    async with hosted(SyntheticService(Journal())) as host:
        chunks = host.chunks(await host.create_session({}))
        for index in range(12):
            chunks.needed_in(3600.0)
            assert (await anext(chunks))["index"] == index


async def test_the_end_of_the_stream_ends_the_chunks() -> None:
    """And nothing of the session is left after the close."""
    async with hosted(SyntheticService(Journal())) as host:
        name = await host.create_session({"chunks": 3})
        assert [chunk["index"] async for chunk in host.chunks(name)] == [0, 1, 2]
        await host.close_session(name)


async def test_a_stream_that_fails_raises_after_the_chunks_before_it() -> None:
    """With the service's own words and the original error behind it."""
    async with hosted(SyntheticService(Journal())) as host:
        name = await host.create_session({"fail_in": "pull"})
        chunks = host.chunks(name)
        assert (await anext(chunks))["index"] == 0
        with pytest.raises(ServiceFault, match=r"pull_chunks.* the world fell apart") as caught:
            await anext(chunks)
        assert isinstance(caught.value.__cause__, RuntimeError)
        await host.close_session(name)


@pytest.mark.parametrize(("fail_in", "kind"), [("create", ServiceFault), ("config", InvalidConfig)])
async def test_a_refused_config_is_told_apart_from_a_fault(
    fail_in: str, kind: type[ServiceFault]
) -> None:
    """A ValueError is the client's, everything else the service's."""
    async with hosted(SyntheticService(Journal())) as host:
        with pytest.raises(kind) as caught:
            await host.create_session({"fail_in": fail_in})
        assert type(caught.value) is kind


async def test_the_words_about_a_config_are_bounded() -> None:
    """They go into a record and a status message."""

    class Wordy(SyntheticService):
        def create_session(self, config: dict[str, Any]) -> str:
            raise ValueError("x" * 100_000)

    async with hosted(Wordy(Journal())) as host:
        with pytest.raises(InvalidConfig) as caught:
            await host.create_session({})
        assert len(str(caught.value)) < 1000


class Unspeakable(BaseException):
    """What a library may raise: no Exception, and nothing that tells what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


def several() -> BaseExceptionGroup[BaseException]:
    """What leaves an ``asyncio.TaskGroup`` whose tasks were interrupted."""
    return BaseExceptionGroup("two", [KeyboardInterrupt(), ValueError("x")])


@pytest.mark.parametrize(
    "raised",
    [
        KeyboardInterrupt,
        SystemExit,
        asyncio.CancelledError,
        RecursionError,
        Unspeakable,
        several,
    ],
)
async def test_whatever_a_service_raises_ends_neither_the_loop_nor_the_caller(
    raised: Callable[[], BaseException],
) -> None:
    """Each call of a service fails as a fault, and the service loop serves the next session."""

    class Raising(SyntheticService):
        def create_session(self, config: dict[str, Any]) -> str:
            if config.get("raise"):
                raise raised()
            return super().create_session(config)

        def push_chunk(self, session_id: str, chunk: dict[str, Any]) -> None:
            raise raised()

        async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
            yield {"type": "chunk"}
            raise raised()

        def close_session(self, session_id: str) -> None:
            raise raised()

    async with hosted(Raising(Journal())) as host:
        with pytest.raises(ServiceFault, match="create_session"):
            await host.create_session({"raise": True})
        for _ in range(2):
            name = await host.create_session({})
            with pytest.raises(ServiceFault, match="push_chunk"):
                await host.push(name, {"type": "reset"})
            chunks = host.chunks(name)
            await anext(chunks)
            with pytest.raises(ServiceFault, match="pull_chunks"):
                await anext(chunks)
            with pytest.raises(ServiceFault, match="close_session"):
                await host.close_session(name)


async def nothing_yet(*_: object) -> None:
    """What each plain method is when its author wrote ``async def``."""
    raise AssertionError("nobody awaits it")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["start", "create_session", "push_chunk", "close_session"])
async def test_a_coroutine_in_the_place_of_a_plain_method_is_a_fault(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has done nothing: a model would count as loaded, a slot as cleaned up."""
    service = SyntheticService(Journal())
    monkeypatch.setattr(service, method, nothing_yet)
    says = pytest.raises(
        (ServiceFault, ServiceLoadFailed), match=rf"{method}\(\).* defined with async"
    )
    if method == "start":
        with says:
            async with hosted(service):
                pass
        return
    async with hosted(service) as host:
        if method == "create_session":
            with says:
                await host.create_session({})
            return
        name = await host.create_session({})
        with says:
            await host.push(name, {"type": "reset"})
            await host.close_session(name)


@pytest.mark.filterwarnings("error")
async def test_a_film_whose_start_is_a_coroutine_is_a_failed_load() -> None:
    """Server push stands behind an adapter, which must not hide it."""

    class Film:
        async def start(self) -> None: ...

        def stop(self) -> None: ...

        async def serve(self, request: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
            yield {"type": "chunk"}

    with pytest.raises(ServiceLoadFailed, match="defined with async"):
        async with hosted(ServerPushAdapter(Film())):  # type: ignore[arg-type]
            pass


async def test_closing_ends_a_stream_that_waits_for_ever() -> None:
    """`pull_chunks` is cancelled, its own clean-up runs, then `close_session` is called."""
    order: list[str] = []

    class Waiting(SyntheticService):
        async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
            try:
                yield {"type": "chunk"}
                await asyncio.Event().wait()
            finally:
                order.append("stream")

        def close_session(self, session_id: str) -> None:
            order.append("close")

    async with hosted(Waiting(Journal())) as host:
        name = await host.create_session({})
        await anext(host.chunks(name))
        await host.close_session(name)
        assert order == ["stream", "close"]


@pytest.mark.parametrize("kind", ["chunk", "status"])
async def test_a_stream_that_swallows_its_cancellation_ends_at_what_it_yields_next(
    kind: str,
) -> None:
    """Or its slot would stay taken for ever, though the service would let go."""
    waits = threading.Event()

    class Stubborn(SyntheticService):
        async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
            while True:
                yield {"type": kind}
                waits.set()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()

    async with hosted(Stubborn(Journal())) as host:
        name = await host.create_session({})
        chunks = host.chunks(name)
        await anext(chunks)
        chunks.ask()
        await wait_until(waits.is_set, "the next chunk is being made")
        async with asyncio.timeout(scaled_s(10)):
            await host.close_session(name)


async def test_a_close_that_fails_isnt_a_clean_up() -> None:
    """The caller must know, for the slot's sake."""
    async with hosted(SyntheticService(Journal())) as host:
        name = await host.create_session({"fail_in": "close"})
        with pytest.raises(ServiceFault, match="the door is stuck"):
            await host.close_session(name)


async def test_a_blocked_service_loop_blocks_nobody_else() -> None:
    """The caller's own loop goes on."""
    release = threading.Event()

    class Blocking(SyntheticService):
        def create_session(self, config: dict[str, Any]) -> str:
            release.wait()
            return super().create_session(config)

    async with hosted(Blocking(Journal())) as host:
        creating = asyncio.create_task(host.create_session({}))
        turns = 0
        while turns < 100:
            await asyncio.sleep(0)
            turns += 1
        assert not creating.done()
        release.set()
        assert await creating == "pipeline-1"


async def test_calls_after_the_close_do_no_harm() -> None:
    """Late messages of a room find nobody."""
    host = ServiceHost(
        LoadedService(path=Path("svc.py"), module_name="svc", service=SyntheticService(Journal()))
    )
    await host.start()
    await host.aclose()
    await host.aclose()
    await host.push("pipeline-1", {"type": "reset"})


@pytest.mark.parametrize(("own", "wanted", "capacity"), [(4, None, 4), (4, 2, 2), (4, 9, 4)])
async def test_the_operators_number_only_lowers_the_services_own(
    own: int, wanted: int | None, capacity: int
) -> None:
    """The hook is asked once, with the operator's number."""

    class Sized(SyntheticService):
        def configure_session_capacity(self, max_sessions: int | None) -> dict[str, Any]:
            assert max_sessions == wanted
            return {"effective_capacity": own}

    async with hosted(Sized(Journal())) as host:
        assert (await host.capacity(wanted)).sessions == capacity


@pytest.mark.parametrize(("wanted", "capacity"), [(None, 1), (3, 3)])
async def test_a_service_without_the_hook_keeps_the_operators_number(
    wanted: int | None, capacity: int
) -> None:
    """One without either."""
    async with hosted(SyntheticService(Journal())) as host:
        assert (await host.capacity(wanted)).sessions == capacity


async def test_a_start_that_raises_is_a_failed_load() -> None:
    """With the service's words."""

    class Broken(SyntheticService):
        def start(self) -> None:
            raise MemoryError("no weights fit")

    host = ServiceHost(
        LoadedService(path=Path("svc.py"), module_name="svc", service=Broken(Journal()))
    )
    with pytest.raises(ServiceLoadFailed, match=r"start\(\) in svc.py failed: MemoryError: no w"):
        await host.start()
    await host.aclose()
