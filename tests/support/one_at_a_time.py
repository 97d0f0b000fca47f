"""Which tests may run beside each other?

All of them, except those that start whole systems: two at once on a small machine would only make
each other wait. They stay in one of xdist's processes, whatever the number of those, and begin
first, since they take longest.

xdist's own way of saying so (``--dist loadgroup``) does nothing with pytest 9.2, silently.
"""

from __future__ import annotations

from typing import Any

import pytest

WITH_PROCESSES = frozenset(("system", "chaos", "livekit", "browser"))
"""Levels that start whole systems."""


def unit_of(nodeid: str) -> str:
    """Return what a test belongs to: one of xdist's processes runs all of a unit."""
    folders = nodeid.split("/")
    return "processes" if len(folders) > 1 and folders[1] in WITH_PROCESSES else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out tests unit by unit, the largest first."""
    from xdist.scheduler import (  # type: ignore[import-untyped]  # noqa: PLC0415 - where it runs
        LoadScopeScheduling,
    )

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = unit_of
    return scheduler
