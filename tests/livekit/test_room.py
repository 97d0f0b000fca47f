"""Does a worker's room hold against what LiveKit and its SDK can do to it?"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from livekit.rtc import SimulateScenarioKind

from gpu_node.livekit_room import LiveKitRoom, LiveKitRooms
from gpu_node.room import Lost, RoomEvents, RoomRequest
from shared.errors import BadChunk, RoomsUnavailable
from shared.ids import WorkerIdentity
from shared.records import Presence
from shared.rooms.admin import RoomAdmin
from shared.rooms.tokens import RoomTokens
from tests.livekit.conftest import admin_for, tokens_for
from tests.support.live_person import LivePerson
from tests.support.livekit_server import LiveKitServer, running_livekit
from tests.support.wait import wait_until

FRAME = np.full((180, 320, 3), 90, np.uint8)


@dataclass(slots=True)
class Node:
    """One node's room factory, its lease, and what its rooms told."""

    rooms: LiveKitRooms
    admin: RoomAdmin
    lease: bool = True
    lost: list[str] = field(default_factory=list)
    presences: list[Presence] = field(default_factory=list)
    controls: list[tuple[str, bytes, str]] = field(default_factory=list)
    arrivals: list[str] = field(default_factory=list)

    def room(self, session_id: str, epoch: int = 10) -> LiveKitRoom:
        """A room that isn't joined yet."""
        return self.rooms(
            RoomRequest(
                session_id=session_id,
                identity=WorkerIdentity(node_id="n", epoch=epoch, attempt=1),
                controller="alice",
                fps=16,
                events=RoomEvents(
                    on_control=lambda *message: self.controls.append(message),
                    on_presence=self.presences.append,
                    on_lost=self.lost.append,
                    on_arrival=self.arrivals.append,
                ),
            )
        )


@contextlib.asynccontextmanager
async def node_at(server: LiveKitServer, url: str | None = None) -> AsyncIterator[Node]:
    """A node that plays in this server's rooms."""
    admin = admin_for(server)
    rooms = LiveKitRooms(
        url=url or server.url,
        tokens=tokens_for(server),
        admin=admin,
        lease_holds=lambda: made.lease,
        join_timeout_s=2.0,
    )
    made = Node(rooms=rooms, admin=admin)
    yield made
    await rooms.aclose(settle_s=0.0)
    await admin.aclose()


@pytest.fixture
async def node(livekit_server: LiveKitServer) -> AsyncIterator[Node]:
    """A node at the common server."""
    async with node_at(livekit_server) as made:
        yield made


async def present(node: Node, session_id: str) -> set[str]:
    """Identities in the room, as the server lists them."""
    return {one.identity for one in await node.admin.participants(session_id)}


async def test_a_newcomers_first_words_are_heard_within_a_second(
    livekit_server: LiveKitServer, tokens: RoomTokens, node: Node, session_id: str
) -> None:
    """LiveKit tells of a silent newcomer up to 3 s late; the room has it announced at once."""
    room = node.room(session_id)
    await room.join()
    alice = LivePerson()
    await alice.enter(livekit_server.url, tokens.controller(session_id, "alice"))
    began_s = time.monotonic()

    async def heard() -> bool:
        await alice.say({"type": "reset"})
        return any(sender == "alice" for sender, _, _ in node.controls)

    await wait_until(heard, "the room knows who speaks")
    assert time.monotonic() - began_s < 1.0
    await room.leave()
    await alice.leave()


async def test_a_reloaded_page_is_heard_at_once(
    livekit_server: LiveKitServer, tokens: RoomTokens, node: Node, session_id: str
) -> None:
    """The new connection of a known person needs no announcement."""
    old, new = LivePerson(), LivePerson()
    await old.enter(livekit_server.url, tokens.controller(session_id, "alice"))
    room = node.room(session_id)
    await room.join()
    await new.enter(livekit_server.url, tokens.controller(session_id, "alice"))

    async def heard() -> bool:
        await new.say({"type": "reset"})
        return any(sender == "alice" for sender, _, _ in node.controls)

    await wait_until(heard, "the reloaded page is heard", timeout_s=1)
    assert all(presence.controller for presence in node.presences)
    await room.leave()
    await old.leave()
    await new.leave()


async def test_a_worker_without_a_lease_leaves_when_its_connection_breaks(
    node: Node, session_id: str
) -> None:
    """R1: a frozen worker that wakes doesn't come back into the room."""
    room = node.room(session_id)
    await room.join()
    node.lease = False
    assert room._rtc is not None
    with contextlib.suppress(RuntimeError):  # the scenario itself is cut short by our leaving
        await room._rtc.simulate_scenario(SimulateScenarioKind.SIMULATE_FULL_RECONNECT)
    await wait_until(lambda: node.lost, "the room is lost")
    assert node.lost == [Lost.LEASE_LAPSED]

    async def gone() -> bool:
        return await present(node, session_id) == set()

    await wait_until(gone, "the server lists nobody")
    await room.leave()


async def test_a_worker_with_a_lease_comes_back_and_plays_on(
    livekit_server: LiveKitServer, tokens: RoomTokens, node: Node, session_id: str
) -> None:
    """A reconnect is a gap, no loss; presence says so meanwhile and people stay counted."""
    alice = LivePerson()
    await alice.enter(livekit_server.url, tokens.controller(session_id, "alice"))
    room = node.room(session_id)
    await room.join()
    assert room._rtc is not None

    def plays(past: int) -> bool:
        room.capture(FRAME, 1)
        return len(alice.frames) > past + 2

    await wait_until(lambda: plays(0), "frames arrive")
    await room._rtc.simulate_scenario(SimulateScenarioKind.SIMULATE_FULL_RECONNECT)
    whole = Presence(connected=True, controller=True, participants=1)
    cut = replace(whole, connected=False)
    await wait_until(
        lambda: cut in node.presences and node.presences[-1] == whole, "it came back", timeout_s=15
    )
    assert set(node.presences) == {whole, cut}  # on a busy machine it's cut more than once
    seen = len(alice.frames)
    await wait_until(lambda: plays(seen), "frames arrive again", timeout_s=15)
    assert node.lost == []
    await room.leave()
    await alice.leave()


async def test_a_restart_of_the_server_is_survived(session_id: str) -> None:
    """Killed and started again: the worker is back in a room of the same name, by itself."""
    with running_livekit() as server:
        async with node_at(server) as node:
            room = node.room(session_id)
            await room.join()
            server.kill()
            await wait_until(
                lambda: node.presences[-1].connected is False, "the cut is noticed", timeout_s=10
            )
            server.start()
            await wait_until(lambda: room.presence().connected, "it came back", timeout_s=15)
            assert await present(node, session_id) == {"telefuser-n-10-1"}
            assert node.lost == []
            await room.leave()


async def test_a_cancelled_join_leaves_no_ghost(node: Node, session_id: str) -> None:
    """The connect goes on by itself and is ended when it completes."""
    room = node.room(session_id)
    joining = asyncio.ensure_future(room.join())
    await asyncio.sleep(0)
    joining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await joining
    await room.leave()

    async def gone() -> bool:
        return await present(node, session_id) == set()

    await wait_until(gone, "the server lists nobody")
    assert node.lost == []


async def test_a_server_that_never_answers_is_given_up(
    livekit_server: LiveKitServer, session_id: str
) -> None:
    """Our own deadline counts, not the SDK's many attempts."""
    accepted: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _reader, out: accepted.append(out), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    async with node_at(livekit_server, f"ws://127.0.0.1:{port}") as node:
        began_s = time.monotonic()
        with pytest.raises(RoomsUnavailable, match="no connection within 2 s"):
            await node.room(session_id).join()
        assert time.monotonic() - began_s < 3.0
        # Refused from now on, so that the SDK's own attempts end with this test.
        silent.close()
        for out in accepted:
            out.transport.abort()


async def test_a_refused_token_shows_in_no_error_and_no_log(
    livekit_server: LiveKitServer,
    admin: RoomAdmin,
    session_id: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The SDK's text holds the whole token; ours and its log lines don't."""
    caplog.set_level(logging.DEBUG)
    rooms = LiveKitRooms(
        url=livekit_server.url,
        tokens=RoomTokens("devkey", "another-secret-that-is-long-enough", 60, "x"),
        admin=admin,
        lease_holds=lambda: True,
    )
    node = Node(rooms=rooms, admin=admin)
    with pytest.raises(RoomsUnavailable) as caught:
        await node.room(session_id).join()
    assert caught.value.__cause__ is None
    assert "eyJ" not in str(caught.value)
    assert "eyJ" not in caplog.text


async def test_a_track_is_for_the_size_of_its_first_frame_and_no_other(
    livekit_server: LiveKitServer, tokens: RoomTokens, node: Node, session_id: str
) -> None:
    """Said or not, as after a rejoin: the next size gets a track of its own."""
    alice = LivePerson()
    await alice.enter(livekit_server.url, tokens.controller(session_id, "alice"))
    room = node.room(session_id)
    await room.join()
    room.capture(FRAME, 1)
    await wait_until(lambda: alice.tracks == ["telefuser-output"], "the first track")
    await room.fit_video(320, 180)
    await room.fit_video(180, 320)
    await wait_until(lambda: alice.tracks == ["telefuser-output"] * 2, "a second one")
    await room.leave()
    await alice.leave()


async def test_a_frame_that_is_too_short_is_refused(node: Node, session_id: str) -> None:
    """The SDK would read beyond its end."""
    room = node.room(session_id)
    await room.join()
    with pytest.raises(BadChunk):
        room.capture(np.zeros((4, 8, 1), np.uint8), 1)
    await room.leave()
