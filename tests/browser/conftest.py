"""The running system, a Chromium, and people with a page each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from control_plane.api.pages import DIST
from tests.browser.person import People
from tests.support.replica_process import start_replica
from tests.support.stage_system import System, running_system

__all__ = ["browser", "people", "start_replica", "system"]

SLOTS = 2
QUEUE_SIZE = 4
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium. Per module: its event loop must be gone before others run."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("there is no chromium on PATH (apt-get install chromium)")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))
        yield launched
        launched.close()


def start_system(
    tmp_path_factory: pytest.TempPathFactory, *more: str
) -> AbstractContextManager[System]:
    """The whole system with the demo world: two stages and a short line."""
    if not (DIST / "index.html").is_file():
        pytest.skip("the page isn't built (npm ci && npm run build in control_plane/console)")
    folder: Path = tmp_path_factory.mktemp("system")
    options = ("--max-sessions-per-worker", str(SLOTS), "--queue-size", str(QUEUE_SIZE))
    return running_system(folder, *options, *more)


@pytest.fixture(scope="package")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """One system for all tests that leave it whole."""
    with start_system(tmp_path_factory) as running:
        yield running


@pytest.fixture
def people(browser: Browser, system: System) -> Iterator[People]:
    """Whoever opens the page in this test; their sessions are ended after it."""
    crowd = People(browser, system)
    yield crowd
    crowd.go_home()
