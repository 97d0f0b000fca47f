"""Does every weakness of the reference that concerns a node have a test here that exists?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    line.split(" | ")
    for line in (ROOT / "gpu_node/weaknesses.md").read_text().splitlines()
    if re.match(r"\| \d+b? \|", line)
]
OF_A_NODE = [*map(str, [*range(9, 20), 21, 22, 24, 25, 26]), "26b", "27", "28"]
NAMED = sorted(
    {name for row in ROWS for name in re.findall(r"`(tests/[\w/]+\.py::test_\w+)`", row[-1])}
)


def test_every_weakness_of_a_node_has_a_row_that_names_tests() -> None:
    """In the order of their numbers, each with at least one."""
    assert [row[0].removeprefix("| ") for row in ROWS] == OF_A_NODE
    assert [row[0] for row in ROWS if "::test_" not in row[-1]] == []


@pytest.mark.parametrize("named", NAMED)
def test_every_named_test_exists(named: str) -> None:
    """A test that was renamed takes its line in the page along."""
    file, name = named.split("::")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE)
