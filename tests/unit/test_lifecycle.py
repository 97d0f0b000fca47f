"""Loops start, stop and fail as promised."""

from __future__ import annotations

import asyncio
import threading

import pytest

from shared.errors import ServiceFault, StoreUnavailable
from shared.lifecycle import (
    Background,
    call_foreign,
    describe,
    foreign_code,
    in_thread,
    repeat,
    with_each,
)
from tests.support.wait import wait_until


async def test_a_crashed_task_is_told_to_its_owner_once() -> None:
    """The owner hears the task's name and the error."""
    crashes: list[tuple[str, BaseException]] = []
    background = Background(lambda name, error: crashes.append((name, error)))
    fault = RuntimeError("boom")

    async def fail() -> None:
        raise fault

    background.start("fragile", fail())
    await wait_until(lambda: crashes, "the crash to be told")
    await background.aclose()
    assert crashes == [("fragile", fault)]


async def test_closing_ends_all_tasks_and_may_be_repeated() -> None:
    """``aclose`` returns when everything has stopped, and tells no crash."""
    crashes: list[str] = []
    background = Background(lambda name, _error: crashes.append(name))
    await background.aclose()
    tasks = [background.start(f"loop {n}", asyncio.Event().wait()) for n in range(3)]
    await background.aclose()
    await background.aclose()
    assert all(task.cancelled() for task in tasks)
    assert crashes == []


async def test_a_periodic_loop_survives_outages_and_faults() -> None:
    """A step that raises is called again."""
    faults: list[Exception] = [StoreUnavailable(why="down"), RuntimeError("a bug")]
    calls = 0

    async def step() -> None:
        nonlocal calls
        calls += 1
        if faults:
            raise faults.pop()

    background = Background()
    background.start("loop", repeat(step, name="loop", every_s=0.01, longest_s=0.02))
    await wait_until(lambda: calls >= 4, "the loop to go on")
    await background.aclose()


async def test_each_gets_its_turn_though_some_are_out() -> None:
    """Nobody waits for those that hang; whoever asked hears of it, of a real fault first."""
    had: list[str] = []
    is_over = asyncio.Event()

    async def step(name: str) -> None:
        if name == "hangs":
            await is_over.wait()
            raise StoreUnavailable(why="no answer in time")
        if name == "breaks":
            raise ZeroDivisionError
        had.append(name)
        if name == "last":
            is_over.set()

    await with_each("ab", step)
    with pytest.raises(StoreUnavailable):
        await with_each(["hangs", "c", "last"], step)
    with pytest.raises(ZeroDivisionError):
        await with_each(["hangs", "breaks", "d"], step)
    assert had == ["a", "b", "c", "last", "d"]


async def test_a_call_in_a_thread_brings_its_result_or_its_error_back() -> None:
    """The call doesn't run on the loop's thread."""
    here = threading.get_ident()
    assert await in_thread("worker", threading.get_ident) != here
    with pytest.raises(ZeroDivisionError):
        await in_thread("worker", lambda: 1 // 0)


async def test_an_abandoned_call_in_a_thread_does_no_harm() -> None:
    """Its late result is dropped."""
    release, ended = threading.Event(), threading.Event()

    def call() -> None:
        release.wait()
        ended.set()

    task = asyncio.create_task(in_thread("slow", call))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    release.set()
    await wait_until(ended.is_set, "the thread to end")
    assert task.cancelled()


@pytest.mark.parametrize(
    "raised",
    [
        KeyError("x"),
        SystemExit(3),
        KeyboardInterrupt(),
        BaseExceptionGroup("two", [KeyboardInterrupt(), ValueError("x")]),
        type("Fatal", (BaseException,), {})(),
    ],
)
def test_foreign_code_leaves_with_an_error_of_ours(raised: BaseException) -> None:
    """Even ``sys.exit`` and a raised Ctrl-C become an error that keeps its cause."""
    with pytest.raises(ServiceFault) as caught, foreign_code(lambda e: ServiceFault(describe(e))):
        raise raised
    assert caught.value.__cause__ is raised


def test_a_call_that_raises_a_cancellation_has_failed() -> None:
    """Nobody can have cancelled a call that never waits: the caller isn't cancelled either."""

    def call() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ServiceFault, match="cancelled from within"):
        call_foreign(call, lambda e: ServiceFault(describe(e)))


def test_an_error_of_ours_passes_foreign_code_unchanged() -> None:
    """It is explained already."""
    fault = StoreUnavailable(why="down")
    with (
        pytest.raises(StoreUnavailable) as caught,
        foreign_code(lambda e: ServiceFault(describe(e))),
    ):
        raise fault
    assert caught.value is fault


def test_a_description_is_one_line_of_bounded_length() -> None:
    """Error texts go into records and status messages."""
    assert describe(ValueError("a\n  b")) == "ValueError: a b"
    assert describe(ValueError()) == "ValueError"
    assert len(describe(ValueError("x" * 9999))) == 500


def test_an_error_that_cant_tell_what_it_is_is_named() -> None:
    """Its text may be code of somebody else's, which fails on its own."""

    class WordlessError(Exception):
        def __str__(self) -> str:
            return str(1 / 0)

    assert describe(WordlessError()) == "WordlessError"
