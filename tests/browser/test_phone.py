"""The player's pages on a phone, upright and lying: everything fits, and fingers play."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import CDPSession, Locator, expect

from tests.browser.conftest import SLOTS
from tests.browser.layout import misfits, small_targets
from tests.browser.person import People, Person, see
from tests.support.stage_system import System
from tests.support.wait import scaled_s, wait_until_sync

UPRIGHT, LYING = (400, 860), (860, 400)
_TURNED = 6.0
"""Grey levels, as in `test_playing`."""


def on_the_phone(people: People, size: tuple[int, int]) -> Person:
    """Somebody with a phone; fingers only."""
    width, height = size
    return people.arrive(
        viewport={"width": width, "height": height},
        has_touch=True,
        is_mobile=True,
        device_scale_factor=2,
    )


def fits(person: Person) -> None:
    """Nothing is cut, covered or aside, and each button is large enough for a finger."""
    assert misfits(person.page) == []
    assert small_targets(person.page) == []


class Fingers:
    """Fingers on one page's glass."""

    def __init__(self, person: Person) -> None:
        self._cdp: CDPSession = person.page.context.new_cdp_session(person.page)
        self._down: dict[int, tuple[float, float]] = {}

    def put(self, finger: int, on: Locator, dx: float, dy: float) -> None:
        """Put a finger on something, so far from its middle (shares of its half width)."""
        self._down[finger] = self._at(on, dx, dy)
        self._send("touchStart")

    def move(self, finger: int, on: Locator, dx: float, dy: float) -> None:
        """Move a finger without lifting it."""
        self._down[finger] = self._at(on, dx, dy)
        self._send("touchMove")

    def lift(self, finger: int) -> None:
        """Take one finger off; the others stay."""
        del self._down[finger]
        self._send("touchEnd")

    def _at(self, on: Locator, dx: float, dy: float) -> tuple[float, float]:
        box = on.bounding_box()
        assert box is not None
        half = box["width"] / 2
        return box["x"] + half * (1 + dx), box["y"] + half * (1 + dy)

    def _send(self, what: str) -> None:
        points: list[dict[str, Any]] = [
            {"x": x, "y": y, "id": finger} for finger, (x, y) in self._down.items()
        ]
        self._cdp.send("Input.dispatchTouchEvent", {"type": what, "touchPoints": points})


def held(person: Person) -> str:
    """What the page takes for held down now."""
    return person.page.locator(".held").text_content() or ""


@pytest.mark.parametrize("size", [UPRIGHT, LYING], ids=["upright", "lying"])
def test_each_page_fits_on_a_phone(people: People, system: System, size: tuple[int, int]) -> None:
    """Start, line, stage and end."""
    taken = [system.create(f"other-{number}") for number in range(SLOTS)]
    person = on_the_phone(people, size)
    see(person.heading, "Where do you want to go?")
    fits(person)
    person.enter()
    see(person.heading, "1st in line")
    fits(person)
    for session_id in taken:
        system.end(session_id)
    person.wait_for_stage()
    fits(person)
    person.page.get_by_role("button", name="Stop").tap()
    see(person.heading, "You ended it")
    fits(person)


def test_upright_the_picture_is_above_the_pads(people: People) -> None:
    """Nothing lies on it."""
    person = on_the_phone(people, UPRIGHT)
    person.enter()
    person.wait_for_stage()
    video = person.page.locator("video").bounding_box()
    move = person.page.get_by_role("application", name="Move").bounding_box()
    look = person.page.get_by_role("application", name="Look").bounding_box()
    assert video is not None
    assert move is not None
    assert look is not None
    assert video["y"] + video["height"] <= min(move["y"], look["y"])
    assert move["x"] + move["width"] <= look["x"]


def test_lying_the_pads_leave_the_middle_free(people: People) -> None:
    """One at each side."""
    person = on_the_phone(people, LYING)
    person.enter()
    person.wait_for_stage()
    move = person.page.get_by_role("application", name="Move").bounding_box()
    look = person.page.get_by_role("application", name="Look").bounding_box()
    assert move is not None
    assert look is not None
    width = LYING[0]
    assert move["x"] + move["width"] < width / 3
    assert look["x"] > width * 2 / 3


def test_fingers_hold_the_same_controls_as_keys(people: People) -> None:
    """Two at once, between two directions, across the middle, and let go."""
    person = on_the_phone(people, UPRIGHT)
    person.enter()
    person.wait_for_stage()
    move = person.page.get_by_role("application", name="Move")
    look = person.page.get_by_role("application", name="Look")
    fingers = Fingers(person)
    fingers.put(1, move, 0, -0.7)
    wait_until_sync(lambda: held(person) == "W", "forward is held")
    expect(move.locator(".cap.on")).to_have_text("W")
    fingers.put(2, look, -0.7, 0)
    wait_until_sync(lambda: held(person) == "W←", "forward and to the left")
    fingers.move(1, move, 0.6, -0.6)
    wait_until_sync(lambda: sorted(held(person)) == sorted("WD←"), "aslant")
    fingers.move(1, move, 0, 0)
    wait_until_sync(lambda: held(person) == "←", "nothing in the middle")
    fingers.lift(1)
    fingers.lift(2)
    wait_until_sync(lambda: held(person) == "", "all is let go")


def test_the_look_stick_turns_the_picture(people: People) -> None:
    """As the arrow key does."""
    person = on_the_phone(people, UPRIGHT)
    person.enter()
    person.wait_for_stage()
    before = person.thumbnail()
    fingers = Fingers(person)
    fingers.put(1, person.page.get_by_role("application", name="Look"), -0.7, 0)
    wait_until_sync(
        lambda: person.picture_moves_from(before, _TURNED), "the picture turned", scaled_s(10)
    )
    fingers.lift(1)
