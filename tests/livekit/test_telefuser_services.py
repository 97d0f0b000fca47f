"""A file that was written for the reference, a whole node and a real media server."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from shared.states import SessionState
from shared.store import Registry
from tests.livekit.test_node import LONG_S, Visit, media, visit
from tests.support.livekit_server import LiveKitServer
from tests.support.node_process import node_process
from tests.support.wait import wait_until

__all__ = ["visit"]

SERVICES = Path(__file__).parent.parent / "services"


async def test_a_film_for_the_reference_is_seen_and_heard_and_stopped(
    livekit_server: LiveKitServer,
    redis_url: str,
    registry: Registry,
    tmp_path: Path,
    visit: Visit,
) -> None:
    """Server push with PyAV and cv2, every hook of the reference present; its end is told."""
    options = media(livekit_server, PIPE_PATH=str(SERVICES / "telefuser_replay_hooked.py"))
    async with node_process(redis_url, registry, tmp_path, **options):
        await visit.open()
        alice = await visit.enter()
        await wait_until(lambda: alice.frames, "frames", timeout_s=LONG_S)
        assert alice.frames[0].image.shape == (192, 320, 3)
        await wait_until(lambda: alice.of_type("done"), "the film is over", timeout_s=LONG_S)
        (done,) = alice.of_type("done")
        assert (done["total_chunks"], done["published_frames"]) == (4, 24)
        assert "telefuser-audio" in alice.tracks

        async def ended() -> bool:
            return await visit.state() is SessionState.CLOSED

        await wait_until(ended, "the session is over", timeout_s=10)


async def test_an_overlay_for_the_reference_answers_to_its_person(
    livekit_server: LiveKitServer,
    redis_url: str,
    registry: Registry,
    tmp_path: Path,
    visit: Visit,
) -> None:
    """Bidirectional without a hook: a control shows in the picture."""
    options = media(livekit_server, PIPE_PATH=str(SERVICES / "telefuser_overlay.py"))
    async with node_process(redis_url, registry, tmp_path, **options):
        await visit.open()
        alice = await visit.enter()
        await wait_until(lambda: len(alice.frames) > 3, "frames", timeout_s=LONG_S)
        middle = np.s_[100:140, 180:236]
        still = alice.frames[-1].image[middle].astype(int).mean()
        await alice.say({"type": "control_state", "controls": ["w", "a", "s", "d"]})
        await wait_until(
            lambda: alice.frames[-1].image[middle].astype(int).mean() > still + 30,
            "the arrows are drawn",
            timeout_s=10,
        )
