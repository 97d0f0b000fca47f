"""How is a service file tried from the outside?

Its text is judged here, everything else in children, one after the other: a failed check costs its
child, for nobody knows what state the service is in, and the rest goes on in a fresh one. A child
that dies or hangs is a finding like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from gpu_node.conformance.results import Begun, Outcome, Result, decoded
from gpu_node.conformance.suite import ALL, FIRST, PLAYED
from gpu_node.services.validation import Level, judge
from gpu_node.settings import service_environment

_LINES_SHOWN = 3
_OUTPUT_READ_BYTES = 8192
_BOOT_S = 120.0
_NEEDED = tuple(check.name for check in FIRST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What is to be tried, and how."""

    path: Path
    level: Level = Level.BASIC
    config: dict[str, Any] = field(default_factory=dict)
    """What a session of the service needs besides what every one gets."""
    patience: float = 1.0
    """Factor of all time limits."""
    cycles: int = 50
    """Sessions that are made one after the other, to see what they leave behind."""
    only: tuple[str, ...] = ()
    """Names of checks; empty: all."""


class Examination:
    """One service file and what is found about it."""

    def __init__(self, wishes: Wishes, on_result: Callable[[Result], None]) -> None:
        self._wishes = wishes
        self._on_result = on_result
        self._known: dict[str, Result] = {}

    async def run(self) -> list[Result]:
        """Return one result for each check, in the order of the suite."""
        if self._judge_text() and await self._play():
            await self._resume()
        for check in ALL.values():
            if self._is_wanted(check.name) and check.name not in self._known:
                self._add(_result(check.name, Outcome.NOT_RUN, "something before it failed"))
        return [self._known[name] for name in ALL if name in self._known]

    def _is_wanted(self, name: str) -> bool:
        return not self._wishes.only or name in self._wishes.only or name in _NEEDED

    def _add(self, result: Result) -> None:
        """Keep the first word about each check."""
        if result.check not in self._known:
            self._known[result.check] = result
            self._on_result(result)

    def _judge_text(self) -> bool:
        judged = judge(self._wishes.path, self._wishes.level)
        remarks = "; ".join(finding.told for finding in judged.remarks)
        if judged.refused:
            self._add(
                _result(
                    "validation",
                    Outcome.FAILED,
                    f"{'; '.join(finding.told for finding in judged.refused)}.",
                    "A node doesn't load the file unless it is told --skip-validation."
                    if judged.can_run
                    else "Nothing can load it.",
                )
            )
            return False
        outcome = Outcome.REMARKED if remarks else Outcome.PASSED
        self._add(_result("validation", outcome, "", remarks))
        return True

    async def _play(self) -> bool:
        """Run all checks of a loaded service; whether it came up each time that it was needed."""
        left = [check.name for check in PLAYED if self._is_wanted(check.name)]
        last_text = ""
        is_first = True
        while left or is_first:
            is_first = False
            results, failed = await self._one_child(left)
            for result in results:
                self._add(result)
            if failed is None:
                return True
            if failed.check in _NEEDED:
                if failed.check in self._known:  # it has come up before
                    self._add(_not_again(failed))
                self._add(failed)
                return False
            self._add(failed)
            left = [name for name in left if name not in self._known]
            if failed.text == last_text:
                return False  # they all fail the same way
            last_text = failed.text
        return True

    async def _resume(self) -> None:
        """Kill a process that plays; another one must play the same session."""
        if not self._is_wanted("resume"):
            return
        results: list[Result] = []
        for _ in range(2):
            results, failed = await self._one_child(["resume"])
            for result in results:
                if result.check in _NEEDED:
                    self._add(result)
            if failed is not None:
                self._add(failed if failed.check == "resume" else _not_again(failed))
                return
        self._add(results[-1])

    async def _one_child(self, names: Sequence[str]) -> tuple[list[Result], Result | None]:
        """Run checks in a fresh child; return what passed, and what failed if anything did."""
        passed: list[Result] = []
        with tempfile.TemporaryFile() as output:
            child = await Child.start(self._wishes, names, output)
            try:
                while (result := await child.result()) is not None:
                    if result.outcome is Outcome.FAILED:
                        return passed, result
                    passed.append(result)
                    if names and result.check == names[-1]:
                        break
            finally:
                await child.kill()
        return passed, None


class Child:
    """One child process and what it says."""

    def __init__(
        self, process: asyncio.subprocess.Process, said: asyncio.StreamReader, output: IO[bytes]
    ) -> None:
        self._process = process
        self._said = said
        self._output = output

    @classmethod
    async def start(cls, wishes: Wishes, names: Sequence[str], output: IO[bytes]) -> Child:
        """Start it; it begins at once."""
        plan = {
            "path": str(wishes.path),
            "checks": list(names),
            "config": wishes.config,
            "patience": wishes.patience,
            "cycles": wishes.cycles,
        }
        reading, writing = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "gpu_node.conformance.child",
                str(writing),
                json.dumps(plan),
                env=service_environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(writing,),
                start_new_session=True,
            )
        finally:
            os.close(writing)
        said = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(said), os.fdopen(reading, "rb", buffering=0)
        )
        return cls(process, said, output)

    async def result(self) -> Result | None:
        """Return the next result, also for a death or a hang; None after an orderly end."""
        begun: Begun | None = None
        while True:
            within_s = begun.within_s if begun else _BOOT_S
            try:
                async with asyncio.timeout(within_s):
                    line = await self._said.readline()
            except TimeoutError:
                return self._failed(begun, f"It hangs: nothing came for {within_s:.0f} s.")
            if not line:
                return await self._after_end(begun)
            message = decoded(line)
            if isinstance(message, Result):
                return message
            begun = message

    async def _after_end(self, begun: Begun | None) -> Result | None:
        code = await self._process.wait()
        if begun is None and code == 0:
            return None
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return self._failed(begun, f"It ended its whole process ({how}).")

    def _failed(self, begun: Begun | None, text: str) -> Result:
        self._output.seek(0)
        lines = self._output.read()[-_OUTPUT_READ_BYTES:].decode(errors="replace").splitlines()
        last = " | ".join(line.strip() for line in lines[-_LINES_SHOWN:] if line.strip())
        where = f"Its last lines: {last}" if last else "It wrote nothing before that."
        check = begun.check if begun else "load"
        return replace(_result(check, Outcome.FAILED, text), where=where)

    async def kill(self) -> None:
        """End it and whatever it has started."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()


def _result(check: str, outcome: Outcome, text: str, advice: str = "") -> Result:
    return Result(check=check, title=ALL[check].title, outcome=outcome, text=text, advice=advice)


def _not_again(failed: Result) -> Result:
    """It came up once and not a second time."""
    return _result(
        "resume",
        Outcome.FAILED,
        f"A fresh process didn't come up after one was killed: {failed.text}",
        "Leave no locks and no half-written files that a killed process can't take away.",
    )
