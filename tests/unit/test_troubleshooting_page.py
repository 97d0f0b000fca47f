"""Does the page on troubles name commands that there are?"""

from __future__ import annotations

import re
from pathlib import Path

from control_plane.cli.main import app

PAGE = Path(__file__).parents[2] / "deploy" / "troubleshooting.md"


def rows() -> list[list[str]]:
    """The cells of each case."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| **")]
    return [re.split(r"(?<!\\)\|", line.strip("|")) for line in lines]


def test_each_case_has_a_command_that_shows_it() -> None:
    """What is seen, what shows it, what to do."""
    assert len(rows()) >= 7
    for cells in rows():
        assert len(cells) == 3, cells
        assert "`" in cells[1], cells


def test_every_command_of_ours_on_it_exists() -> None:
    """Under the name that is written there."""
    named = set(re.findall(r"`greenroom ([a-z-]+)", PAGE.read_text()))
    assert named >= {"doctor", "nodes", "explain"}
    assert named <= {command.name for command in app.registered_commands}
