"""Does a neural world play: alone, beside others, after others, and the way its keys say?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import torch

from gpu_node.capacity import GIB, NoRoom, Snapshot
from gpu_node.lease.turns import turns_for
from gpu_node.orchestrator import Call
from gpu_node.services import torch_world, torch_world_model
from gpu_node.services.torch_world import TorchWorld
from shared.errors import StageFailed
from tests.support.wait import scaled_s

Frames = list[np.ndarray[Any, Any]]


@contextlib.asynccontextmanager
async def world(slots: int = 4, device: str | None = None) -> AsyncIterator[TorchWorld]:
    """The service itself, with a clock at which keys never run out."""
    service = TorchWorld(device, clock=lambda: 0.0)
    service.start()
    service.configure_session_capacity(slots)
    async with asyncio.timeout(scaled_s(30)):
        yield service
    await asyncio.to_thread(service.stop)


async def chunks(service: TorchWorld, session: str, count: int) -> list[dict[str, Any]]:
    """The next *count* chunks of a session that nobody has played yet."""
    taken = []
    async for chunk in service.pull_chunks(session):
        taken.append(chunk)
        if len(taken) == count:
            break
    return taken


async def frames(service: TorchWorld, prompt: str = "a forest", *keys: str) -> Frames:
    """What a whole session of three chunks shows."""
    session = service.create_session({"prompt": prompt})
    service.push_chunk(session, {"type": "control_state", "controls": list(keys)})
    made = await chunks(service, session, 3)
    await asyncio.to_thread(service.close_session, session)
    return [frame for chunk in made for frame in chunk["frames"]]


def same(one: Frames, other: Frames) -> bool:
    """Whether two sessions showed the same, pixel by pixel."""
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


async def test_sessions_never_see_each_other() -> None:
    """What one shows is the same alone, beside three others, and in a slot that others had."""
    async with world() as service:
        alone = await frames(service)
        crowd = await asyncio.gather(
            frames(service, "a desert"), frames(service), frames(service, "ice"), frames(service)
        )
        again = await frames(service)
    assert same(alone, crowd[1])
    assert same(alone, crowd[3])
    assert same(alone, again)
    assert not same(alone, crowd[0])


@pytest.mark.parametrize(("key", "shift"), [("d", -1), ("ArrowLeft", 1)])
async def test_a_key_moves_the_picture(key: str, shift: int) -> None:
    """Going right, everything moves to the left, and the other way round."""
    async with world() as service:
        seen = await frames(service, "a forest", key)
        still = await frames(service)
    early, late = (frame.astype(float).mean(axis=2) for frame in seen[-2:])
    offsets = range(-6, 7)
    middle = slice(12, -12)
    errors = [np.abs(np.roll(early, by, axis=1) - late)[:, middle].mean() for by in offsets]
    assert np.sign(offsets[int(np.argmin(errors))]) == shift
    assert not same(seen, still)


async def test_a_key_counts_in_the_next_chunk_that_begins() -> None:
    """And is named in it, with the time from key to picture in the figures."""
    async with world() as service:
        session = service.create_session({})
        pulled = service.pull_chunks(session)
        before = await anext(pulled)
        service.push_chunk(session, {"type": "control", "control": "w", "event": "press"})
        after = await anext(pulled)
        service.push_chunk(session, {"type": "control", "control": "w", "event": "release"})
        released = await anext(pulled)
        figures = service.runtime_metrics(session)
        await asyncio.to_thread(service.close_session, session)
    applied = [chunk["applied_controls"] for chunk in (before, after, released)]
    assert applied == [[], ["w"], []]
    assert figures["control_to_output_seconds"]["count"] == 3
    assert figures["real_time_factor"] > 0


async def test_a_prompt_changes_the_picture_and_a_reset_begins_anew() -> None:
    """Prompts are encoded one chunk ahead, so the second chunk after it shows it."""
    async with world() as service:
        session = service.create_session({"prompt": "a forest"})
        pulled = service.pull_chunks(session)
        first = await anext(pulled)
        service.push_chunk(session, {"type": "reset"})
        assert same((await anext(pulled))["frames"], first["frames"])
        service.push_chunk(session, {"type": "prompt", "prompt": "a desert"})
        await anext(pulled)
        service.push_chunk(session, {"type": "reset"})
        changed = await anext(pulled)
        await asyncio.to_thread(service.close_session, session)
        desert = await frames(service, "a desert")
    assert not same(changed["frames"], first["frames"])
    assert same(changed["frames"], desert[:4])


async def test_a_stop_ends_the_stream_even_while_nobody_asks_for_more() -> None:
    """With a last word, and the slot comes back clean."""
    async with world(slots=1) as service:
        session = service.create_session({})
        pulled = service.pull_chunks(session)
        await anext(pulled)
        with pytest.raises(RuntimeError, match="the world is full: all 1 slots are taken"):
            service.create_session({})
        service.push_chunk(session, {"type": "stop"})
        assert [chunk["type"] async for chunk in pulled] == ["done"]
        assert not service.has_session("never-was")
        await asyncio.to_thread(service.close_session, session)
        (cache,) = (place.storage for place in service._slots._places)
        assert not any(kept.any() for kept in (cache.hidden, cache.ring, cache.pose, cache.frame))
        assert service.create_session({})


async def test_fifty_sessions_come_and_go_in_the_same_memory() -> None:
    """The slots' tensors are the ones of before, and nothing of a session is left."""
    async with world(slots=2) as service:
        pool = service._slots
        before = [place.storage.hidden.data_ptr() for place in pool._places]
        for turn in range(50):
            session = service.create_session({"prompt": str(turn)})
            await chunks(service, session, 1)
            await asyncio.to_thread(service.close_session, session)
        assert [place.storage.hidden.data_ptr() for place in service._slots._places] == before
        assert pool.report() == {"capacity": 2, "free": 2, "taken": 0, "quarantined": []}
        figures = service.runtime_metrics()
        assert figures["active_sessions"] == 0
        assert not any(figures["pipeline"]["diagnostics"].values())
        assert figures["pipeline"]["artifacts_held"] == 0
        assert not service._generate.caches


def card(free_bytes: int) -> Snapshot:
    """A GPU as the probe sees it, with nothing cached and no peak."""
    return Snapshot(
        device_index=0,
        device_name="card",
        process_id=1,
        role="denoise",
        total_bytes=24 * GIB,
        free_bytes=free_bytes,
        allocated_bytes=0,
        reserved_bytes=0,
        peak_allocated_bytes=0,
        peak_reserved_bytes=0,
    )


async def test_as_many_slots_are_allocated_as_the_memory_holds() -> None:
    """The operator's number only lowers that; what a slot takes is what its tensors take."""
    async with world(slots=1) as service:
        slot_bytes = torch_world_model.bytes_of(service._slots._places[0].storage)
        service._memory = (card(2 * GIB + 5 * slot_bytes),)
        told = service.configure_session_capacity(None)
        assert (told["effective_capacity"], told["limiting_device"]) == (5, 0)
        assert told["pool"] == {"slots": 5, "bytes_per_slot": slot_bytes}
        assert service._slots.capacity == 5
        assert service.configure_session_capacity(3)["effective_capacity"] == 3
        assert service.configure_session_capacity(9)["effective_capacity"] == 5
        assert service.session_capacity_profile() == {**told, "configured_limit": 9}
        service._memory = (card(2 * GIB),)
        with pytest.raises(NoRoom, match="not one session fits on device 0"):
            service.configure_session_capacity(None)


async def test_without_a_gpu_the_operator_says_how_many() -> None:
    """And one is what there is otherwise."""
    async with world(slots=1, device="cpu") as service:
        assert service.configure_session_capacity(3)["effective_capacity"] == 3
        told = service.configure_session_capacity(None)
        assert (told["effective_capacity"], told["devices"]) == (1, [])


async def test_a_slot_that_could_not_be_cleaned_is_given_to_nobody() -> None:
    """The error leaves close_session, so the node knows; the others play on."""
    async with world(slots=2) as service:
        session = service.create_session({})
        await chunks(service, session, 1)

        def stubborn(session: str) -> None:
            raise RuntimeError("the cache is still in use")

        service._generate.close = stubborn  # type: ignore[method-assign]
        with pytest.raises(StageFailed, match="the cache is still in use"):
            await asyncio.to_thread(service.close_session, session)
        del service._generate.close
        (lost,) = service.runtime_metrics()["slots"]["quarantined"]
        assert lost["owner"] == session
        assert same(await frames(service), await frames(service))
        other = service.create_session({})
        with pytest.raises(RuntimeError, match="is full"):
            service.create_session({})
        await asyncio.to_thread(service.close_session, other)


async def test_slots_cannot_change_while_somebody_plays() -> None:
    """Their caches would be pulled from under them."""
    async with world() as service:
        session = service.create_session({})
        with pytest.raises(RuntimeError, match="can't change while sessions live"):
            service.configure_session_capacity(2)
        await asyncio.to_thread(service.close_session, session)
        assert service.configure_session_capacity(2)["effective_capacity"] == 2


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"colour": "red"}, "unknown config key colour"),
        ({"prompt": 7}, "prompt must be text, not int"),
        ({"fps": 0}, "fps must be a number from 1 to 30, not 0"),
    ],
)
async def test_a_config_that_cannot_be_is_told_to_the_user(
    config: dict[str, Any], words: str
) -> None:
    """And takes no slot."""
    async with world(slots=1) as service:
        with pytest.raises(ValueError, match=words):
            service.create_session(config)
        assert service.create_session({})


@pytest.mark.parametrize(("above", "asked"), [(1e6, False), (0.0, True)])
async def test_the_lease_is_asked_for_when_one_session_needs_most_of_the_device(
    above: float, asked: bool
) -> None:
    """Measured at the start; two that are quick enough play side by side instead."""
    service = TorchWorld()
    service.turns_above = above
    service.start()
    turns = turns_for(service, "world")
    await asyncio.to_thread(service.stop)
    assert (turns is not None) is asked
    assert turns is None or not turns.need_control


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
async def test_the_gpu_shows_what_the_processor_shows() -> None:
    """The same weights; rounding may differ in the last digits."""
    async with world(device="cpu") as service:
        here = await frames(service)
    async with world(device="cuda") as service:
        there = await frames(service)
        call = Call(session="x", sequence=0, inputs={"prompt": "a forest"})
        condition = torch_world.Encode(service._weights).run(call)["condition"]
        assert condition.is_cuda
    gaps = [np.abs(a.astype(int) - b.astype(int)).mean() for a, b in zip(here, there, strict=True)]
    assert max(gaps) < 2
