"""Do child processes come back, stop in order, and never outlive their supervisor?"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from shared.embedded.child import ChildSpec
from shared.embedded.supervisor import ChildFailed, ChildRefused, RestartPolicy, Supervisor
from tests.support.wait import wait_until, wait_until_sync

LIVES = "import time; print('up', flush=True)\nwhile True: time.sleep(60)"
IGNORES_TERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LIVES
CRASHES = "import sys; print('it broke', flush=True); sys.exit(3)"
REFUSES = 'import sys; print(\'{"event": "x"}\\nNo such file.\\nTry: another.\'); sys.exit(2)'


async def at_once() -> bool:
    """Count as ready without being asked anything."""
    return True


def python(name: str, code: str, **more: object) -> ChildSpec:
    """Return the spec of a small Python child."""
    settings = {"ready": at_once, "stop_within_s": 2.0, **more}
    return ChildSpec(name=name, argv=(sys.executable, "-u", "-c", code), env=os.environ, **settings)  # type: ignore[arg-type]


@dataclass
class Stage:
    """A supervisor and all that it said and showed."""

    supervisor: Supervisor
    said: list[str] = field(default_factory=list)
    shown: list[tuple[str, str]] = field(default_factory=list)


MakeStage = Callable[..., "contextlib.AbstractAsyncContextManager[Stage]"]


@pytest.fixture
def stage(tmp_path: Path) -> MakeStage:
    """Make supervisors that are closed at the end."""

    @contextlib.asynccontextmanager
    async def make(policy: RestartPolicy | None = None) -> AsyncIterator[Stage]:
        said: list[str] = []
        shown: list[tuple[str, str]] = []
        supervisor = Supervisor(
            log_dir=tmp_path / "logs",
            say=said.append,
            show=lambda name, line: shown.append((name, line)),
            policy=policy or RestartPolicy(first_pause_s=0.02, crashes=3),
        )
        await supervisor.open()
        try:
            yield Stage(supervisor, said, shown)
        finally:
            supervisor.hurry()
            await supervisor.aclose(())

    return make


async def test_a_killed_child_is_started_again(stage: MakeStage) -> None:
    """After kill -9 the child has a new process id and becomes ready again."""
    async with stage() as on:
        on.supervisor.start(python("one", LIVES))
        await on.supervisor.ready("one")
        first = on.supervisor.pid("one")
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await wait_until(lambda: on.supervisor.pid("one") != first, "the child runs again")
        await on.supervisor.ready("one")
        assert any("SIGKILL" in line for line in on.said)


async def test_a_child_that_keeps_crashing_ends_the_whole_with_its_last_lines(
    stage: MakeStage,
) -> None:
    """The failure names the child, how often it crashed, and what it said last."""
    async with stage() as on:
        on.supervisor.start(python("bad", CRASHES, ready=never))
        with pytest.raises(ChildFailed, match=r"bad crashed 3 times .*status 3(?s:.*)it broke"):
            await on.supervisor.ready("bad")


async def test_exit_status_two_is_a_sentence_for_the_operator(stage: MakeStage) -> None:
    """Such a child isn't started again; its plain last lines are the whole message."""
    async with stage() as on:
        on.supervisor.start(python("picky", REFUSES, ready=never))
        with pytest.raises(ChildRefused) as refused:
            await on.supervisor.ready("picky")
        assert str(refused.value) == "No such file.\nTry: another."


async def test_a_final_status_is_not_tried_again(stage: MakeStage) -> None:
    """A child that names another status as final is given up at its first end."""
    code = "import sys; print('{}', flush=True); sys.exit(3)"
    async with stage() as on:
        on.supervisor.start(python("old", code, ready=never, final_statuses=frozenset((3,))))
        with pytest.raises(ChildFailed, match="old ended for good"):
            await on.supervisor.ready("old")
        assert on.said == []


async def test_a_child_that_never_becomes_ready_counts_as_crashed(stage: MakeStage) -> None:
    """It is killed at its limit, and given up after as many tries as any other."""
    async with stage() as on:
        on.supervisor.start(python("slow", LIVES, ready=never, ready_within_s=0.1))
        with pytest.raises(ChildFailed, match="slow crashed 3 times"):
            await on.supervisor.ready("slow")


async def test_a_missing_program_is_told_in_one_sentence(stage: MakeStage) -> None:
    """A program that isn't there isn't tried again and again."""
    spec = ChildSpec(name="gone", argv=("/no/such/program",), env=os.environ, ready=never)
    async with stage() as on:
        on.supervisor.start(spec)
        with pytest.raises(ChildRefused, match=r"/no/such/program can't be run \(No such file"):
            await on.supervisor.ready("gone")


async def test_stopping_goes_in_the_given_order(stage: MakeStage) -> None:
    """The second child still runs when the first has ended."""
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit()))\n"
    )
    async with stage() as on:
        for name in ("a", "b"):
            on.supervisor.start(python(name, code + LIVES, shown=True))
        await wait_until(lambda: len(on.shown) == 2, "both are up")
        await on.supervisor.aclose(["b", "a"])
        assert [name for name, _ in on.shown[2:]] == ["b", "a"]


async def test_a_child_that_ignores_sigterm_is_killed_at_its_limit(stage: MakeStage) -> None:
    """Nothing that a child does keeps the supervisor from ending."""
    async with stage() as on:
        on.supervisor.start(python("deaf", IGNORES_TERM, shown=True, stop_within_s=0.2))
        await wait_until(lambda: on.shown, "it is up")
        pid = on.supervisor.pid("deaf")
        await on.supervisor.aclose(["deaf"])
        assert pid is not None
        assert not psutil.pid_exists(pid)


async def test_hurry_cuts_the_limits_short(stage: MakeStage) -> None:
    """The second Ctrl-C doesn't wait for a child's limit."""
    async with stage() as on:
        on.supervisor.start(python("deaf", IGNORES_TERM, shown=True, stop_within_s=60.0))
        await wait_until(lambda: on.shown, "it is up")
        on.supervisor.hurry()
        started_s = time.monotonic()
        await on.supervisor.aclose(["deaf"])
        assert time.monotonic() - started_s < 10


@pytest.mark.parametrize("log", ["full", "no folder"])
async def test_a_log_that_cannot_be_written_stops_nobody(
    stage: MakeStage, tmp_path: Path, log: str
) -> None:
    """On a full disk a child talks on, instead of blocking in a full pipe; it's told once."""
    if log == "full":
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / "one.log").symlink_to("/dev/full")
    else:
        (tmp_path / "logs").touch()
    talks = "for n in range(3000): print(n, 'x' * 200, flush=n % 100 == 0)\nprint('done')\n" + LIVES
    async with stage() as on:
        on.supervisor.start(python("one", talks, shown=True))
        await wait_until(lambda: ("one", "up") in on.shown, "all was read")
        assert ("one", "done") in on.shown
        (told,) = [line for _, line in on.shown if "can't be written" in line]
        assert told.endswith("(No space left on device)" if log == "full" else "(File exists)")


async def test_all_output_is_in_the_log_file(stage: MakeStage, tmp_path: Path) -> None:
    """The log keeps each line, whether it was shown or not."""
    async with stage() as on:
        on.supervisor.start(python("quiet", LIVES))
        log = tmp_path / "logs" / "quiet.log"
        await wait_until(lambda: log.exists() and log.read_text() == "up\n", "the line is there")
        assert on.shown == []


def test_kill_minus_nine_leaves_neither_child_nor_grandchild(tmp_path: Path) -> None:
    """When the supervisor is killed, everything below it is gone within 5 s."""
    command = [sys.executable, "-m", "tests.support.supervised", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        ids = json.loads(parent.stdout.readline())
        assert all(psutil.pid_exists(pid) for pid in ids.values())
        parent.kill()
    wait_until_sync(lambda: not any(alive(pid) for pid in ids.values()), "the whole family is gone")


async def never() -> bool:
    """Never become ready."""
    return False


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that waits for its burial doesn't."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False
