"""What a service says while it loads is overheard, and taken from nobody."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable

import pytest

from gpu_node.services.last_words import LastWords


def elsewhere(call: Callable[[], object]) -> None:
    """Make a call as a loading thread does."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


@pytest.mark.parametrize(
    ("written", "heard"),
    [
        ("Loading shard 1/8\nLoading shard 2/8\n", "Loading shard 2/8"),
        ("\x1b[32m 10%\r\x1b[32m 20%\r", "20%"),
        ("half a li", "half a li"),
        ("done\n\n  \n", "done"),
        ("x" * 1000, "x" * 200),
        ("at redis://user:secret@host now", "at redis://user:***@host now"),
    ],
)
def test_the_last_line_is_remembered_and_still_written(
    capsys: pytest.CaptureFixture[str], written: str, heard: str
) -> None:
    """Progress bars and colours included; passwords aren't kept."""
    with LastWords() as words:
        elsewhere(lambda: sys.stdout.write(written))
        elsewhere(sys.stdout.flush)
    assert words.line == heard
    assert capsys.readouterr().out == written


def test_what_goes_to_standard_error_counts_too() -> None:
    """And an empty write changes nothing."""
    with LastWords() as words:
        elsewhere(lambda: sys.stderr.writelines(["a warning\n", ""]))
        assert words.line == "a warning"


def test_a_log_line_is_heard_on_its_way_to_whoever_handles_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No handler is added: a service's own set-up of its logs finds what it would without us."""
    with LastWords() as words:
        before = list(logging.getLogger().handlers)
        elsewhere(lambda: logging.getLogger("model").warning("shard %d of %d", 3, 8))
        assert words.line == "shard 3 of 8"
        assert [record.getMessage() for record in caplog.records] == ["shard 3 of 8"]
        assert logging.getLogger().handlers == before


def test_our_own_lines_are_not_the_services() -> None:
    """Whoever ran before the service was loaded is the agent: its loop, its heartbeat."""
    beat, done = threading.Event(), threading.Event()

    def beats() -> None:
        beat.wait()
        sys.stdout.write("beats_unanswered\n")
        done.set()

    threading.Thread(target=beats).start()
    with LastWords() as words:
        elsewhere(lambda: sys.stdout.write("shard 3\n"))
        sys.stdout.write('{"event": "node_registered"}\n')
        logging.getLogger("ours").warning("beats_unanswered")
        beat.set()
        done.wait()
        assert words.line == "shard 3"


def test_afterwards_everything_is_as_it_was() -> None:
    """Unless somebody else has wrapped it meanwhile: that stays, and nothing is heard any more."""
    out, err, make = sys.stdout, sys.stderr, logging.getLogRecordFactory()
    with LastWords():
        pass
    assert (sys.stdout, sys.stderr, logging.getLogRecordFactory()) == (out, err, make)
    with LastWords() as words:
        kept = sys.stdout
    elsewhere(lambda: kept.write("late\n"))
    assert words.line == ""


def test_a_wrapped_stream_is_still_the_stream() -> None:
    """Services ask for its encoding, its descriptor, whether it is a terminal."""
    with LastWords():
        assert sys.stdout.encoding
        assert sys.stdout.isatty() is False
        assert sys.stdout.writable()


def test_arguments_that_dont_fit_their_text_do_no_harm() -> None:
    """The handler complains about them, as ever; building the record doesn't."""
    with LastWords() as words:
        factory = logging.getLogRecordFactory()
        elsewhere(lambda: factory("model", logging.INFO, "f.py", 1, "%d shards", ("x",), None))
        assert words.line == "%d shards"
