"""A whole node with a real registry: what of a service's media reaches the people in the room?"""

from __future__ import annotations

import numpy as np

from shared.store import Registry
from tests.support.running_node import running_node
from tests.support.wait import wait_until


async def test_sound_reaches_the_room_whole_and_in_order(
    redis_url: str, registry: Registry
) -> None:
    """Each chunk's samples once, in its format."""
    async with running_node(redis_url, registry) as node:
        _, alice = await node.play(sound_hz=8000)
        await wait_until(lambda: len(alice.of_type("chunk")) > 10, "ten chunks were played")
        assert {rate_hz for rate_hz, _ in alice.audio} == {8000}
        heard = np.concatenate([pcm for _, pcm in alice.audio])[:, 0]
        heard = heard[heard > 0]  # silence stands for the chunks that came late
        whole = [np.count_nonzero(heard == value) for value in range(int(heard[0]), 10)]
        assert set(whole[1:]) == {8000 * 2 // 50}
        assert (np.diff(heard) >= 0).all()


async def test_a_session_plays_on_after_its_formats_change(
    redis_url: str, registry: Registry
) -> None:
    """Another picture size, another sound rate: the tracks are made to fit, nothing ends."""
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play(sound_hz=16_000, change_at=5)
        await wait_until(
            lambda: {frame.image.shape for frame in alice.frames} == {(16, 16, 3), (32, 24, 3)},
            "both sizes were seen",
        )
        await wait_until(
            lambda: {rate_hz for rate_hz, _ in alice.audio} == {16_000, 8000},
            "both rates were heard",
        )
        fitted = node.venue.stage(session_id).fitted
        assert [one for one in fitted if one[0] == "video"] == [
            ("video", 16, 16),
            ("video", 24, 32),
        ]
        assert [one for one in fitted if one[0] == "audio"] == [
            ("audio", 16_000, 1),
            ("audio", 8000, 1),
        ]


async def test_what_is_said_of_a_chunk_tells_how_it_was_played(
    redis_url: str, registry: Registry
) -> None:
    """The reference's ``transport_measurement``, beside the service's own words."""
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play()
        await wait_until(lambda: len(alice.of_type("chunk")) > 3, "chunks are told")
        said = next(body for body in alice.of_type("chunk") if body["index"] is not None)
        assert said["session_id"] == session_id
        assert said["error"] is None
        assert isinstance(said["timestamp"], float)
        data = said["data"]
        assert isinstance(data, dict)
        assert "frames" not in data
        measured = data["transport_measurement"]
        assert set(measured) == {
            "decoded_ready_at",
            "publish_started_at",
            "publish_finished_at",
            "publish_seconds",
            "frames",
            "pacing",
        }
        assert (measured["frames"], measured["pacing"]) == (2, "realtime")
        assert (
            measured["decoded_ready_at"]
            <= measured["publish_started_at"]
            <= measured["publish_finished_at"]
        )
