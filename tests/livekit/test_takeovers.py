"""Does whoever is in a real room see its world go on when a node dies, and no ghost of it?

The bounded part of ``scripts/chaos --live``: one node killed, one frozen past its lease and woken.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.wait import scaled_s

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ("-m", "scripts.chaos_run", "--live", "--json", "--seeds", "2", "--guests", "2")


@pytest.mark.timeout(scaled_s(180))
def test_a_killed_and_a_frozen_node_are_taken_over_in_the_same_room() -> None:
    """New frames on the same connection; none of the old worker after them; nothing is left."""
    ran = subprocess.run(
        [sys.executable, *COMMAND],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=scaled_s(170),
        check=False,
    )
    *seeds, whole = [json.loads(line) for line in ran.stdout.splitlines()]
    wrong = {seed["seed"]: seed["findings"] for seed in seeds if not seed["holds"]}
    assert (ran.returncode, wrong) == (0, {}), ran.stderr
    assert [seed["plan"]["fault"]["kind"] for seed in seeds] == ["kill", "freeze"]
    for seed in seeds:
        (moved,) = seed["takeovers"]
        assert moved["old_node"] != moved["new_node"]
        parts = ["detection", "dispatch", "join", "start", "frame", "arrival"]
        assert list(moved["parts_ms"]) == parts
    assert whole["to_first_frame_s"]["kill"]["count"] == 1
