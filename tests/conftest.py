"""What every level shares: its marker, the servers it runs on, the key leak check."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest
import structlog

pytest_plugins = [
    "tests.support.redis_server",
    "tests.support.key_leaks",
    "tests.support.one_at_a_time",
]

_TESTS = Path(__file__).parent


def pytest_configure() -> None:
    """Let no test be decided by how busy the machine is.

    Hypothesis measures nothing. Tracebacks are plain: the default ones take seconds, in which no
    event loop moves.
    """
    slow = hypothesis.HealthCheck.too_slow
    hypothesis.settings.register_profile("any-speed", deadline=None, suppress_health_check=[slow])
    hypothesis.settings.load_profile("any-speed")
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(
                colors=False, exception_formatter=structlog.dev.plain_traceback
            ),
        ]
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its level, which is the folder that it lies in."""
    for item in items:
        level = item.path.relative_to(_TESTS).parts[0]
        item.add_marker(level)
