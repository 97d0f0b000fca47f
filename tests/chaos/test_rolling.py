"""Does nobody notice it when all replicas are restarted one by one, or die one by one?

The bounded part of ``scripts/chaos rolling``: three replicas behind the shipped nginx, and visitors
who repeat no call.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.load_balancer import is_installed
from tests.support.wait import scaled_s

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 240


@pytest.mark.timeout(scaled_s(LIMIT_S + 10))
@pytest.mark.parametrize("by", ["term", "kill"])
def test_no_call_fails_and_no_session_is_lost(by: str) -> None:
    """And each event stream goes on elsewhere, with no event twice and none left out."""
    if not is_installed("nginx"):
        pytest.skip("nginx isn't installed (apt-get install nginx-light)")
    command = [sys.executable, "-m", "scripts.chaos_run.rolling", "--json", "--visitors", "10"]
    done = subprocess.run(
        [*command, "--by", by],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=scaled_s(LIMIT_S),
        check=False,
    )
    assert done.stdout, done.stderr
    rolled = json.loads(done.stdout)
    assert (done.returncode, rolled["findings"]) == (0, []), done.stderr
    assert [step["restarted"] for step in rolled["steps"]] == [
        "replica-1", "replica-2", "replica-3", "none",
    ]  # fmt: skip
    assert rolled["resumed"] > 0
    assert rolled["sessions"] >= 10
