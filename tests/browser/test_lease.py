"""What do two people see who share one model, so that only one of their worlds moves at a time?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import start_system
from tests.browser.person import People, Person, see
from tests.support.stage_system import System
from tests.support.wait import wait_until_sync

SHARED_FILM = '''
"""A film that two people draw on by turns."""
from gpu_node.services.overlay import Overlay


class SharedFilm(Overlay):
    execution_lease = "node"
    warm_up = False


def get_service():
    return SharedFilm()
'''
_LISTEN = """() => {
  window.chips = [];
  const note = () => document.querySelectorAll('.chip, .curtain p').forEach((one) => {
    if (window.chips.at(-1) !== one.textContent) window.chips.push(one.textContent);
  });
  new MutationObserver(note).observe(document.body,
    {subtree: true, childList: true, characterData: true});
}"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A system whose two sessions share one model; who is idle for two seconds hands it over."""
    file: Path = tmp_path_factory.mktemp("service") / "shared_film.py"
    file.write_text(SHARED_FILM)
    with start_system(tmp_path_factory, str(file), "--control-idle-timeout", "2") as running:
        yield running


def said(person: Person, words: str) -> bool:
    """Tell whether the page has shown *words* since it was listened to."""
    chips: list[str] = person.page.evaluate("window.chips")
    return any(words in chip for chip in chips)


def on_stage(people: People) -> Person:
    """Somebody whose session runs; the world waits for a first key."""
    person = people.arrive()
    person.enter()
    see(person.curtain, "Press a key to begin", 30)
    person.page.evaluate(_LISTEN)
    return person


def test_two_people_take_turns_on_one_model(browser: Browser, system: System) -> None:
    """Each hears that it waits, that it has its turn, and that it gave it up; both play."""
    people = People(browser, system)
    ann, bob = on_stage(people), on_stage(people)
    ann.page.keyboard.down("w")  # a key that is held keeps the turn, however slow the machine
    ann.wait_for_stage()
    bob.page.keyboard.down("w")
    see(bob.curtain, "1st in line for a turn")
    ann.page.keyboard.up("w")
    bob.wait_for_stage()  # as soon as Ann has been idle for long enough
    wait_until_sync(lambda: said(ann, "Others play; press a key"), "Ann is told that it's parked")
    still = ann.debug["frames"]
    ann.page.keyboard.press("w")
    wait_until_sync(lambda: said(ann, "1st in line for a turn"), "Ann is told that it waits")
    bob.page.keyboard.up("w")
    wait_until_sync(lambda: ann.debug["frames"] > still + 10, "Ann plays again", 20)
    wait_until_sync(lambda: said(bob, "Others play; press a key"), "Bob is told that it's parked")
    people.go_home()
