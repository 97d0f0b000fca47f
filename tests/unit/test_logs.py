"""Log lines are one JSON object each and carry no secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from shared.logs import redact, set_up_logs

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"


Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Iterator[Lines]:
    """Lines written so far, decoded; afterwards the process logs as before."""
    root = logging.getLogger()
    handlers, level, config = root.handlers, root.level, structlog.get_config()
    yield lambda: [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    structlog.configure(**config)
    logging.captureWarnings(capture=False)
    root.handlers, root.level = handlers, level


def test_an_event_is_one_json_object(lines: Lines) -> None:
    """The event's word, its fields, a level and a time."""
    set_up_logs()
    structlog.get_logger().info("session_accepted", epoch=7)
    (line,) = lines()
    assert line["event"] == "session_accepted"
    assert line["epoch"] == 7
    assert line["level"] == "info"
    assert line["timestamp"].endswith("Z")


def test_libraries_write_the_same_lines(lines: Lines) -> None:
    """Warnings of the standard logging arrive as JSON too."""
    set_up_logs()
    logging.getLogger("livekit").warning("connect failed: %s", TOKEN)
    (line,) = lines()
    assert line["event"] == "connect failed: <token>"
    assert line["logger"] == "livekit"


def test_tokens_in_traces_are_blotted_out(lines: Lines) -> None:
    """A failed connect's error text contains the whole token."""
    set_up_logs()
    fault = ConnectionError(f"GET /rtc?access_token={TOKEN}")
    structlog.get_logger().error("join_failed", exc_info=fault)
    (line,) = lines()
    assert TOKEN not in line["exception"]
    assert "<token>" in line["exception"]


def test_passwords_in_addresses_are_blotted_out() -> None:
    """The address stays readable."""
    assert redact("redis://user:secret@host:6379/0") == "redis://user:***@host:6379/0"
    assert redact("redis://:secret@host/0") == "redis://:***@host/0"
    assert redact("no@secret: here") == "no@secret: here"
