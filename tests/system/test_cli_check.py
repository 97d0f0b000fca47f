"""Can a model engineer check a service file from the command line?"""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.all_in_one import greenroom

SERVICES = Path(__file__).parent.parent / "services"
QUICK = ("--only", "first_frame,late_messages")


def test_a_good_file_passes_and_a_bad_one_is_told_what_to_do(tmp_path: Path) -> None:
    """The exit status says it to scripts, the report to people, the JSON to programs."""
    good = greenroom("check", SERVICES / "sound_world.py", *QUICK, cwd=Path.cwd(), timeout_s=60)
    assert good.returncode == 0, good.stdout + good.stderr
    assert "● passed   Late and unknown ids do no harm" in good.stdout
    bad = SERVICES / "bad_late_messages.py"
    told = greenroom("check", bad, *QUICK, cwd=Path.cwd(), timeout_s=60)
    assert told.returncode == 1, told.stdout + told.stderr
    assert "▲ failed   Late and unknown ids do no harm" in told.stdout
    assert "Try: Return from push_chunk() if the id isn't known" in told.stdout
    read = greenroom("check", bad, "--json", *QUICK, cwd=Path.cwd(), timeout_s=60)
    assert json.loads(read.stdout)["passed"] is False


def test_a_call_that_is_a_mistake_is_told_apart(tmp_path: Path) -> None:
    """Exit status 2, one sentence."""
    missing = greenroom("check", "nowhere.py", cwd=tmp_path, timeout_s=30)
    assert (missing.returncode, "There is no file nowhere.py." in missing.stderr) == (2, True)
    wrong = greenroom("check", "--only", "beauty", cwd=tmp_path, timeout_s=30)
    assert (wrong.returncode, "There is no check 'beauty'" in wrong.stderr) == (2, True)
