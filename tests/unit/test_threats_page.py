"""Does every line of the page on threats name tests that exist?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    line.strip("| ").split(" | ")
    for line in (ROOT / "control_plane/threats.md").read_text().splitlines()
    if line.startswith("| ") and "---" not in line
][1:]
NAMED = sorted({name for row in ROWS for name in re.findall(r"`(tests/[^`]+)`", row[-1])})


def test_every_line_names_a_test() -> None:
    """What nobody tests isn't held; it belongs below the table."""
    assert len(ROWS) > 20
    assert [row[:2] for row in ROWS if len(row) != 4 or "::test_" not in row[-1]] == []


@pytest.mark.parametrize("named", NAMED)
def test_every_named_test_exists(named: str) -> None:
    """A test that was renamed takes its line in the page along."""
    file, name = named.split("::")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE)
