"""What does a person see of a node that stands still for half a minute and then wakes up?"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import SLOTS, start_system
from tests.browser.person import People, Person
from tests.support.stage_system import System
from tests.support.wait import scaled_s, wait_until_sync

FROZEN_S = 30.0
"""Longer than the media server waits for a worker that says nothing (20 s, measured)."""
_QUICK = ("--node-ttl", "4", "--beat-interval", "0.5", "--silence-margin", "1.5")
_WATCH = """() => {
  const video = document.querySelector('video');
  window.shown = {};
  const look = () => {
    const worker = window.__greenroom.worker;
    window.shown[worker] = (window.shown[worker] ?? 0) + 1;
    video.requestVideoFrameCallback(look);
  };
  video.requestVideoFrameCallback(look);
}"""


@contextlib.contextmanager
def another_node(system: System, folder: Path, name: str) -> Iterator[int]:
    """Run a second node beside that of the system; yields its process id."""
    pid = system.stack.pid("node")
    assert pid is not None
    own = {"GREENROOM_NODE_ID": name, "GREENROOM_DATA_DIR": str(folder)}
    process = subprocess.Popen(
        [sys.executable, "-m", "gpu_node"],
        env={**psutil.Process(pid).environ(), **own},
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(timeout=scaled_s(60))


def free_slots(system: System) -> int:
    """Return how many sessions could begin at once."""
    return int(system.http.get("/v1/stream/health").json()["slots_free"])


def shown(person: Person) -> dict[str, int]:
    """Return how many frames of each worker the page has shown since it was asked to count."""
    counts: dict[str, int] = person.page.evaluate("() => ({...window.shown})")
    return counts


@pytest.mark.timeout(240)
def test_a_page_never_shows_a_frame_of_a_node_that_wakes_up_late(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Another node plays on in the same page; of the old one nothing is seen once it's woken."""
    with start_system(tmp_path_factory, *_QUICK) as system:
        people = People(browser, system)
        first = system.stack.pid("node")
        assert first is not None
        with another_node(system, tmp_path_factory.mktemp("second"), "second-node") as second:
            wait_until_sync(lambda: free_slots(system) == 2 * SLOTS, "both nodes serve", 30)
            person = people.arrive()
            person.enter()
            person.wait_for_stage()
            record = system.record(person.session_id)
            owner = second if record["node_id"] == "second-node" else first
            old_worker = person.debug["worker"]
            os.kill(owner, signal.SIGSTOP)
            frozen_at_s = time.monotonic()
            wait_until_sync(
                lambda: person.is_on_stage() and person.debug["worker"] != old_worker,
                "the other node plays on",
                30,
            )
            person.page.evaluate(_WATCH)
            wait_until_sync(
                lambda: time.monotonic() - frozen_at_s >= FROZEN_S, "the time is over", 40
            )
            frames_before = sum(shown(person).values())
            os.kill(owner, signal.SIGCONT)
            # It would come back within half a second of waking up.
            wait_until_sync(
                lambda: sum(shown(person).values()) > frames_before + 150, "many frames", 40
            )
            assert set(shown(person)) == {person.debug["worker"]}
            assert person.debug["worker"] != old_worker
            assert system.record(person.session_id)["attempt"] == 2
            people.go_home()
