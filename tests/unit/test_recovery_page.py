"""Does every rule of recovery have a test, and does every test that the page names exist?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "shared/recovery.md").read_text()
FAULTS = (
    "kill -9 of a replica",
    "kill -9 of a node",
    "SIGTERM of a node",
    "a node frozen, then awake",
    "network cut between node and Redis",
    "Redis killed and restarted with its log",
    "Redis loses its last writes",
    "Redis down for minutes",
    "all data of Redis lost",
    "LiveKit down",
    "the model's process crashes or wedges",
    "the client closes the tab while queued",
    "the client reloads while running",
    "the clean-up of a service hangs",
    "two replicas, one idempotency key",
    "a rolling upgrade",
)
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)))


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_every_named_test_exists(file: str) -> None:
    """A test that was renamed takes its line in the page along."""
    text = (ROOT / file).read_text()
    missing = [
        name
        for named_file, name in NAMED
        if named_file == file and not re.search(rf"^(async )?def {name}\(", text, re.MULTILINE)
    ]
    assert missing == []


def test_every_rule_and_every_fault_names_one() -> None:
    """Sixteen rules with a section each, and no line of a table without a test."""
    rules = dict(re.findall(r"^## R(\d+) .*?$(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL))
    assert sorted(map(int, rules)) == list(range(1, 17))
    assert [number for number, text in rules.items() if "::test_" not in text] == []
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "shown by" not in line]
    assert [row for row in rows if "::test_" not in row] == []
    told = [row.split(" | ")[0].removeprefix("| ") for row in rows]
    assert set(FAULTS) <= set(told)


def test_what_holds_a_rule_exists() -> None:
    """Files of the two planes and of the scripts."""
    held = [line for line in PAGE.splitlines() if line.startswith("- Held by")]
    assert len(held) == 16
    for path in re.findall(r"`((?:gpu_node|control_plane|include|store)/[\w./]+)`", PAGE):
        places = (ROOT / path, ROOT / "shared" / path, ROOT / "shared/store/lua" / path)
        assert any(place.exists() for place in places), path
