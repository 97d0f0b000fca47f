"""What does a person see when a process behind the page dies?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import start_system
from tests.browser.person import People, Person, see
from tests.support.stage_system import System
from tests.support.wait import wait_until_sync


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A system of this module's own: a node that was killed rests before it serves again."""
    with start_system(tmp_path_factory) as running:
        yield running


def has_new_worker(person: Person, before: str) -> bool:
    """Tell whether another worker's picture is played now."""
    return person.is_on_stage() and person.debug["worker"] != before


def test_a_killed_node_costs_no_reload_and_no_place(people: People, system: System) -> None:
    """A still picture with words, then the same session on the node's next life."""
    person = people.arrive()
    person.enter()
    person.wait_for_stage()
    before = person.debug
    person.page.evaluate("window.stayed = true")
    system.stack.kill("node")
    see(person.curtain, "Reconnecting…")
    wait_until_sync(lambda: has_new_worker(person, before["worker"]), "the world is back", 40)
    assert person.session_id == before["sessionId"]
    assert person.page.evaluate("window.stayed") is True
    assert system.record(person.session_id)["attempt"] == 2


def test_an_unreachable_api_doesnt_stop_the_picture(people: People) -> None:
    """The page says so, keeps playing, and forgets it when somebody answers again."""
    person = people.arrive()
    person.enter()
    person.wait_for_stage()
    session_id = person.session_id
    person.page.route("**/v1/**", lambda route: route.abort())
    see(person.page.locator(".chips"), "Can't reach the stage. Retrying…")
    assert person.is_on_stage()
    person.page.unroute("**/v1/**")
    expect(person.page.locator(".chip")).to_have_count(0)
    assert person.is_on_stage()
    assert person.session_id == session_id


def test_a_restarted_media_server_gives_the_picture_back(people: People, system: System) -> None:
    """The room is joined again, with a fresh token if need be."""
    person = people.arrive()
    person.enter()
    person.wait_for_stage()
    session_id = person.session_id
    system.stack.kill("livekit")
    see(person.curtain, "Reconnecting…", 20)
    person.wait_for_stage(within_s=60)
    assert person.session_id == session_id
