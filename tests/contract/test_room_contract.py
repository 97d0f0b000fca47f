"""What does every room do for its runner, the fake one and LiveKit's alike?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from gpu_node.room import AssetStream, Frame, Lost, Pcm, Room, RoomEvents, RoomRequest
from shared.errors import RoomsUnavailable
from shared.ids import WorkerIdentity, new_session_id
from shared.records import Presence
from shared.rooms.tokens import Role
from tests.contract.conftest import House
from tests.support.wait import wait_until

RED, BLUE = (255, 0, 0), (0, 0, 255)


@dataclass(slots=True)
class Witness:
    """A runner that only notes what its room tells it."""

    controls: list[tuple[str, bytes, str]] = field(default_factory=list)
    presences: list[Presence] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    arrivals: list[str] = field(default_factory=list)
    outranked: list[int] = field(default_factory=list)
    files: list[tuple[str, AssetStream]] = field(default_factory=list)
    sounds: list[Pcm] = field(default_factory=list)

    def events(self) -> RoomEvents:
        return RoomEvents(
            on_control=lambda *message: self.controls.append(message),
            on_presence=self.presences.append,
            on_lost=self.lost.append,
            on_arrival=self.arrivals.append,
            on_outranked=self.outranked.append,
            on_asset=lambda *file: self.files.append(file),
            on_sound=self.sounds.append,
        )


class Workers:
    """Joins workers of one session and takes them out again at the end."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.session_id = new_session_id("default")
        self._joined: list[Room] = []

    async def join(
        self, epoch: int = 10, attempt: int = 1, hear_hz: int = 0
    ) -> tuple[Room, Witness]:
        witness = Witness()
        request = replace(self.request(witness, epoch, attempt), hear_hz=hear_hz)
        room = self.house.rooms(request)
        self._joined.append(room)
        await room.join()
        return room, witness

    def request(self, witness: Witness, epoch: int = 10, attempt: int = 1) -> RoomRequest:
        return RoomRequest(
            session_id=self.session_id,
            identity=WorkerIdentity(node_id="node-a", epoch=epoch, attempt=attempt),
            controller="alice",
            fps=16,
            events=witness.events(),
        )

    async def aclose(self) -> None:
        for room in self._joined:
            await room.leave()


@pytest.fixture
async def workers(house: House) -> AsyncIterator[Workers]:
    """Workers that have all left at the end."""
    made = Workers(house)
    yield made
    await made.aclose()


def picture(top: tuple[int, int, int], bottom: tuple[int, int, int]) -> Frame:
    """A frame in two colours."""
    frame = np.zeros((180, 320, 3), np.uint8)
    frame[:90], frame[90:] = top, bottom
    return frame


async def test_who_was_there_before_the_join_is_counted(house: House, workers: Workers) -> None:
    """Presence at the join includes people of whom no event will tell."""
    await house.enter(workers.session_id, "alice", Role.CONTROLLER)
    await house.enter(workers.session_id, "bob", Role.VIEWER)
    room, witness = await workers.join()
    expected = Presence(connected=True, controller=True, participants=2)
    assert room.presence() == expected
    await wait_until(lambda: witness.presences[-1:] == [expected], "presence is told")
    await wait_until(lambda: set(witness.arrivals) == {"alice", "bob"}, "both arrivals are told")


async def test_people_come_and_go(house: House, workers: Workers) -> None:
    """The controller's coming is told within a second; a viewer isn't taken for the controller."""
    room, witness = await workers.join()
    assert room.presence() == Presence(connected=True, controller=False, participants=0)
    viewer = await house.enter(workers.session_id, "bob", Role.VIEWER)
    await wait_until(lambda: room.presence().participants == 1, "the viewer is counted")
    assert not room.presence().controller
    controller = await house.enter(workers.session_id, "alice", Role.CONTROLLER)
    await wait_until(lambda: room.presence().controller, "the controller is seen", timeout_s=1)
    await controller.leave()
    await viewer.leave()
    await wait_until(lambda: room.presence().participants == 0, "both are gone")
    await wait_until(
        lambda: witness.presences and witness.presences[-1].participants == 0, "that is told"
    )


async def test_a_reload_is_an_arrival_and_no_absence(house: House, workers: Workers) -> None:
    """The late word that the old connection is gone doesn't take the controller away."""
    await house.enter(workers.session_id, "alice", Role.CONTROLLER)
    room, witness = await workers.join()
    await wait_until(lambda: witness.arrivals == ["alice"], "the first arrival")
    again = await house.reload(workers.session_id, "alice")
    await wait_until(lambda: witness.arrivals == ["alice"] * 2, "the second arrival")
    await again.say({"type": "reset"})
    await wait_until(lambda: witness.controls, "the new connection may speak")
    assert room.presence().controller
    assert all(presence.controller for presence in witness.presences)


async def test_frames_arrive_with_number_and_colour(house: House, workers: Workers) -> None:
    """Controller and viewer see what is captured, red as red."""
    alice = await house.enter(workers.session_id, "alice", Role.CONTROLLER)
    bob = await house.enter(workers.session_id, "bob", Role.VIEWER)
    room, _ = await workers.join()
    frame_id = 0

    def seen_by_both() -> bool:
        nonlocal frame_id
        frame_id += 1
        room.capture(picture(RED, BLUE), frame_id)
        return len(alice.frames) >= 3 and len(bob.frames) >= 3

    await wait_until(seen_by_both, "three frames reach both")
    seen = alice.frames[-1]
    assert seen.worker == "telefuser-node-a-10-1"
    assert 1 <= seen.frame_id <= frame_id
    height, width = seen.image.shape[:2]
    assert np.abs(seen.image[height // 4, width // 2] - np.array(RED)).max() < 40
    assert np.abs(seen.image[height * 3 // 4, width // 2] - np.array(BLUE)).max() < 40


async def test_sound_arrives(house: House, workers: Workers) -> None:
    """The audio track appears with the first sound."""
    alice = await house.enter(workers.session_id, "alice", Role.CONTROLLER)
    room, _ = await workers.join()
    wave = 8000 * np.sin(np.arange(4800) / 48_000 * 2 * np.pi * 440)
    tone = wave.astype(np.int16).reshape(-1, 1)

    async def heard() -> bool:
        await room.capture_audio(tone, 48_000)
        return bool(alice.audio)

    await wait_until(heard, "alice hears a tone")


async def test_frames_of_another_size_arrive(house: House, workers: Workers) -> None:
    """A track is made to fit, and who watches sees the new size."""
    alice = await house.enter(workers.session_id, "alice", Role.CONTROLLER)
    room, witness = await workers.join()
    for number, (width, height) in enumerate([(320, 180), (180, 320), (320, 180)]):
        await room.fit_video(width, height)
        frame = np.full((height, width, 3), 90, np.uint8)

        def seen(frame: Frame = frame, number: int = number) -> bool:
            room.capture(frame, 1000 * number + 1)
            last = alice.frames[-1] if alice.frames else None
            return last is not None and last.frame_id > 1000 * number

        await wait_until(seen, f"frames of {width}x{height} arrive")
        assert alice.frames[-1].image.shape == frame.shape
    assert witness.lost == []


async def test_sound_of_another_format_arrives(house: House, workers: Workers) -> None:
    """A track is made to fit."""
    alice = await house.enter(workers.session_id, "alice", Role.CONTROLLER)
    room, witness = await workers.join()
    for rate_hz, channels in ((48_000, 1), (24_000, 2)):
        await room.fit_audio(rate_hz, channels)
        wave = 8000 * np.sin(np.arange(rate_hz // 10) / rate_hz * 2 * np.pi * 440)
        tone = np.repeat(wave.astype(np.int16).reshape(-1, 1), channels, axis=1)
        alice.audio.clear()

        async def heard(tone: Pcm = tone, rate_hz: int = rate_hz) -> bool:
            await room.capture_audio(tone, rate_hz)
            return len(alice.audio) > 3

        await wait_until(heard, f"alice hears {rate_hz} Hz")
    assert witness.lost == []


async def test_figures_reach_all(house: House, workers: Workers) -> None:
    """On a topic of their own."""
    alice = await house.enter(workers.session_id, "alice", Role.CONTROLLER)
    room, _ = await workers.join()

    async def told() -> bool:
        await room.send_metrics({"type": "metrics", "fps": 16.0})
        return bool(alice.metrics)

    await wait_until(told, "figures arrive")
    assert alice.metrics[0] == {"type": "metrics", "fps": 16.0}
    assert alice.statuses == []


async def test_a_file_arrives_piece_by_piece(house: House, workers: Workers) -> None:
    """With who sent it, name, kind, size and attributes."""
    alice = await house.enter(workers.session_id, "alice", Role.CONTROLLER)
    _, witness = await workers.join()
    data = bytes(range(256)) * 400
    await alice.send_file(data, "castle.png", {"asset_id": "7"})
    await wait_until(lambda: witness.files, "the file is announced")
    sender, stream = witness.files[0]
    assert (sender, stream.name, stream.mime_type) == ("alice", "castle.png", "image/png")
    assert (stream.size_bytes, stream.attributes) == (len(data), {"asset_id": "7"})
    assert b"".join([piece async for piece in stream.chunks]) == data
    stream.close()


@pytest.mark.parametrize("first", ["alice", "worker"])
async def test_the_controller_is_heard_by_a_worker_that_wants_to(
    house: House, workers: Workers, first: str
) -> None:
    """At the rate that it asked for, whoever was there first and whatever the token said."""
    if first == "alice":
        alice = await house.enter(workers.session_id, "alice", Role.CONTROLLER)
        _, witness = await workers.join(hear_hz=16_000)
    else:
        _, witness = await workers.join(hear_hz=16_000)
        alice = await house.enter(workers.session_id, "alice", Role.CONTROLLER)
    wave = 8000 * np.sin(np.arange(4800) / 48_000 * 2 * np.pi * 440)
    tone = wave.astype(np.int16).reshape(-1, 1)

    async def heard() -> bool:
        await alice.speak(tone, 48_000)
        return sum(len(pcm) for pcm in witness.sounds if pcm.any()) > 8000

    await wait_until(heard, "half a second is heard")
    loud = np.concatenate([pcm for pcm in witness.sounds if np.abs(pcm).max() > 2000])[:, 0]
    rises = np.count_nonzero((loud[:-1] < 0) & (loud[1:] >= 0))
    assert rises / (len(loud) / 16_000) == pytest.approx(440, rel=0.1)


async def test_nobody_is_heard_by_a_worker_that_doesnt_want_to(
    house: House, workers: Workers
) -> None:
    """Nor is anybody let speak then."""
    alice = await house.enter(workers.session_id, "alice", Role.CONTROLLER)
    _, witness = await workers.join()
    await alice.speak(np.full((4800, 1), 9000, np.int16), 48_000)
    await alice.say({"type": "reset"})
    await wait_until(lambda: witness.controls, "her words arrive")
    assert witness.sounds == []


async def test_a_watcher_is_noticed(house: House, workers: Workers) -> None:
    """Whoever must not miss the first frame waits for one."""
    room, _ = await workers.join()
    watched = asyncio.ensure_future(room.until_watched())
    assert not (await asyncio.wait({watched}, timeout=0.1))[0]
    await house.enter(workers.session_id, "alice", Role.CONTROLLER)
    await wait_until(watched.done, "alice watches")


async def test_nothing_leaves_while_silent(house: House, workers: Workers) -> None:
    """R2: of what is played and said during a silence nothing arrives, after it everything."""
    alice = await house.enter(workers.session_id, "alice", Role.CONTROLLER)
    room, _ = await workers.join()
    room.mute(True)
    for frame_id in range(100, 105):
        room.capture(picture(RED, RED), frame_id)
    await room.capture_audio(np.full((480, 1), 9000, np.int16), 48_000)
    await room.send_status({"type": "chunk", "index": 1})
    room.mute(False)
    await room.send_status({"type": "done"})
    await wait_until(lambda: alice.of_type("done"), "the status after the silence arrives")

    def sees_new_frame() -> bool:
        room.capture(picture(BLUE, BLUE), 200)
        return bool(alice.frames)

    await wait_until(sees_new_frame, "the frame after the silence arrives")
    assert not alice.of_type("chunk")
    assert {seen.frame_id for seen in alice.frames} == {200}
    assert not alice.audio


async def test_the_controller_is_heard_and_a_viewer_is_not(house: House, workers: Workers) -> None:
    """Messages come with sender and topic, unchanged; a viewer's token lets no data through."""
    alice = await house.enter(workers.session_id, "alice", Role.CONTROLLER)
    bob = await house.enter(workers.session_id, "bob", Role.VIEWER)
    _, witness = await workers.join()
    await bob.say({"type": "stop"})
    await alice.say(b"no json", topic="other")
    await alice.say({"type": "reset"})
    await wait_until(lambda: len(witness.controls) >= 2, "two messages arrive")
    assert witness.controls == [
        ("alice", b"no json", "other"),
        ("alice", b'{"type": "reset"}', "tf.control"),
    ]


async def test_status_reaches_all_and_is_trimmed(house: House, workers: Workers) -> None:
    """A large status arrives without its largest part and says so."""
    alice = await house.enter(workers.session_id, "alice", Role.CONTROLLER)
    bob = await house.enter(workers.session_id, "bob", Role.VIEWER)
    room, _ = await workers.join()
    await room.send_status({"type": "chunk", "data": {"big": list(range(9000)), "small": 1}})
    await wait_until(lambda: alice.statuses and bob.statuses, "both are told")
    assert alice.statuses == [{"type": "chunk", "data": {"small": 1}, "trimmed": True}]


async def test_a_newer_worker_puts_the_older_one_out(house: House, workers: Workers) -> None:
    """R1: the older worker learns it, by sight or by being removed; the newer one plays on."""
    old, old_witness = await workers.join(epoch=10)
    new, new_witness = await workers.join(epoch=11)
    await wait_until(lambda: old_witness.lost, "the older worker is out")
    assert len(old_witness.lost) == 1
    assert old_witness.lost[0] in (Lost.SUPERSEDED, Lost.REMOVED)
    assert old_witness.outranked == ([11] if old_witness.lost[0] is Lost.SUPERSEDED else [])
    old.capture(picture(RED, RED), 1)
    await old.send_status({"type": "chunk"})
    assert new.presence() == Presence(connected=True, controller=False, participants=0)
    assert new_witness.lost == []


async def test_an_older_worker_that_joins_late_doesnt_stay(house: House, workers: Workers) -> None:
    """R1: a zombie is put out, or leaves by itself, whichever is first; the newer one stays."""
    new, new_witness = await workers.join(epoch=11, attempt=2)
    _, old_witness = await workers.join(epoch=11, attempt=1)
    await wait_until(lambda: old_witness.lost, "the older worker is out")
    assert old_witness.lost[0] in (Lost.SUPERSEDED, Lost.REMOVED)
    assert old_witness.outranked == []  # the same epoch: an earlier join of its own
    assert new_witness.lost == []
    assert new.presence().connected


async def test_a_deleted_room_is_lost_once(house: House, workers: Workers) -> None:
    """The runner learns that its room is gone, and why."""
    room, witness = await workers.join()
    await house.delete(workers.session_id)
    await wait_until(lambda: witness.lost, "the loss is told")
    assert witness.lost == [Lost.ROOM_DELETED]
    assert not room.presence().connected


async def test_leaving_twice_is_fine_and_no_loss(house: House, workers: Workers) -> None:
    """After leaving, media and status are taken in silence and nothing more is told."""
    room, witness = await workers.join()
    await room.leave()
    await room.leave()
    room.capture(picture(RED, RED), 1)
    await room.capture_audio(np.ones((480, 1), np.int16), 48_000)
    await room.send_status({"type": "chunk"})
    room.mute(True)
    assert witness.lost == []
    assert not room.presence().connected


async def test_an_unreachable_server_is_unavailable(house: House, workers: Workers) -> None:
    """A join that can't be made raises, and leaving afterwards is fine."""
    room = house.unreachable()(workers.request(Witness()))
    with pytest.raises(RoomsUnavailable) as caught:
        await room.join()
    assert "eyJ" not in str(caught.value)
    await room.leave()
