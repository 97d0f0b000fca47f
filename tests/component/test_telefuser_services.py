"""Files that were written for the reference, by its contract alone, run here as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpu_node.services.host import ServiceHost
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.services.telefuser_hooks import EveryHook
from tests.support.running_node import RunningNode, running_node
from tests.support.wait import wait_until

SERVICES = Path(__file__).parent.parent / "services"
PLAIN_AND_HOOKED = pytest.mark.parametrize("hooks", ["", "_hooked"], ids=["plain", "hooked"])


def asked_of(node: RunningNode) -> set[str]:
    """Which hooks the node has used."""
    host = node.agent.service.host
    assert isinstance(host, ServiceHost)
    service: object = host._loaded.service
    film = getattr(service, "_service", service)
    return set(film.asked) if isinstance(film, EveryHook) else set()


@PLAIN_AND_HOOKED
async def test_a_film_replayed_with_pyav_and_cv2_plays_to_its_end(
    redis_url: str, registry: Registry, hooks: str
) -> None:
    """All pictures in order, its sound, its metadata; then the next person sees it."""
    path = SERVICES / f"telefuser_replay{hooks}.py"
    async with running_node(
        redis_url, registry, pipe_path=path, skip_validation=False, validation_level="strict"
    ) as node:
        for name in ("alice", "bob"):
            session_id, person = await node.play(identity=name, prompt_text="unused")
            ended = await node.reaches(session_id, SessionState.CLOSED)
            assert (ended.reason, ended.error) == (Reason.COMPLETED, None)
            assert len(person.frames) == 24
            bar = [seen.image[96, :, 2].astype(int).sum() for seen in person.frames]
            assert bar[0] < bar[12] < bar[23]
            assert {rate for rate, _ in person.audio} == {48000}
            heard = sum(np.count_nonzero(pcm) for _, pcm in person.audio)
            assert 47_000 <= heard <= 48_000  # a second; a slow machine puts silence between
            chunks = [body["data"] for body in person.of_type("chunk") if body["index"] is not None]
            assert [chunk["num_frames"] for chunk in chunks] == [6, 6, 6, 6]  # type: ignore[index]
        if hooks:
            assert "configure_session_capacity" not in asked_of(node)  # of bidirectional ones only


@PLAIN_AND_HOOKED
async def test_an_overlay_draws_what_its_person_holds(
    redis_url: str, registry: Registry, hooks: str
) -> None:
    """Both kinds of control; a late one does nothing; each of two people has arrows of its own."""
    path = SERVICES / f"telefuser_overlay{hooks}.py"
    async with running_node(
        redis_url,
        registry,
        pipe_path=path,
        skip_validation=False,
        validation_level="strict",
        max_sessions_per_worker=2,
    ) as node:
        first_id, alice = await node.play(identity="alice")
        _, bob = await node.play(identity="bob")
        alice.say({"type": "control_state", "controls": ["ArrowUp"]})
        bob.say({"type": "control", "control": "d", "event": "press"})
        for person, above, right in ((alice, True, False), (bob, False, True)):

            def is_drawn(person: object = person, above: bool = above, right: bool = right) -> bool:
                image = person.frames[-1].image  # type: ignore[attr-defined]
                return (is_yellow(image[60, 208]), is_yellow(image[120, 270])) == (above, right)

            await wait_until(is_drawn, "the arrow is in the picture", timeout_s=10)
        alice.say({"type": "stop"})
        ended = await node.reaches(first_id, SessionState.CLOSED)
        assert ended.reason is Reason.CLIENT_STOP
        seen = len(bob.frames)
        await wait_until(lambda: len(bob.frames) > seen + 4, "the other one plays on")
        if hooks:
            assert asked_of(node) >= {"configure_session_capacity", "has_session"}


def is_yellow(pixel: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bool:
    """Whether it's part of an arrow."""
    blue_or_red, green, other = (int(value) for value in pixel)
    return green > 150 and max(blue_or_red, other) > 180
