"""Can somebody play whose network lets nothing through but a relay?

A real Chromium that may use relays alone (`iceTransportPolicy: relay`), a real coturn with the
options of deploy/compose.yaml, and a LiveKit that hands out its address and credentials.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import start_system
from tests.browser.person import People, Person
from tests.support.livekit_server import running_livekit
from tests.support.stage_system import System
from tests.support.turn_server import PROGRAM, TurnServer, is_installed, running_turn
from tests.support.wait import scaled_s, wait_until_sync

pytestmark = pytest.mark.timeout(scaled_s(150))

WITHIN_S = 60.0
_RELAYS_ALONE = """
window.peers = [];
const Plain = window.RTCPeerConnection;
const narrowed = (config) => ({
  ...config,
  iceTransportPolicy: 'relay',
  iceServers: (config?.iceServers ?? []).map((server) => ({
    ...server,
    urls: [server.urls].flat().filter((url) => url.endsWith('transport=TRANSPORT')),
  })).filter((server) => server.urls.length > 0),
});
window.RTCPeerConnection = class extends Plain {
  constructor(config, ...rest) { super(narrowed(config), ...rest); window.peers.push(this); }
  setConfiguration(config) { super.setConfiguration(narrowed(config)); }
};
"""
_PATHS = """async () => {
  const paths = [];
  for (const peer of window.peers) {
    const stats = await peer.getStats();
    stats.forEach((one) => {
      if (one.type !== 'candidate-pair' || one.state !== 'succeeded' || !one.nominated) return;
      const local = stats.get(one.localCandidateId);
      paths.push(`${local.candidateType} ${local.relayProtocol}`);
    });
  }
  return paths;
}"""
_FOUND_NOTHING = """async () => {
  if (window.peers.length === 0) return false;
  if (window.peers.some((peer) => peer.iceGatheringState !== 'complete')) return false;
  for (const peer of window.peers) {
    const kinds = [...(await peer.getStats()).values()].map((one) => one.type);
    if (kinds.includes('local-candidate')) return false;
  }
  return true;
}"""


@pytest.fixture(scope="module")
def turn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TurnServer]:
    """The relay."""
    if not is_installed():
        pytest.skip(f"there is no {PROGRAM} on PATH (apt-get install coturn)")
    with running_turn(tmp_path_factory.mktemp("turn")) as server:
        yield server


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory, turn: TurnServer) -> Iterator[System]:
    """A system whose LiveKit knows the relay."""
    with running_livekit(rtc=turn.for_livekit) as livekit:
        options = {
            "--livekit-url": livekit.url,
            "--livekit-api-key": livekit.api_key,
            "--livekit-api-secret": livekit.api_secret,
        }
        flat = [word for pair in options.items() for word in pair]
        with start_system(tmp_path_factory, *flat) as running:
            yield running


@pytest.fixture
def people(browser: Browser, system: System) -> Iterator[People]:
    """Whoever opens the page in this test."""
    crowd = People(browser, system)
    yield crowd
    crowd.go_home()


def enter(people: People, transport: str) -> Person:
    """Somebody comes who can only reach relays, and these only over *transport*."""
    person = people.arrive(init_script=_RELAYS_ALONE.replace("TRANSPORT", transport))
    person.enter()
    return person


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_the_world_is_there_through_the_relay_alone(people: People, transport: str) -> None:
    """The picture is live, keys arrive, and each connection in use goes through coturn."""
    person = enter(people, transport)
    person.wait_for_stage(within_s=WITHIN_S)
    wait_until_sync(lambda: person.debug["frames"] >= 20, "twenty real frames", WITHIN_S)
    paths = person.page.evaluate(_PATHS)
    assert paths
    assert set(paths) == {f"relay {transport}"}
    before = person.thumbnail()
    person.page.keyboard.down("ArrowLeft")
    wait_until_sync(lambda: person.picture_moves_from(before, 6.0), "the picture turned", WITHIN_S)
    person.page.keyboard.up("ArrowLeft")


def test_without_the_relay_there_is_no_way_in(browser: Browser, system: System) -> None:
    """So the tests above can't have gone another way. The relay is one that nobody runs."""
    crowd = People(browser, system)
    dead = _RELAYS_ALONE.replace("transport=TRANSPORT'", "transport=none'")
    person = crowd.arrive(init_script=dead)
    person.enter()
    wait_until_sync(
        lambda: person.page.evaluate(_FOUND_NOTHING), "the browser finds no way", WITHIN_S
    )
    assert not person.is_on_stage()
    assert person.page.evaluate(_PATHS) == []
    crowd.go_home()
