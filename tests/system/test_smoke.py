"""Does the whole path work, seen from the outside by a client that knows nothing of ours?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.all_in_one import clean_environment
from tests.support.wait import scaled_s

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(180)
def test_one_session_is_played_through_and_nothing_is_left() -> None:
    """What ``scripts/demo --smoke`` runs holds here, and all timings are told."""
    result = subprocess.run(
        [sys.executable, "-m", "scripts.smoke"],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=scaled_s(150),
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert set(json.loads(result.stdout)) == {
        "setup_s",
        "ready_s",
        "create_ms",
        "join_ms",
        "first_frame_ms",
        "control_to_frame_ms",
        "fps",
        "queued_to_running_ms",
    }
