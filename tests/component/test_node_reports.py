"""A whole node with a real registry: what is told of a session while it plays, and at its end?"""

from __future__ import annotations

import pytest

from gpu_node import delivery
from gpu_node.room import LinkFacts
from shared.records import SessionLimits
from shared.room_protocol import MAX_ASSET_BYTES
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.support.running_node import running_node
from tests.support.wait import wait_until


async def test_the_room_is_told_each_second_how_well_it_plays(
    redis_url: str, registry: Registry
) -> None:
    """Frame rate, chunk time, lateness, queues, lease, bitrate, round trip, the service's own."""
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play(chunk_s=0.01)
        stage = node.venue.stage(session_id)
        stage.link = LinkFacts(sent_bytes=1000, rtt_s=0.02)
        await wait_until(lambda: alice.metrics, "the first figures")
        stage.link = LinkFacts(sent_bytes=126_000, rtt_s=0.02)
        known = len(alice.metrics)
        await wait_until(lambda: len(alice.metrics) > known + 1, "later figures")
        said = next(body for body in alice.metrics[known:] if body["bitrate_bps"])
        assert (said["type"], said["session_id"]) == ("metrics", session_id)
        assert said["fps"] > 1  # type: ignore[operator]
        assert said["declared_fps"] == 50
        for spread in ("chunk_s", "chunk_wait_s", "lateness_s"):
            figures = said[spread]
            assert isinstance(figures, dict)
            assert 0 <= figures["mean"] <= figures["max"]
        assert said["chunk_s"]["max"] >= 0.01  # type: ignore[index]
        assert 0 < said["bitrate_bps"] <= 1_000_000  # type: ignore[operator]
        assert said["rtt_s"] == 0.02
        assert (said["lease_wait_s"], said["controls_waiting"]) == (0, 0)
        assert said["service"]["active"] is True  # type: ignore[index]


async def test_a_lossless_delivery_waits_for_the_acknowledgement_of_all_frames(
    redis_url: str, registry: Registry
) -> None:
    """Interim counts go on waiting; the right one completes the session."""
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play(chunks=3, delivery_mode="lossless")
        await wait_until(lambda: alice.of_type("done"), "the service is through")
        alice.say({"type": "delivery_ack", "published_frames": 4})
        assert alice.of_type("done")[0]["published_frames"] == 6
        assert not alice.of_type("closed")
        alice.say({"type": "delivery_ack", "published_frames": 6})
        record = await node.reaches(session_id, SessionState.CLOSED)
        assert record.reason is Reason.COMPLETED
        (told,) = alice.of_type("delivery")
        assert (told["published_frames"], told["acknowledged_frames"]) == (6, 6)
        assert told["complete"] is True


@pytest.mark.parametrize("acknowledged", [None, 5, 7])
async def test_a_delivery_with_another_count_is_told(
    redis_url: str, registry: Registry, monkeypatch: pytest.MonkeyPatch, acknowledged: int | None
) -> None:
    """Frames that are missing, more than there were, or silence: the session ends, and says so."""
    monkeypatch.setattr(delivery, "ACKNOWLEDGED_WITHIN_S", 0.5)
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play(chunks=3, delivery_mode="lossless")
        await wait_until(lambda: alice.of_type("done"), "the service is through")
        if acknowledged is not None:
            alice.say({"type": "delivery_ack", "published_frames": acknowledged})
        await node.reaches(session_id, SessionState.CLOSED)
        (told,) = alice.of_type("delivery")
        assert told["acknowledged_frames"] == acknowledged
        assert told["complete"] is False


async def test_the_latest_delivery_waits_for_nobody(redis_url: str, registry: Registry) -> None:
    """The default: a moment for the last picture, and no word about counts."""
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play(chunks=3)
        await node.reaches(session_id, SessionState.CLOSED)
        assert not alice.of_type("delivery")


async def test_a_word_that_is_no_delivery_mode_ends_the_session_clearly(
    redis_url: str, registry: Registry
) -> None:
    """Before anything is joined or made."""
    async with running_node(redis_url, registry) as node:
        session_id = await node.open(delivery_mode="losless")
        record = await node.reaches(session_id, SessionState.FAILED)
        assert record.reason is Reason.INVALID_CONFIG
        assert record.error == "delivery_mode must be latest or lossless, not 'losless'."


async def test_a_file_from_the_controller_reaches_the_service(
    redis_url: str, registry: Registry
) -> None:
    """Whole, with its name and attributes, and its sender is told."""
    async with running_node(redis_url, registry) as node:
        _, alice = await node.play()
        data = bytes(range(256)) * 100
        file = alice.send_file(data, "castle.png", attributes={"place": "left"})
        await wait_until(lambda: alice.of_type("asset_accepted"), "the file is taken")
        (chunk,) = [one for one in node.journal.pushed if one["type"] == "asset"]
        assert chunk["data"] == data
        assert (chunk["name"], chunk["mime_type"]) == ("castle.png", "image/png")
        assert chunk["attributes"] == {"place": "left"}
        (told,) = alice.of_type("asset_accepted")
        assert (told["stream_id"], told["bytes"]) == (file.stream_id, len(data))
        assert file.closed


async def test_a_file_that_may_not_come_is_refused_and_answered(
    redis_url: str, registry: Registry
) -> None:
    """Too large by its word or in fact, broken off, shorter than told, or from somebody else."""
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play()
        stranger = node.venue.stage(session_id).enter("bob", None)
        cases = [
            (alice.send_file(b"x", told=MAX_ASSET_BYTES + 1), "too_large"),
            (stranger.send_file(b"x"), "not_controller"),
        ]
        await wait_until(lambda: len(alice.of_type("asset_rejected")) == 2, "two refusals")
        cases.append((alice.send_file(bytes(MAX_ASSET_BYTES + 1), told=0), "too_large"))
        await wait_until(lambda: len(alice.of_type("asset_rejected")) == 3, "a third")
        broken = alice.send_file(b"x" * 99)
        broken.breaks = True
        cases.append((broken, "broken_off"))
        await wait_until(lambda: len(alice.of_type("asset_rejected")) == 4, "a fourth")
        cases.append((alice.send_file(b"x" * 99, told=100), "broken_off"))
        await wait_until(lambda: len(alice.of_type("asset_rejected")) == 5, "a fifth")
        told = {one["stream_id"]: one["code"] for one in alice.of_type("asset_rejected")}
        assert told == {file.stream_id: code for file, code in cases}
        assert all(file.closed for file, _ in cases)
        assert not [one for one in node.journal.pushed if one["type"] == "asset"]


async def test_few_files_are_under_way_at_once(redis_url: str, registry: Registry) -> None:
    """A third one is refused while two arrive; afterwards there's room again."""
    async with running_node(redis_url, registry) as node:
        _, alice = await node.play()
        held = [alice.send_file(b"x" * 10) for _ in range(2)]
        for file in held:
            file.goes_on.clear()
        third = alice.send_file(b"x")
        await wait_until(lambda: alice.of_type("asset_rejected"), "the third is refused")
        (told,) = alice.of_type("asset_rejected")
        assert (told["stream_id"], told["code"]) == (third.stream_id, "too_many")
        for file in held:
            file.goes_on.set()
        await wait_until(lambda: len(alice.of_type("asset_accepted")) == 2, "both are taken")
        alice.send_file(b"x")
        await wait_until(lambda: len(alice.of_type("asset_accepted")) == 3, "there's room again")


async def test_a_file_before_the_pipeline_session_is_refused(
    redis_url: str, registry: Registry
) -> None:
    """Nothing could take it; the sender is told when to send it."""
    async with running_node(redis_url, registry) as node:
        session_id = await node.open()
        stage = node.venue.stage(session_id)
        await wait_until(lambda: stage.workers, "the worker is there")
        alice = stage.enter("alice")
        alice.send_file(b"x")
        await wait_until(
            lambda: alice.of_type("asset_rejected") or alice.of_type("asset_accepted"), "an answer"
        )
        for told in alice.of_type("asset_rejected"):
            assert told["code"] == "not_running"


async def test_the_end_of_a_sessions_time_is_counted_down(
    redis_url: str, registry: Registry
) -> None:
    """At once for what is shorter than the first mark, then at the marks; a newcomer hears it."""
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play(limits=SessionLimits(session_s=6.0))
        await wait_until(lambda: len(alice.of_type("expiring")) == 2, "two marks", timeout_s=8)
        first, second = (body["in_s"] for body in alice.of_type("expiring"))
        assert 5.05 < first <= 6.0  # type: ignore[operator]
        assert 4.0 < second <= 5.0  # type: ignore[operator]
        again = node.venue.stage(session_id).reload(alice)
        await wait_until(lambda: again.of_type("expiring"), "told after a reload")


async def test_a_session_without_a_limit_has_no_countdown(
    redis_url: str, registry: Registry
) -> None:
    """Nothing is said of an end that won't come."""
    async with running_node(redis_url, registry) as node:
        _, alice = await node.play(limits=SessionLimits(session_s=0.0))
        await wait_until(lambda: alice.metrics, "a second has passed")
        assert not alice.of_type("expiring")


async def test_a_service_that_wants_it_hears_what_became_of_its_frames(
    redis_url: str, registry: Registry
) -> None:
    """Each frame once, numbered reports, and at the end those that will never leave."""
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play(tracks_frames=True)
        await wait_until(lambda: len(node.journal.reports) > 2, "reports come")
        journal = node.journal
        alice.say({"type": "stop"})
        await node.reaches(session_id, SessionState.CLOSED)
        assert [sequence for _, _, sequence in journal.reports] == list(
            range(1, len(journal.reports) + 1)
        )
        published = sum(frames for event, frames, _ in journal.reports if event == "published")
        abandoned = sum(frames for event, frames, _ in journal.reports if event == "abandoned")
        assert published == max(frame.frame_id for frame in alice.frames)
        assert (published + abandoned) % 2 == 0  # whole chunks


async def test_a_service_that_doesnt_want_it_isnt_told(redis_url: str, registry: Registry) -> None:
    """No hook, or one that says no."""
    async with running_node(redis_url, registry) as node:
        _, alice = await node.play()
        await wait_until(lambda: len(alice.frames) > 10, "frames play")
        assert node.journal.reports == []
