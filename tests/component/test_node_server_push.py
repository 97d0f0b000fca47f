"""A whole node with a real registry plays a film: a server push service, watched from the room."""

from __future__ import annotations

from pathlib import Path

from gpu_node.services import video_replay
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.support.running_node import running_node
from tests.support.wait import wait_until

FILM = Path(video_replay.__file__)


async def test_a_film_is_stopped_from_the_room_and_the_next_one_begins(
    redis_url: str, registry: Registry
) -> None:
    """Its one slot is free again once ``serve`` has let go."""
    async with running_node(redis_url, registry, pipe_path=FILM) as node:
        for _ in range(2):
            session_id, alice = await node.play()
            alice.say({"type": "stop", "seq": 1})
            record = await node.reaches(session_id, SessionState.CLOSED)
            assert record.reason is Reason.CLIENT_STOP
            assert alice.of_type("control_ack")
            assert [body["reason"] for body in alice.of_type("closed")] == ["client_stop"]


async def test_a_films_sound_and_pictures_leave_together(
    redis_url: str, registry: Registry
) -> None:
    """Of each second that is played as many samples leave as belong to its pictures."""
    async with running_node(redis_url, registry, pipe_path=FILM) as node:
        _, alice = await node.play()
        await wait_until(lambda: len(alice.frames) > 24, "a second of pictures", timeout_s=10)
        heard = sum(len(pcm) / rate_hz for rate_hz, pcm in alice.audio)
        seen = len(alice.frames) / _fps(alice.of_type("chunk"))
        assert -0.1 < heard - seen < 0.5  # ahead by what the media server's queue holds, or paused


def _fps(said: list[dict[str, object]]) -> float:
    data = next(body["data"] for body in said if body["index"] is not None)
    assert isinstance(data, dict)
    return float(data["fps"])
