"""What does a person see whose node an operator drains while they play?"""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.person import People, Person, see
from tests.support.all_in_one import greenroom
from tests.support.stage_system import System
from tests.support.wait import wait_until_sync

pytestmark = pytest.mark.timeout(120)


def operator(system: System, *command: str) -> None:
    """Give a command at the terminal of the machine."""
    stack = system.stack
    told = greenroom(*command, "--data-dir", stack.data_dir, cwd=stack.folder)
    assert told.returncode == 0, told.stderr


def has_new_worker(person: Person, before: str) -> bool:
    """Tell whether another worker's picture is played now."""
    return person.is_on_stage() and person.debug["worker"] != before


def test_the_page_counts_down_moves_and_plays_on_without_a_reload(
    people: People, system: System
) -> None:
    """Called off, the countdown is gone; at its end the session waits first in line for a stage."""
    person = people.arrive()
    person.enter()
    person.wait_for_stage()
    person.page.evaluate("window.stayed = true")
    before, chips = person.debug, person.page.locator(".chips")
    node = str(system.record(person.session_id)["node_id"])

    operator(system, "drain", node, "--in", "600", "--yes")
    see(chips, "This stage closes in 9 m")
    assert person.is_on_stage()
    operator(system, "resume", node)
    expect(chips).not_to_contain_text("This stage closes")
    assert person.debug["worker"] == before["worker"]

    operator(system, "drain", node, "--in", "0", "--yes")
    try:
        wait_until_sync(
            lambda: system.record(person.session_id)["status"] == "queued", "it is in line", 20
        )
        wait_until_sync(lambda: not person.is_on_stage(), "the page knows", 20)
    finally:
        operator(system, "resume", node)
    wait_until_sync(lambda: has_new_worker(person, before["worker"]), "the world is back", 30)
    assert person.session_id == before["sessionId"]
    assert person.page.evaluate("window.stayed") is True
    assert system.record(person.session_id)["attempt"] == 2
