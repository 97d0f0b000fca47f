"""Does the suite notice that a script is wrong?

Each bench works in a copy of the tree of its own, so the checkout is never touched and two run side
by side. A mutant meets the tests of its own script first, then all others of the store, then the
model; the first test that fails has caught it. A script that breaks (an unknown variable, a syntax
error) would fail in any test, so that counts as no catch: the mutant must go wrong, not stop.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.mutation.mutant import Mutant

_COPIED = ("pyproject.toml", "shared", "control_plane", "gpu_node", "tests", "scripts")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "console", "node_modules", "*.egg-info")
_STORE, _MODEL = "tests/store", "tests/model"
_NOT_ASKED = ("scripts", "cost", "cluster_mode", "connection", "wakeups")
"""They look at how scripts are written, called or counted, not at what scripts do."""
_TESTS_OF_PIECE = {
    "adoption": ("adopt_session", "failover"),
    "core": ("open_session", "sweep_deadlines", "register_node", "failover"),
    "deadlines": ("open_session", "advance_session", "sweep_deadlines"),
    "blame": ("tries_and_strikes",),
    "bundle": ("adopt_session", "read_bundle"),
    "choice": ("tries_and_strikes", "give_back"),
    "dispatch": ("open_session", "give_back"),
    "ending": ("cancel_session", "give_back", "sweep_nodes", "sweep_deadlines"),
    "generation": ("failover", "two_releases"),
    "media": ("beat_presence",),
    "missing": ("beat_node", "beat_settled"),
    "moving": ("live_drain",),
    "members": ("give_back", "sweep_nodes"),
    "owner": ("end_session", "advance_session"),
    "presence": ("beat_presence",),
    "recent": ("tries_and_strikes",),
    "settled": ("beat_settled", "failover"),
    "slots": ("beat_node", "sweep_deadlines", "failover"),
}
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?:\[\S+\])?(?: - (.*))?$", re.MULTILINE)
_BROKEN = ("ResponseError", "user_script", "Error compiling")
_UNDECIDED = ("Flaky", "_WrappedBaseException", "Timeout (>")
"""A test that ran out of time, or in which Hypothesis met that, proves nothing about a mutant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How one mutant fared."""

    mutant: Mutant | None
    """None: the scripts as they are."""
    caught_by: str
    """The test that failed first; '' if none did."""
    why: str
    seconds: float

    @property
    def is_broken(self) -> bool:
        """Whether the script just stopped, so that nothing is proved."""
        return any(word in self.why for word in _BROKEN)

    @property
    def is_caught(self) -> bool:
        """Whether a test noticed what the script does wrong."""
        return bool(self.caught_by) and not self.is_broken


class SuiteUnusable(RuntimeError):
    """Pytest ended in another way than with passed or failed tests."""


class Bench:
    """One copy of the tree; takes one mutant at a time."""

    def __init__(self, root: Path, folder: Path, flavour: str) -> None:
        self._folder = folder
        self._flavour = flavour
        for name in _COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, folder / name, ignore=_LEFT_OUT)
            else:
                shutil.copy2(root / name, folder / name)

    def try_out(self, mutant: Mutant | None) -> Verdict:
        """Plant *mutant*, run tests until one fails, and take it out again."""
        started_s = time.monotonic()
        if mutant is None:
            caught_by, why = self._first_failure(None)
        else:
            path = self._folder / mutant.path
            sound = path.read_text(encoding="utf-8")
            path.write_text(mutant.plant(sound), encoding="utf-8")
            caught_by, why = self._first_failure(mutant)
            path.write_text(sound, encoding="utf-8")
        seconds = time.monotonic() - started_s
        return Verdict(mutant=mutant, caught_by=caught_by, why=why, seconds=seconds)

    def _first_failure(self, mutant: Mutant | None) -> tuple[str, str]:
        for tests in self._rounds(mutant):
            if failure := self._run(tests):
                return failure
        return "", ""

    def _rounds(self, mutant: Mutant | None) -> Iterator[list[str]]:
        near = [] if mutant is None else self._near(mutant.file)
        if near:
            yield near
        far = sorted(path.name for path in (self._folder / _STORE).glob("test_*.py"))
        left_out = {f"test_{name}.py" for name in _NOT_ASKED} | {Path(name).name for name in near}
        yield [f"{_STORE}/{name}" for name in far if name not in left_out]
        yield [_MODEL]

    def _near(self, file: str) -> list[str]:
        name = file.removeprefix("include/")
        names = (
            _TESTS_OF_PIECE.get(name, ())
            if name != file
            else (name, name.replace("node", "presence"))
        )
        wanted = [f"{_STORE}/test_{one}.py" for one in dict.fromkeys(names)]
        return [one for one in wanted if (self._folder / one).exists()]

    def _run(self, tests: Sequence[str]) -> tuple[str, str] | None:
        """Return the first failed test and why, or None if all passed."""
        options = ("-x", "-q", "-rfE", "--tb=no", "-p", "no:randomly", "-p", "no:cacheprovider")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, "--hypothesis-seed=0", *tests],
            cwd=self._folder,
            env={**os.environ, "GREENROOM_TEST_REDIS": self._flavour, "COLUMNS": "400"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return None
        failed = _FAILED.search(done.stdout)
        if done.returncode != 1 or failed is None:
            raise SuiteUnusable(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}")
        why = failed[2] or ""
        if any(word in why for word in _UNDECIDED):
            raise SuiteUnusable(f"{failed[1]} proves nothing, it wasn't done in time: {why}")
        return failed[1], why
