"""How does one get in: start card, place in line, stage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import QUEUE_SIZE, SLOTS
from tests.browser.person import People, see
from tests.support.stage_system import System
from tests.support.wait import wait_until_sync

ESTIMATE = re.compile(r"^(no estimate yet|about \d+ (s|m).*)$")
"""None before anybody has played; other tests may have by then."""


@pytest.fixture
def full_house(system: System) -> Iterator[list[str]]:
    """All stages are taken by sessions that nobody joins."""
    taken = [system.create(f"filler-{number}") for number in range(SLOTS)]
    yield taken
    for session_id in taken:
        system.end(session_id)


def test_the_page_loads_nothing_from_elsewhere(people: People, system: System) -> None:
    """Start and stage work without any other host than the system's own."""
    person = people.arrive()
    hosts: set[str] = set()
    person.page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname or ""))
    person.page.on("websocket", lambda socket: hosts.add(urlsplit(socket.url).hostname or ""))
    person.page.reload()
    person.enter()
    person.wait_for_stage()
    assert hosts - {""} == {urlsplit(system.address).hostname}


def test_the_start_card_says_what_is_served(people: People) -> None:
    """Prompt focused, service named, room told."""
    person = people.arrive()
    assert person.page.evaluate("document.activeElement.id") == "prompt"
    see(person.page.locator(".under"), "demo_world")


def test_people_wait_in_line_and_then_play(
    people: People, system: System, full_house: list[str]
) -> None:
    """Two wait; as stages become free the first plays, the second moves up, then plays too."""
    first, second = people.arrive(), people.arrive()
    first.enter()
    see(first.heading, "1st in line")
    second.enter()
    see(second.heading, "2nd in line")
    expect(second.page.locator(".estimate")).to_have_text(ESTIMATE)
    see(second.page.locator(".card"), "2 people waiting")
    system.end(full_house[0])
    first.wait_for_stage()
    see(second.heading, "1st in line")
    assert "1st in line" in second.page.title()
    system.end(full_house[1])
    second.wait_for_stage()
    assert "You're on" in second.page.title()


def test_a_waiting_page_hears_of_its_place_without_asking(
    people: People, system: System, full_house: list[str]
) -> None:
    """The event stream tells it: here nobody answers when the record is read."""
    first, second = people.arrive(), people.arrive()
    first.enter()
    see(first.heading, "1st in line")
    second.enter()
    see(second.heading, "2nd in line")
    with second.page.expect_request("**/events"):
        second.page.reload()
    see(second.heading, "2nd in line")
    second.page.route(f"**/sessions/{second.session_id}", lambda route: route.abort())
    first.press_button("Leave the line")
    see(second.heading, "1st in line")
    assert full_house


@pytest.mark.usefixtures("full_house")
def test_a_reload_keeps_the_place_in_line(people: People) -> None:
    """The same session, still second, and the time waited goes on."""
    first, second = people.arrive(), people.arrive()
    first.enter()
    see(first.heading, "1st in line")
    second.enter("a red desert")
    see(second.heading, "2nd in line")
    before = second.session_id
    second.page.reload()
    see(second.heading, "2nd in line")
    assert second.session_id == before
    see(second.page.locator(".wish"), "a red desert")


@pytest.mark.usefixtures("full_house")
def test_a_second_tab_shows_the_same_place(people: People) -> None:
    """It says that the session will play in the other tab, and can take it over."""
    person = people.arrive()
    person.enter()
    see(person.heading, "1st in line")
    other = people.open_tab(person.page.context)
    see(other.heading, "1st in line")
    assert other.session_id == person.session_id
    see(other.page.locator(".under"), "another tab")
    other.press_button("Play here instead")
    see(person.page.locator(".under"), "another tab")


def test_leaving_the_line_gives_the_place_back(
    people: People, system: System, full_house: list[str]
) -> None:
    """The card comes back with the prompt in it, and the session is over."""
    assert full_house
    person = people.arrive()
    person.enter("an old library")
    see(person.heading, "1st in line")
    session_id = person.session_id
    person.press_button("Leave the line")
    see(person.page.locator("form"), "You left the line.")
    assert person.page.locator("#prompt").input_value() == "an old library"
    assert system.record(session_id)["status"] == "closed"


@pytest.mark.usefixtures("full_house")
def test_a_full_line_says_when_to_try_again(people: People, system: System) -> None:
    """A refusal is a sentence with a time, and the card stays as it was filled in."""
    waiting = [system.create(f"waiter-{number}") for number in range(QUEUE_SIZE)]
    person = people.arrive()
    person.enter("a green hill")
    see(person.page.get_by_role("alert"), "The line is full. Try again")
    assert person.page.locator("#prompt").input_value() == "a green hill"
    for session_id in waiting:
        system.end(session_id)


def test_a_picture_that_is_none_is_refused_in_words(people: People, tmp_path: Path) -> None:
    """The server's own sentence is shown."""
    fake = tmp_path / "picture.png"
    fake.write_text("not a picture")
    person = people.arrive()
    person.page.locator("input[type=file]").set_input_files(fake)
    person.enter()
    see(person.page.get_by_role("alert"), "image")


def test_the_pages_fit_a_narrow_window(people: People) -> None:
    """At 400 pixels nothing has to be scrolled sideways: start, stage, end."""
    person = people.arrive(viewport={"width": 400, "height": 800}, color_scheme="light")

    def fits() -> bool:
        wide: int = person.page.evaluate("document.documentElement.scrollWidth")
        return wide <= 400

    wait_until_sync(fits, "the start card fits")
    person.enter()
    person.wait_for_stage()
    wait_until_sync(fits, "the stage fits")
    person.press_button("Stop")
    see(person.heading, "You ended it")
    wait_until_sync(fits, "the end card fits")
