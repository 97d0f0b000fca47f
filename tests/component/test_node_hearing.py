"""A whole node with a real registry: does the controller's voice reach a service that wants it?"""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np

from gpu_node.hearing import Hearing
from shared.store import Registry
from tests.support import listening_service
from tests.support.running_node import running_node
from tests.support.wait import wait_until

LISTENER = Path(listening_service.__file__)


async def test_the_controllers_voice_reaches_the_service(
    redis_url: str, registry: Registry
) -> None:
    """In order, at the rate that the service declares; a viewer's doesn't."""
    async with running_node(redis_url, registry, pipe_path=LISTENER) as node:
        session_id, alice = await node.play()
        stranger = node.venue.stage(session_id).enter("bob", None)
        for start in range(0, 3200, 160):
            await alice.speak(np.arange(start, start + 160, dtype=np.int16).reshape(-1, 1), 8000)
            await stranger.speak(np.full((160, 1), -1, np.int16), 8000)

        def heard() -> list[dict[str, object]]:
            return [chunk for chunk in node.journal.pushed if chunk["type"] == "audio"]

        def samples() -> np.ndarray[tuple[int], np.dtype[np.int16]]:
            return np.concatenate([np.zeros(0, np.int16), *(one["samples"] for one in heard())])

        await wait_until(lambda: len(samples()) == 3200, "all of it is heard")
        assert (samples() == np.arange(3200)).all()
        assert {(one["audio_sample_rate"], one["lost_s"]) for one in heard()} == {(8000, 0.0)}


async def test_a_service_that_doesnt_ask_hears_nobody(redis_url: str, registry: Registry) -> None:
    """No hook, no ear in the room."""
    async with running_node(redis_url, registry) as node:
        _, alice = await node.play()
        assert node.venue.requests[-1].hear_hz == 0
        await alice.speak(np.ones((8000, 1), np.int16), 8000)
        alice.say({"type": "reset", "seq": 1})
        await wait_until(lambda: alice.of_type("control_ack"), "a later control has come through")
        assert not [chunk for chunk in node.journal.pushed if chunk["type"] == "audio"]


async def test_a_slow_service_gets_the_newest_second_and_is_told_what_it_missed() -> None:
    """What it hasn't taken is bounded; older sound goes."""
    may_take = asyncio.Event()
    taken: list[dict[str, object]] = []

    async def push(chunk: object) -> None:
        assert isinstance(chunk, dict)
        taken.append(chunk)
        await may_take.wait()

    hearing = Hearing(1000, push)
    hearing.take(np.zeros((500, 1), np.int16))  # before it's open: gone
    hearing.open()
    hearing.take(np.full((100, 1), 1, np.int16))
    await wait_until(lambda: taken, "the first piece is being taken")
    for value in range(2, 32):
        hearing.take(np.full((100, 1), value, np.int16))
    may_take.set()
    await wait_until(lambda: len(taken) == 2, "the rest is taken")
    await hearing.aclose()
    first, second = taken
    assert (len(first["samples"]), first["lost_s"]) == (100, 0.0)  # type: ignore[arg-type]
    assert set(second["samples"]) == set(range(22, 32))  # type: ignore[call-overload]
    assert second["lost_s"] == 2.0
