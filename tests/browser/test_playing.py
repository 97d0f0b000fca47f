"""What happens on stage: picture, keys, reload, viewers, end."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from tests.browser.person import People, Person, difference, see
from tests.support.stage_system import System
from tests.support.wait import wait_until_sync

_MOVED = 6.0
"""Grey levels by which a turned view differs; a world at rest stays below half of it."""

_BLOCKED = """
const play = HTMLMediaElement.prototype.play;
let gesture = false;
addEventListener('click', () => { gesture = true; }, true);
HTMLMediaElement.prototype.play = function () {
  if (gesture) return play.call(this);
  this.pause();
  return Promise.reject(new DOMException('no gesture yet', 'NotAllowedError'));
};
"""


def on_stage(people: People, **options: Any) -> Person:
    """Somebody who plays."""
    person = people.arrive(**options)
    person.enter()
    person.wait_for_stage()
    return person


def test_real_frames_arrive_and_go_on(people: People) -> None:
    """Twenty real frames within a few seconds, and the play clock runs."""
    person = on_stage(people)
    wait_until_sync(lambda: person.debug["frames"] >= 20, "twenty real frames", 10)
    see(person.page.get_by_role("timer"), "0:0")
    see(person.page.locator(".numbers"), "fps")


def test_a_held_key_changes_the_picture(people: People) -> None:
    """Turning moves the whole picture, the key is shown, and the round trip is measured."""
    person = on_stage(people)
    before = person.thumbnail()
    person.page.keyboard.down("ArrowLeft")
    see(person.page.locator(".held"), "←")
    wait_until_sync(lambda: person.picture_moves_from(before, _MOVED), "the picture turned")
    person.page.keyboard.up("ArrowLeft")
    expect(person.page.locator(".held")).to_be_empty()
    see(person.page.locator(".numbers"), "ms")
    assert 0 <= person.debug["rttMs"] < 2_000


def test_leaving_the_window_lets_go_of_all_keys(people: People) -> None:
    """A key-up that never comes doesn't leave the player running against a wall."""
    person = on_stage(people)
    person.page.keyboard.down("w")
    see(person.page.locator(".held"), "W")
    person.page.evaluate("window.dispatchEvent(new Event('blur'))")
    expect(person.page.locator(".held")).to_be_empty()


def test_a_reload_keeps_the_session_and_its_stage(people: People) -> None:
    """Same session, same worker, and the world is where it was."""
    person = on_stage(people)
    start = person.thumbnail()
    person.page.keyboard.down("ArrowLeft")
    wait_until_sync(lambda: person.picture_moves_from(start, _MOVED), "the picture turned")
    person.page.keyboard.up("ArrowLeft")
    before = person.debug
    person.page.reload()
    person.wait_for_stage()
    after = person.debug
    assert (after["sessionId"], after["worker"]) == (before["sessionId"], before["worker"])
    assert difference(start, person.thumbnail()) >= _MOVED


def test_a_second_tab_says_that_the_first_one_plays(people: People) -> None:
    """Only one tab plays; the other one can take over and gives back when it closes."""
    person = on_stage(people)
    other = people.open_tab(person.page.context)
    see(other.heading, "You're on in another tab")
    other.press_button("Play here instead")
    other.wait_for_stage()
    see(person.heading, "You're on in another tab")
    other.page.close()
    person.wait_for_stage()


def test_a_viewer_sees_the_world_and_has_no_controls(people: People, system: System) -> None:
    """The copied link shows the same picture; keys do nothing there; the end is told."""
    person = on_stage(people, permissions=["clipboard-read", "clipboard-write"])
    person.press_button("Share")
    see(person.page.locator(".top"), "Whoever opens the link can watch")
    link: str = person.page.evaluate("navigator.clipboard.readText()")
    assert f"/watch/{person.session_id}#" in link
    remembered: str = person.page.evaluate("localStorage.getItem('greenroom.place')")
    assert link.split("#")[1] not in remembered
    viewer = people.arrive(link.removeprefix(system.address))
    viewer.wait_for_stage()
    see(viewer.page.locator(".top"), "Watching")
    expect(viewer.page.get_by_role("button")).to_have_count(1)  # the sound, nothing else
    person.press_button("Stop")
    see(viewer.curtain, "The show is over")


def test_stop_ends_with_a_card_that_says_what_happened(people: People, system: System) -> None:
    """Why, how long, what now; the code only in the details; and it can be played again."""
    person = on_stage(people)
    session_id = person.session_id
    wait_until_sync(lambda: person.debug["frames"] >= 20, "some frames", 10)
    person.press_button("Stop")
    see(person.heading, "You ended it")
    see(person.page.locator(".card"), "You played for")
    assert system.record(session_id)["reason"] == "client_stop"
    expect(person.page.get_by_text("client_stop")).to_be_hidden()
    person.page.get_by_text("Details").click()
    expect(person.page.get_by_text("client_stop")).to_be_visible()
    expect(person.page.get_by_text(session_id)).to_be_visible()
    person.press_button("Play again")
    person.wait_for_stage()
    assert person.session_id != session_id


def test_an_end_from_outside_is_told_at_once(people: People, system: System) -> None:
    """A session that somebody else ends leads to the end card, not to a still picture."""
    person = on_stage(people)
    system.end(person.session_id)
    see(person.heading, "You ended it")


def test_everything_can_be_done_with_the_keyboard(people: People) -> None:
    """Enter, play, tab to Stop, and the end card has the focus."""
    person = on_stage(people)
    keyboard = person.page.keyboard
    expect(person.page.get_by_role("button", name="Sound off")).to_be_visible()
    for name in ("Sound off", "Share", "Stop"):
        keyboard.press("Tab")
        expect(person.page.get_by_role("button", name=name, exact=True)).to_be_focused()
    keyboard.press("Enter")
    see(person.heading, "You ended it")
    expect(person.heading).to_be_focused()
    keyboard.press("Tab")
    expect(person.page.get_by_role("button", name="Play again")).to_be_focused()


def test_blocked_autoplay_asks_for_a_tap(people: People) -> None:
    """A browser that plays nothing without a gesture gets one button."""
    person = people.arrive(init_script=_BLOCKED)
    person.enter()
    person.page.get_by_role("button", name="Tap to start").click()
    expect(person.page.get_by_role("button", name="Tap to start")).to_be_hidden()
    person.wait_for_stage()


def test_the_world_is_heard_and_can_be_silenced(people: People) -> None:
    """Sound comes with the picture; one button takes it away and gives it back."""
    person = people.arrive()
    person.enter()
    person.wait_for_stage()
    wait_until_sync(lambda: person.debug["heardS"] > 0.5, "the world is heard", 10)
    person.press_button("Sound off")
    assert person.debug["heardS"] == 0
    person.press_button("Sound on")
    wait_until_sync(lambda: person.debug["heardS"] > 0, "it is heard again")
