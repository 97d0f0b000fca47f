"""The operator's page in a real Chromium: readable, live, honest if it isn't; orders ask first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from control_plane.api.pages import DIST
from shared.states import Admin, NodeState, Reason
from tests.browser.layout import misfits
from tests.support.closed import ADMIN_KEY
from tests.support.played_fleet import PlayedFleet, gpus, played_fleet
from tests.support.redis_server import POOL
from tests.support.replica_process import ReplicaProcess, replica_environment
from tests.support.wait import scaled_s, wait_until_sync

WIDE = {"width": 1400, "height": 950}


@pytest.fixture
def fleet(redis_url: str) -> Iterator[PlayedFleet]:
    """An empty fleet on an empty registry."""
    if not (DIST / "index.html").is_file():
        pytest.skip("the page isn't built (npm ci && npm run build in control_plane/console)")
    with played_fleet(redis_url) as running:
        yield running


class Desk:
    """An operator's desk: one replica, and a page of it."""

    def __init__(self, browser: Browser, redis_url: str, folder: Path, **options: str) -> None:
        environment = replica_environment(redis_url, folder, QUEUE_SIZE="50", **options)
        self.replica = ReplicaProcess(environment)
        self._browser = browser
        self._address = self.replica.address()
        self._broken: list[str] = []

    def open(self, scheme: str = "dark", **options: object) -> Page:
        """Open the page."""
        context = self._browser.new_context(
            base_url=self._address,
            color_scheme=scheme,  # type: ignore[arg-type]
            **{"viewport": WIDE, **options},  # type: ignore[arg-type]
        )
        context.set_default_timeout(scaled_s(15) * 1000)
        page = context.new_page()
        page.on("pageerror", lambda error: self._broken.append(str(error)))
        page.on("console", lambda line: self._note(line.text))
        page.goto("/admin")
        return page

    def _note(self, line: str) -> None:
        if "Content Security Policy" in line or "Content-Security-Policy" in line:
            self._broken.append(line)

    def close(self) -> None:
        """End the replica; fail if a page met an error of its own."""
        self.replica.close()
        for context in self._browser.contexts:
            context.close()
        assert not self._broken, f"the page broke: {self._broken}"


@pytest.fixture
def desk(browser: Browser, redis_url: str, tmp_path: Path, fleet: PlayedFleet) -> Iterator[Desk]:
    """A desk whose replica asks nobody for a key."""
    made = Desk(browser, redis_url, tmp_path)
    yield made
    made.close()


def panel(page: Page, name: str) -> Locator:
    """One of the three tables with its head."""
    return page.get_by_role("region", name=name, exact=True)


def rows(page: Page, name: str) -> Locator:
    """The rows of one of the three tables."""
    return panel(page, name).locator("tr.row")


def is_live(page: Page) -> None:
    """Wait until the page says so."""
    expect(page.get_by_text("Live", exact=True)).to_be_visible(timeout=scaled_s(15) * 1000)


def a_busy_evening(fleet: PlayedFleet) -> None:
    """Three nodes, one of which is drained; twelve on stage, twenty in line, four that ended."""
    fleet.begin("gpu-rack1-a", capacity=6, told=gpus(61.4))
    fleet.begin("gpu-rack1-b", capacity=6, told=gpus(72.9, count=2, busy=88))
    fleet.begin("gpu-rack2-a", capacity=4)
    early = fleet.open(4, "early")
    fleet.play()
    ends = (
        (Reason.COMPLETED, None),
        (Reason.SERVICE_ERROR, "RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB"),
        (Reason.CLIENT_STOP, None),
        (Reason.CONTROLLER_TIMEOUT, None),
    )
    for session_id, (reason, error) in zip(early, ends, strict=True):
        (node_id,) = [one.node_id for one in fleet.nodes.values() if session_id in one.residents]
        fleet.end(node_id, session_id, reason, error)
    drained = fleet.registry.set_node_admin(POOL, "gpu-rack2-a", Admin.DRAINING, move_in_s=240)
    fleet.run(drained)
    fleet.open(32, "visitor")
    fleet.play()


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_a_busy_evening_fits_on_one_sheet(fleet: PlayedFleet, desk: Desk, scheme: str) -> None:
    """Nothing is cut, covered or aside; also with a node, a place and a session opened."""
    a_busy_evening(fleet)
    page = desk.open(scheme)
    is_live(page)
    expect(rows(page, "Line")).to_have_count(20)
    expect(rows(page, "Nodes")).to_have_count(3)
    expect(rows(page, "Sessions")).to_have_count(16)
    expect(page.get_by_text("12 on stage, 4 ended lately")).to_be_visible()
    assert misfits(page) == []

    page.get_by_role("button", name="Node gpu-rack1-b").click()
    page.get_by_role("button", name=re.compile("^1st in line")).click()
    panel(page, "Sessions").get_by_role("button", name=re.compile("failed$")).click()
    expect(page.get_by_text("Why it waits")).to_be_visible()
    expect(page.get_by_text("It ended because the world broke.")).to_be_visible()
    expect(page.get_by_text("NVIDIA H100 80GB HBM3").first).to_be_visible()
    assert misfits(page) == []


@pytest.mark.parametrize("width", [400, 820])
def test_a_narrow_window_still_shows_everything(fleet: PlayedFleet, desk: Desk, width: int) -> None:
    """Tables scroll in their own frames; the page never does sideways."""
    a_busy_evening(fleet)
    page = desk.open(viewport={"width": width, "height": 900})
    is_live(page)
    expect(rows(page, "Line")).to_have_count(20)
    assert misfits(page) == []


def test_what_happens_shows_without_a_reload(fleet: PlayedFleet, desk: Desk) -> None:
    """Somebody comes, steps on a stage, ends."""
    page = desk.open()
    expect(page.get_by_text("Nobody waits.")).to_be_visible()
    (first,) = fleet.open(1)
    expect(rows(page, "Line")).to_contain_text([first.split("-")[-1][:8]])
    fleet.begin("node-a", capacity=1)
    fleet.play()
    expect(rows(page, "Sessions")).to_contain_text(["on stage"])
    expect(rows(page, "Nodes")).to_contain_text(["busy"])
    expect(page.get_by_text("Nobody waits.")).to_be_visible()
    fleet.end("node-a", first, Reason.COMPLETED)
    expect(rows(page, "Sessions")).to_contain_text(["the show was over"])


def test_who_people_are_shows_only_to_whoever_wants_to_know(fleet: PlayedFleet, desk: Desk) -> None:
    """Until then it isn't even in the page."""
    fleet.open(2, "visitor")
    page = desk.open()
    expect(rows(page, "Line")).to_have_count(2)
    assert "visitor-1" not in page.content()
    page.get_by_label("Show identities").check()
    expect(rows(page, "Line")).to_contain_text(["visitor-1", "visitor-2"])
    page.get_by_label("Show identities").uncheck()
    expect(page.get_by_text("visitor-1")).to_have_count(0)


def test_a_drain_asks_once_and_says_whom_it_touches(fleet: PlayedFleet, desk: Desk) -> None:
    """Nothing happens before; after it the node is closed, until it is resumed."""
    fleet.begin("node-a", capacity=2)
    fleet.open(2)
    fleet.play()
    page = desk.open()
    page.get_by_role("button", name="Node node-a").click()
    page.get_by_role("button", name="Drain…").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("2 people on it play on until they end it.")
    asked.get_by_role("button", name="Leave it as it is").click()
    assert fleet.run(fleet.registry.snapshot(POOL)).nodes[0].admin is Admin.OPEN

    page.get_by_role("button", name="Drain…").click()
    asked.get_by_role("button", name="Drain it").click()
    expect(asked).to_have_count(0)
    expect(rows(page, "Nodes")).to_contain_text(["drained"])
    page.get_by_role("button", name="Resume…").click()
    asked.get_by_role("button", name="Resume it").click()
    expect(rows(page, "Nodes")).to_contain_text(["busy"])


def test_a_drain_with_a_countdown_says_who_will_have_to_wait(
    fleet: PlayedFleet, desk: Desk
) -> None:
    """Before it, by the slots that are free elsewhere; after it the row counts down."""
    fleet.begin("node-a", capacity=3)
    fleet.open(3)
    fleet.play()
    fleet.begin("node-b", capacity=1)
    page = desk.open()
    page.get_by_role("button", name="Node node-a").click()
    page.get_by_role("button", name="Drain with a countdown…").click()
    asked = page.get_by_role("dialog")
    asked.get_by_label("Seconds until they move").fill("300")
    expect(asked).to_contain_text("3 people on it are moved to other nodes in 5 m 0 s")
    expect(asked).to_contain_text("Only 1 slot is free elsewhere: 2 people will have to wait")
    asked.get_by_role("button", name="Drain it in 5 m 0 s").click()
    expect(rows(page, "Nodes").first).to_contain_text("moves in 4 m")


def test_slots_are_limited_and_given_back(fleet: PlayedFleet, desk: Desk) -> None:
    """Nobody is thrown out; the squares show what isn't allowed."""
    fleet.begin("node-a", capacity=4)
    fleet.open(3)
    fleet.play()
    page = desk.open()
    page.get_by_role("button", name="Node node-a").click()
    page.get_by_role("button", name="Slots…").click()
    asked = page.get_by_role("dialog")
    asked.get_by_label("Slots it may use").fill("2")
    expect(asked).to_contain_text("nobody new comes until 2 of them have left")
    asked.get_by_role("button", name="Use 2").click()
    expect(rows(page, "Nodes")).to_contain_text(["3 / 2"])
    page.get_by_role("button", name="Slots…").click()
    asked.get_by_label("Slots it may use").fill("")
    asked.get_by_role("button", name="Use all").click()
    expect(rows(page, "Nodes")).to_contain_text(["3 / 4"])


def test_an_order_that_somebody_overtook_is_asked_anew(fleet: PlayedFleet, desk: Desk) -> None:
    """With a sentence on what happened; the second try knows it."""
    fleet.begin("node-a", capacity=1)
    page = desk.open()
    page.get_by_role("button", name="Node node-a").click()
    page.get_by_role("button", name="Drain…").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("Nobody is on it now")
    fleet.run(fleet.registry.set_node_capacity(POOL, "node-a", 1))
    asked.get_by_role("button", name="Drain it").click()
    expect(asked).to_contain_text("isn't the present one of 'node-a'")
    asked.get_by_role("button", name="Drain it").click()
    expect(rows(page, "Nodes")).to_contain_text(["drained"])


def test_a_session_is_ended_in_line_and_on_stage(fleet: PlayedFleet, desk: Desk) -> None:
    """Each with the words for whom it meets."""
    fleet.begin("node-a", capacity=1)
    playing, waiting = fleet.open(2)
    fleet.play()
    page = desk.open()
    page.get_by_role("button", name=re.compile("^1st in line")).click()
    page.get_by_role("button", name="End this session…").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("The person loses the 1st place in line")
    asked.get_by_role("button", name="End it").click()
    expect(page.get_by_text("Nobody waits.")).to_be_visible()
    assert fleet.run(fleet.registry.read(waiting)).reason is Reason.ADMIN

    panel(page, "Sessions").get_by_role("button", name=re.compile("on stage$")).click()
    page.get_by_role("button", name="End this session…").click()
    expect(asked).to_contain_text("The person on stage is stopped at once")
    asked.get_by_role("button", name="End it").click()
    expect(rows(page, "Sessions").first).to_contain_text("ending")
    assert fleet.run(fleet.registry.read(playing)).reason is Reason.ADMIN


def test_a_page_that_hears_nothing_says_how_old_it_is(fleet: PlayedFleet, desk: Desk) -> None:
    """And keeps what it knew."""
    fleet.begin("node-a", capacity=1)
    page = desk.open()
    is_live(page)
    desk.replica.close()
    told = page.get_by_role("status")
    expect(told).to_contain_text(re.compile(r"Last update \d+ s ago\. Reconnecting…"))
    expect(rows(page, "Nodes")).to_have_count(1)
    assert misfits(page) == []


def test_a_node_that_falls_silent_is_seen(fleet: PlayedFleet, desk: Desk) -> None:
    """Before its lease is over, by the age of its last beat."""
    fleet.begin("node-a", capacity=1, ttl_s=60.0)
    fleet.begin("node-b", capacity=1, state=NodeState.LOADING)
    page = desk.open()
    expect(rows(page, "Nodes")).to_contain_text(["idle", "loading"])
    fleet.silence()
    expect(rows(page, "Nodes").first).to_contain_text("silent", timeout=scaled_s(20) * 1000)


def test_a_closed_server_asks_for_a_key(
    fleet: PlayedFleet, browser: Browser, redis_url: str, tmp_path: Path
) -> None:
    """A wrong one is said to be wrong; the right one opens, and survives a reload in this tab."""
    desk = Desk(browser, redis_url, tmp_path, ADMIN_KEY=ADMIN_KEY)
    try:
        page = desk.open()
        expect(page.get_by_role("heading", name="Backstage asks for a key")).to_be_visible()
        assert misfits(page) == []
        page.get_by_label("Backstage asks for a key").fill("grk_admin_wrongwrongwrongwrongwrong")
        page.get_by_role("button", name="Use this key").click()
        expect(page.get_by_role("alert")).to_contain_text("This key isn't known here.")
        page.get_by_label("Backstage asks for a key").fill(ADMIN_KEY)
        page.keyboard.press("Enter")
        is_live(page)
        page.reload()
        is_live(page)
        assert page.evaluate("localStorage.length") == 0
        assert ADMIN_KEY not in page.url
    finally:
        desk.close()


def test_the_page_comes_back_when_the_server_does(
    fleet: PlayedFleet, browser: Browser, redis_url: str, tmp_path: Path
) -> None:
    """On the same address, by itself."""
    desk = Desk(browser, redis_url, tmp_path)
    try:
        page = desk.open()
        is_live(page)
        port = page.url.split(":")[2].split("/")[0]
        desk.replica.close()
        expect(page.get_by_role("status")).to_contain_text("Last update")
        environment = replica_environment(redis_url, tmp_path, QUEUE_SIZE="50", PORT=port)
        desk.replica = ReplicaProcess(environment)
        desk.replica.address()
        is_live(page)
        fleet.open(1)
        wait_until_sync(lambda: rows(page, "Line").count() == 1, "the line shows", 10)
    finally:
        desk.close()
