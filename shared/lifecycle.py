"""How does a long-running loop start, stop and fail?

What each part of a process promises, so that parts can be stacked:

- starting returns at once and the work goes on in named tasks;
- ``aclose`` returns only when all of it has stopped; twice, or before the start, does no harm;
- a task that raises is logged with its trace and told to its owner once; nothing dies in silence.

Broad ``except`` lives here (and in the runner, which turns a fault into a session's end), so that
no other module needs one: `repeat` keeps a periodic loop alive over faults, `foreign_code` turns
whatever somebody else's code raises into one of our errors, `in_thread` carries it across.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any, NoReturn, TypeVar

import structlog

from shared.errors import GreenroomError, Unavailable

T = TypeVar("T")
_log = structlog.get_logger()

_TEXT_LIMIT = 500
_CANCEL_AGAIN_S = 1.0


class Background:
    """The named tasks of one owner."""

    def __init__(self, on_crash: Callable[[str, BaseException], None] | None = None) -> None:
        self._on_crash = on_crash
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run *work* as a task called *name*; a crash is logged and told to the owner."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    @property
    def is_idle(self) -> bool:
        """Whether no task runs."""
        return not self._tasks

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        _log.error("task_crashed", task=task.get_name(), exc_info=error)
        if self._on_crash is not None:
            self._on_crash(task.get_name(), error)

    async def join(self) -> None:
        """Return when all tasks have ended; giving up the wait leaves them alone."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
            await asyncio.sleep(0)  # lets the done callbacks run, which empty the set

    async def aclose(self) -> None:
        """Cancel all tasks and return when they have ended; the calling task is left out.

        Cancelled again after a while: libraries lose a cancellation now and then.
        """
        while tasks := self._tasks - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_CANCEL_AGAIN_S)
            await asyncio.sleep(0)  # lets the done callbacks run, which empty the set


async def repeat(
    step: Callable[[], Awaitable[object]], *, name: str, every_s: float, longest_s: float = 5.0
) -> NoReturn:
    """Call *step* for ever, with *every_s* between two calls.

    A fault never ends the loop: it is logged (an outage when it begins and when it is over,
    anything else with its trace) and the pause doubles up to *longest_s* until a call succeeds
    again.
    """
    faults = 0
    while True:
        try:
            await step()
        except Unavailable as error:
            if faults == 0:
                _log.warning("loop_waits", loop=name, why=str(error))
            faults += 1
        except Exception:
            _log.exception("loop_step_failed", loop=name)
            faults += 1
        else:
            if faults:
                _log.info("loop_recovered", loop=name, faults=faults)
            faults = 0
        await asyncio.sleep(max(every_s, min(longest_s, every_s * 2 ** min(faults, 16))))


async def until_available(call: Callable[[], Awaitable[T]], *, every_s: float = 0.5) -> T:
    """Repeat *call* over outages until it answers; only for calls that may be repeated."""
    while True:
        try:
            return await call()
        except Unavailable:
            await asyncio.sleep(every_s)


async def with_each(items: Iterable[T], step: Callable[[T], Awaitable[None]]) -> None:
    """Take *step* with all *items* at once; one that isn't available keeps no other from it.

    At once, since each may wait for an answer until its time is over.

    Raises:
        Unavailable: Of one at least.
        Exception: Any other fault of a step, once all are through.
    """
    outcomes = await asyncio.gather(*map(step, items), return_exceptions=True)
    faults = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    faults.sort(key=lambda fault: isinstance(fault, Unavailable))  # the others first
    if faults:
        raise faults[0]


def describe(error: BaseException) -> str:
    """Return the kind and the message of *error* in one line of bounded length."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # an error of somebody else's may fail at telling what it is
        text = ""
    kind = type(error).__name__
    return (f"{kind}: {text}" if text else kind)[:_TEXT_LIMIT]


@contextlib.contextmanager
def foreign_code(explain: Callable[[BaseException], GreenroomError]) -> Iterator[None]:
    """Run code that isn't ours: whatever it raises leaves as the error that *explain* makes.

    ``sys.exit``, a raised ``KeyboardInterrupt`` and groups of such count as faults too: somebody's
    model file must not end the process, nor the event loop that it runs on. Only cancellation and
    the end of a generator pass.
    """
    try:
        yield
    except (GreenroomError, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        raise explain(error) from error


def call_foreign(call: Callable[[], T], explain: Callable[[BaseException], GreenroomError]) -> T:
    """Return what *call* returns; it waits for nothing, so a cancellation out of it is its own."""
    with foreign_code(explain):
        try:
            return call()
        except asyncio.CancelledError as own:
            raise RuntimeError("it was cancelled from within") from own


def plainly(call: Callable[[], T]) -> T:
    """Return what *call* returns; raises TypeError for a coroutine, which has done nothing yet.

    Somebody's ``async def`` in the place of a plain method would seem to have loaded, heard or
    cleaned up at once.
    """
    answer = call()
    if inspect.iscoroutine(answer):
        answer.close()
        raise TypeError("it is defined with async, and must be a plain method")
    return answer


async def in_thread(name: str, call: Callable[[], T]) -> T:
    """Return what *call* returns, run in a daemon thread of its own.

    Not a pool: a call that never returns may neither make others wait nor keep the process from
    exiting. Cancelling the caller abandons the thread's result, not the thread.
    """
    outcome: concurrent.futures.Future[T] = concurrent.futures.Future()

    def work() -> None:
        try:
            value = call()
        except BaseException as error:
            settle(outcome, error=error)
        else:
            settle(outcome, value=value)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await asyncio.wrap_future(outcome)


def settle(
    outcome: concurrent.futures.Future[T],
    *,
    value: T | None = None,
    error: BaseException | None = None,
) -> None:
    """Give *outcome* its result, unless the caller has stopped waiting for it."""
    if not outcome.set_running_or_notify_cancel():
        return
    if error is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(value)  # type: ignore[arg-type]


class StopSignals:
    """SIGTERM and SIGINT: the first asks for an orderly stop, the second quits at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.interrupted = False
        """The first one was a Ctrl-C: whoever pressed it doesn't want to wait for a grace."""

    def install(self) -> None:
        """Take the signals over on the running loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        if self.asked.is_set():
            os._exit(128 + number)
        _log.info("stop_asked", signal=number.name)
        self.interrupted = number == signal.SIGINT
        self.asked.set()
