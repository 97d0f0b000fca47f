"""`greenroom check` passes services that keep the contract and finds what others do wrong."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

import pytest

from gpu_node.conformance.examination import Examination, Wishes
from gpu_node.conformance.report import WIDTH, has_failed, json_of, lines_of, summary_of
from gpu_node.conformance.results import Begun, Outcome, Result, decoded, encoded
from gpu_node.conformance.suite import ALL
from gpu_node.services.loader import DEMO_WORLD
from tests.support.wait import scaled_s

pytestmark = pytest.mark.timeout(240)

SERVICES = Path(__file__).parent.parent / "services"
SOUND = SERVICES / "sound_world.py"

FAULTS = (
    ("code", "validation", "calls eval(), which runs text as code"),
    ("coroutine", "validation", "defines create_session() with async"),
    ("frames", "chunks", "dtype float32; it must be uint8"),
    ("silent", "first_frame", "The first chunk with frames didn't come within"),
    ("shared_counter", "isolation", "got the chunks ["),
    ("shared_controls", "isolation", "A control of one session was applied in another"),
    ("late_messages", "late_messages", "A message for a closed session raises: push_chunk()"),
    ("slow_push", "quick_calls", "push_chunk() takes"),
    ("slow_close", "close", "close_session() takes"),
    ("deaf", "close", "close_session() didn't return within"),
    ("exit", "chunks", "It ended its whole process (exit status 3)"),
    ("hook", "hooks", "runtime_metrics() returned a NoneType"),
    ("leaks", "memory", "After each session 1 Memory stay in memory"),
    ("hoards", "memory", "MiB stay in memory"),
    ("threads", "memory", "most of them 'denoiser'"),
    ("lock", "resume", "didn't come up after one was killed: start() in bad_lock.py failed"),
)


async def examined(path: Path, *only: str, patience: float = 0.05) -> dict[str, Result]:
    """Check a file and return the results by check."""
    wishes = Wishes(path=path, only=only, patience=patience, cycles=30)
    async with asyncio.timeout(scaled_s(200)):
        results = await Examination(wishes, lambda _result: None).run()
    return {result.check: result for result in results}


@pytest.mark.parametrize(("fault", "check", "words"), FAULTS, ids=[case[0] for case in FAULTS])
async def test_each_planted_fault_is_found(fault: str, check: str, words: str) -> None:
    """By the check that is there for it, in words that its author can act on."""
    (Path(tempfile.gettempdir()) / "greenroom-test-bad-lock").unlink(missing_ok=True)
    patience = 0.02 if fault == "silent" else 0.05  # silence is known only after a while
    results = await examined(SERVICES / f"bad_{fault}.py", check, patience=patience)
    assert results[check].outcome is Outcome.FAILED
    assert words in results[check].text
    assert results[check].advice or results[check].where
    others = [result for name, result in results.items() if name != check]
    assert not has_failed(others)


@pytest.mark.parametrize(
    "path",
    [
        SOUND,
        DEMO_WORLD,
        *(DEMO_WORLD.with_name(name) for name in ("overlay.py", "video_replay.py")),
    ],
    ids=lambda path: path.stem,
)
async def test_a_service_without_a_fault_passes(path: Path) -> None:
    """All checks, each of them run."""
    results = await examined(path, patience=scaled_s(1))
    assert list(results) == list(ALL)
    assert {result.outcome for result in results.values()} <= {
        Outcome.PASSED,
        Outcome.REMARKED,
        Outcome.SKIPPED,
    }, [lines_of(result, coloured=False) for result in results.values()]


async def test_what_a_dying_process_wrote_last_is_told() -> None:
    """And the checks after it are run in a fresh one."""
    results = await examined(SERVICES / "bad_exit.py", "chunks", "quick_calls")
    assert results["chunks"].where == "Its last lines: out of memory, giving up"
    assert results["quick_calls"].outcome is Outcome.PASSED


async def test_a_film_is_checked_as_far_as_it_goes(tmp_path: Path) -> None:
    """Server push has no controls and no second session."""
    path = tmp_path / "film.py"
    path.write_text(
        "import numpy as np\n"
        "class Film:\n"
        "    def start(self): pass\n"
        "    def stop(self): pass\n"
        "    async def serve(self, request):\n"
        "        for index in range(5):\n"
        "            yield {'type': 'chunk', 'frames': [np.zeros((8, 8, 3), np.uint8)]}\n"
        "def get_service(): return Film()\n"
    )
    only = ("chunks", "controls", "isolation", "late_messages", "close", "hooks", "stop")
    results = await examined(path, *only, patience=scaled_s(1))
    assert not has_failed(results.values())
    skipped = {name for name, result in results.items() if result.outcome is Outcome.SKIPPED}
    assert skipped == {"controls", "isolation", "late_messages", "hooks"}


async def test_a_checked_service_doesnt_see_the_operators_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a node's child."""
    monkeypatch.setenv("GREENROOM_LIVEKIT_API_SECRET", "a secret")
    path = tmp_path / "curious.py"
    path.write_text(
        "import os\n"
        "def get_service(): raise OSError([n for n in os.environ if n.startswith('GREENROOM')])\n"
    )
    results = await examined(path, "load")
    assert "OSError: []" in results["load"].text


async def test_a_single_check_is_run_by_itself() -> None:
    """With those that it needs."""
    results = await examined(SOUND, "load")
    assert {name: result.outcome for name, result in results.items()} == dict.fromkeys(
        ("validation", "load", "start", "capacity"), Outcome.PASSED
    )


async def test_nothing_is_run_of_a_file_that_a_node_wouldnt_load() -> None:
    """The others are told as not run."""
    results = await examined(SERVICES / "bad_code.py")
    assert results["validation"].outcome is Outcome.FAILED
    assert {result.outcome for name, result in results.items() if name != "validation"} == {
        Outcome.NOT_RUN
    }


def test_a_report_fits_a_hundred_columns_and_says_what_to_do() -> None:
    """A shape and a word for each outcome; colour only adds."""
    results = [
        Result(
            check="chunks",
            title="Its chunks can be played",
            outcome=outcome,
            text="word " * 60,
            advice="advice " * 30,
        )
        for outcome in Outcome
    ]
    plain = [line for result in results for line in lines_of(result, coloured=False)]
    assert max(map(len, plain)) <= WIDTH
    assert [line[:9].strip() for line in plain if line[0] != " "] == [
        "● passed",
        "● remark",
        "▲ failed",
        "○ skipped",
        "○ not run",
    ]
    failed = lines_of(results[2], coloured=False)
    assert failed[0] == "▲ failed   Its chunks can be played"
    assert any(line.strip().startswith("Try: advice") for line in failed)
    assert "\x1b[31m" in lines_of(results[2], coloured=True)[0]
    assert summary_of(results, 3.2) == (
        "1 passed, 1 passed with a remark, 1 failed, 1 skipped, 1 not run; 3 s."
    )
    told = json_of("w.py", results, 3.2)
    assert (told["passed"], told["seconds"]) == (False, 3.2)


def test_what_a_child_says_comes_back_as_it_was() -> None:
    """A line each."""
    for message in (
        Begun(check="load", within_s=3.0),
        Result(check="load", title="x", outcome=Outcome.NOT_RUN, text="a\nb", advice="ü"),
    ):
        line = encoded(message)
        assert line.count(b"\n") == 1
        assert decoded(line) == message


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nowhere.py",), 2, "The service file nowhere.py doesn't exist"),
        ((str(SOUND), "--config", "[1]"), 2, "--config must be a JSON object"),
        ((str(SOUND), "--only", "beauty"), 2, "There is no check 'beauty'; there are validation,"),
        ((str(SERVICES / "bad_code.py"),), 1, "▲ failed"),
        ((str(SOUND), "--json", "--only", "validation"), 0, '"passed": true'),
    ],
)
async def test_the_command_tells_by_its_exit_status(
    arguments: tuple[str, ...], code: int, words: str
) -> None:
    """0: the contract is kept; 1: it isn't; 2: the call was a mistake."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gpu_node.conformance",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (process.returncode, words in (out + err).decode()) == (code, True)
    if "--json" in arguments:
        assert json.loads(out)["checks"][0]["check"] == "validation"
