"""Closed servers in a browser: players bring a key or a link, viewers a link, and nothing leaks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import start_system
from tests.browser.person import Person, see
from tests.support.closed import ADMIN_KEY
from tests.support.stage_system import System
from tests.support.wait import scaled_s, wait_until_sync


@pytest.fixture(scope="module")
def closed_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The whole system, closed; its own client has the key."""
    with start_system(tmp_path_factory, "--admin-key", ADMIN_KEY) as system:
        system.http.headers["Authorization"] = f"Bearer {ADMIN_KEY}"
        yield system


class Visitors:
    """Whoever opens a page of the closed system in this test."""

    def __init__(self, browser: Browser, system: System) -> None:
        self._browser = browser
        self._system = system
        self._pages: list[Page] = []

    def arrive(self, path: str = "/", **options: object) -> Person:
        """Somebody new, with a browser profile of their own."""
        context = self._browser.new_context(base_url=self._system.address, **options)  # type: ignore[arg-type]
        context.set_default_timeout(scaled_s(15) * 1000)
        page = context.new_page()
        self._pages.append(page)
        page.goto(path)
        return Person(page)

    def go_home(self) -> None:
        """End every session and close every page."""
        sessions = {Person(page).debug["sessionId"] for page in self._pages}
        for page in self._pages:
            page.context.close()
        for session_id in sessions - {None}:
            self._system.end(session_id)


@pytest.fixture
def visitors(browser: Browser, closed_system: System) -> Iterator[Visitors]:
    """Nobody yet."""
    crowd = Visitors(browser, closed_system)
    yield crowd
    crowd.go_home()


def give_key(person: Person, key: str) -> None:
    """Type a key into the card that asks for one."""
    person.page.get_by_label("This stage asks for a key").fill(key)
    person.page.get_by_role("button", name="Use this key").click()


def test_a_player_is_asked_for_a_key_and_told_when_it_is_wrong(visitors: Visitors) -> None:
    """With the right one they are on; what they typed before is sent, the key stays in the tab."""
    person = visitors.arrive()
    person.enter("a sea of glass")
    see(person.heading, "This stage asks for a key")
    give_key(person, "grk_wrong_wrongwrongwrongwrong")
    see(person.page.get_by_role("alert"), "This key isn't known here.")
    give_key(person, ADMIN_KEY)
    person.wait_for_stage()
    kept = person.page.evaluate("JSON.stringify(localStorage)")
    assert ADMIN_KEY not in kept
    assert "gst1." in kept


def test_a_session_needs_no_key_once_it_is_there(visitors: Visitors) -> None:
    """A reload in a tab that has forgotten the key goes on with the session's own token."""
    person = visitors.arrive()
    person.enter()
    give_key(person, ADMIN_KEY)
    person.wait_for_stage()
    mine = person.session_id
    person.page.evaluate("sessionStorage.clear()")
    person.page.reload()
    person.wait_for_stage()
    assert person.session_id == mine
    person.press_button("Stop")
    see(person.heading, "You ended it")


def test_a_link_brings_a_session_along(visitors: Visitors, closed_system: System) -> None:
    """Made by a backend with its key; the page needs none, and takes the ticket out of sight."""
    body = {"identity": "ann", "role": "controller", "config": {}}
    made = closed_system.http.post("/v1/stream/sessions", json=body).json()
    person = visitors.arrive(f"/#ticket={made['session_token']}")
    person.wait_for_stage()
    assert person.session_id == made["session_id"]
    assert "#" not in person.page.url
    person.page.reload()
    person.wait_for_stage()
    assert person.session_id == made["session_id"]


def test_a_viewer_watches_with_the_link_alone(visitors: Visitors) -> None:
    """Though the API tells strangers nothing of the session; its end is told, too."""
    player = visitors.arrive(permissions=["clipboard-read", "clipboard-write"])
    player.enter()
    give_key(player, ADMIN_KEY)
    player.wait_for_stage()
    player.press_button("Share")
    see(player.page.get_by_role("button", name="Copied"), "Copied")
    link: str = player.page.evaluate("navigator.clipboard.readText()")
    viewer = visitors.arrive(link)
    wait_until_sync(lambda: viewer.debug["frames"] > 0, "the viewer sees the world", 20)
    assert viewer.debug["worker"] == player.debug["worker"]
    assert viewer.debug["state"] is None
    player.press_button("Stop")
    see(viewer.curtain, "The show is over", 20)
