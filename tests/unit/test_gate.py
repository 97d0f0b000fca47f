"""Does the gate notice what it is there for?"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import docs, house

ROOT = Path(__file__).resolve().parents[2]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the code and its import rules, to plant something in."""
    for package in ("control_plane", "gpu_node", "shared"):
        ignored = shutil.ignore_patterns("node_modules", "dist", "__pycache__", "console")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on a copy."""
    command = [str(LINT_IMPORTS), "--no-logo", "--no-cache"]
    environment = {"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("control_plane/admission.py", "import gpu_node.pacer", "The planes never meet"),
        ("gpu_node/pacer.py", "import control_plane.admission", "The planes never meet"),
        ("shared/ids.py", "import gpu_node.pacer", "The planes never meet"),
        ("control_plane/admission.py", "import redis", "Redis is reached"),
        ("shared/states.py", "import shared.store", "Pure modules"),
        ("gpu_node/runner.py", "import livekit.api", "LiveKit is reached"),
        ("control_plane/cli/main.py", "import control_plane.app", "The command line starts"),
    ],
)
def test_a_planted_import_breaks_its_rule(copy: Path, module: str, line: str, broken: str) -> None:
    """Each rule is really switched on: an import that it forbids is found and named."""
    path = copy / module
    text = path.read_text()
    future = "from __future__ import annotations\n"
    path.write_text(text.replace(future, f"{future}{line}\n", 1))
    result = lint(copy)
    assert result.returncode == 1, result.stdout + result.stderr
    assert any(broken in text and "BROKEN" in text for text in result.stdout.splitlines()), (
        result.stdout
    )


def test_the_house_as_it_stands_keeps_its_import_rules(copy: Path) -> None:
    """Without a planted import nothing is found."""
    result = lint(copy)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("name", "text", "finding"),
    [
        ("shared/long.py", "x = 1\n" * 401, "401 lines"),
        ("shared/f.py", "def f():\n" + "    x = 1\n" * 41, "f has 41 lines"),
        ("shared/utils.py", "x = 1\n", "named by the question"),
        ("shared/x.py", "class RoomManager:\n    pass\n", "doesn't say what it is"),
        ("tests/unit/test_x.py", "import time\ntime.sleep(1)\n", "never sleeps"),
        ("shared/x.py", "# TO" + "DO: later\n", "issue's number"),
        ("shared/store/lua/x.lua", "local k = 'gr:q'\n", "keys are built"),
        ("shared/store/lua/x.lua", "local x = 1\n" * 101, "101 lines"),
    ],
)
def test_a_rule_of_the_house_is_enforced(name: str, text: str, finding: str) -> None:
    """What no ready-made tool knows is found, with file and reason."""
    found = list(house.findings(Path(name), text))
    assert len(found) == 1
    assert finding in found[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("shared/f.py", 'def f():\n    """Say."""\n' + "    x = 1\n" * 40),
        ("shared/f.py", "def f():\n    def g():\n" + "        x = 1\n" * 39 + "    return g\n"),
        ("tests/support/wait.py", "import time\ntime.sleep(1)\n"),
        ("tests/unit/test_x.py", "import asyncio\nasyncio.sleep(0)\n"),
        ("shared/x.py", "# TO" + "DO (#12): later\n"),
    ],
)
def test_what_is_allowed_is_not_found(name: str, text: str) -> None:
    """Docstrings, inner functions, the one place that waits, and put off work with a number."""
    assert list(house.findings(Path(name), text)) == []


def test_a_stale_generated_part_is_noticed() -> None:
    """A drawn part that was edited by hand, or that its code has left behind, is redrawn."""
    text = "before\n<!-- generated: keys -->\nby hand\n<!-- end: keys -->\nafter\n"
    new = docs.redrawn(text)
    assert "by hand" not in new
    assert "| `q` | zset |" in new
    assert new.startswith("before\n")
    assert new.endswith("after\n")
    assert docs.redrawn(new) == new
