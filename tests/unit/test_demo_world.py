"""The demo world keeps the service contract, and is a world: it moves, blocks, differs, ends."""

from __future__ import annotations

import base64
import functools
import itertools
import math
import shutil
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gpu_node.services import demo_world
from gpu_node.services.contract import Bidirectional, SizesItself
from gpu_node.services.demo_world import DemoWorld, town, walk
from gpu_node.services.loader import DEMO_WORLD, load

PLACE = functools.lru_cache(demo_world._make_place)
"""A place takes a third of a second to make, so all tests share them."""
DUSK, ICE = "a town at dusk", "a palace of ice"
Chunk = dict[str, Any]


class HandMovedTime:
    """A clock that stands still between two moves."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def clock(self) -> float:
        return self.now_s


@pytest.fixture
def time() -> HandMovedTime:
    """The service's clock."""
    return HandMovedTime()


@pytest.fixture
def world(time: HandMovedTime) -> DemoWorld:
    """A service of its own, on a hand-moved clock."""
    service = DemoWorld(clock=time.clock)
    service._place = PLACE
    return service


def stream_of(world: DemoWorld, session_id: str) -> Any:
    """Return the stream as what it is, a generator that can be closed."""
    stream: AsyncIterator[Chunk] = world.pull_chunks(session_id)
    return stream


async def pull(world: DemoWorld, session_id: str, count: int) -> list[Chunk]:
    """Return the first chunks of a session."""
    async with aclosing(stream_of(world, session_id)) as stream:
        return [await anext(stream) for _ in range(count)]


async def first_frame(world: DemoWorld, **config: object) -> Any:
    """Return the first frame of a session of its own."""
    session_id = world.create_session(config)
    (chunk,) = await pull(world, session_id, 1)
    world.close_session(session_id)
    return chunk["frames"][0]


def hold(world: DemoWorld, session_id: str, *controls: str) -> None:
    """Say which controls are held now."""
    world.push_chunk(session_id, {"type": "control_state", "controls": list(controls)})


def difference(one: Any, other: Any) -> float:
    """Return by how much two pictures differ, per colour and pixel, of 255."""
    return float(np.abs(one.astype(int) - other.astype(int)).mean())


def green_pixels(frame: Any) -> int:
    """Count the pixels that are clearly green."""
    return int(((frame[..., 1] > 90) & (frame[..., 0] < frame[..., 1] / 2)).sum())


# --- the contract -------------------------------------------------------------------------------


def test_the_file_is_a_bidirectional_service_that_sizes_itself() -> None:
    """The loader recognises it by its methods."""
    service = demo_world.get_service()
    assert isinstance(service, Bidirectional)
    assert isinstance(service, SizesItself)


def test_it_is_loaded_by_its_path_alone(tmp_path: Path) -> None:
    """A copy in a folder of its own works, with the files that lie beside it."""
    for file in DEMO_WORLD.parent.glob("demo_world*.py"):
        shutil.copy(file, tmp_path)
    loaded = load(tmp_path / DEMO_WORLD.name, gpu_num=1, gpu_ids=None)
    loaded.unload()
    assert type(loaded.service) is not DemoWorld
    assert loaded.service.create_session({})


async def test_a_chunk_has_four_frames_and_says_what_they_are(world: DemoWorld) -> None:
    """Frames are 360 x 640 RGB bytes, each an array of its own, and never twice the same."""
    session_id = world.create_session({"prompt": DUSK})
    first, second = await pull(world, session_id, 2)
    frames = first["frames"] + second["frames"]
    assert {(frame.shape, frame.dtype.name) for frame in frames} == {((360, 640, 3), "uint8")}
    assert all(difference(a, b) > 0.01 for a, b in itertools.pairwise(frames))
    assert (first["type"], first["index"], second["index"]) == ("chunk", 0, 1)
    assert (first["fps"], first["num_frames"], first["resolution"]) == (16, 4, "640x360")
    assert first["applied_controls"] == []


@pytest.mark.parametrize(("asked", "given"), [(None, 4), (2, 2), (9, 4)])
def test_the_operator_may_only_lower_the_capacity(
    world: DemoWorld, asked: int | None, given: int
) -> None:
    """Four sessions is what a small machine draws in time."""
    assert world.configure_session_capacity(asked) == {"effective_capacity": given}


def test_no_more_sessions_than_the_capacity_are_taken(world: DemoWorld) -> None:
    """A closed session makes room for the next."""
    world.configure_session_capacity(2)
    first, _ = world.create_session({}), world.create_session({})
    with pytest.raises(RuntimeError, match="all 2 places"):
        world.create_session({})
    world.close_session(first)
    assert world.has_session(world.create_session({}))


# --- time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fps", [4, 16, 30])
async def test_a_chunk_says_at_which_rate_it_was_made(world: DemoWorld, fps: int) -> None:
    """Its four frames last four intervals, and its sound as long."""
    session_id = world.create_session({"prompt": DUSK, "fps": fps})
    (chunk,) = await pull(world, session_id, 1)
    assert chunk["fps"] == fps
    assert len(base64.b64decode(chunk["audio_b64"])) // 4 == 4 * 48_000 // fps


def test_all_players_take_turns_with_the_brush(world: DemoWorld) -> None:
    """One chunk each, as the node's lease is told."""
    assert (world.execution_lease, world.execution_lease_max_chunks) == ("node", 1)


# --- controls -----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["w", "KeyS", "a", "d", "ArrowLeft", "l", "up", "k", "forward"])
async def test_a_held_key_changes_the_next_chunk(world: DemoWorld, key: str) -> None:
    """The picture answers at once, and the chunk names the control as the client did."""
    held, idle = world.create_session({"prompt": DUSK}), world.create_session({"prompt": DUSK})
    hold(world, held, key)
    (moved,), (still,) = await pull(world, held, 1), await pull(world, idle, 1)
    assert moved["applied_controls"] == [key]
    assert difference(moved["frames"][-1], still["frames"][-1]) > 2


async def test_control_state_is_the_truth(world: DemoWorld) -> None:
    """What the newest state doesn't name isn't held."""
    session_id = world.create_session({"prompt": DUSK})
    async with aclosing(stream_of(world, session_id)) as stream:
        applied = []
        for controls in (["w", "j"], ["j"], []):
            hold(world, session_id, *controls)
            applied.append((await anext(stream))["applied_controls"])
    assert applied == [["j", "w"], ["j"], []]


async def test_keys_can_be_pressed_and_released_one_by_one(world: DemoWorld) -> None:
    """Both spellings of the message count."""
    session_id = world.create_session({"prompt": DUSK})
    async with aclosing(stream_of(world, session_id)) as stream:
        world.push_chunk(session_id, {"type": "control", "control": "w", "event": "press"})
        world.push_chunk(session_id, {"type": "control", "key": "d", "action": "press"})
        assert (await anext(stream))["applied_controls"] == ["d", "w"]
        world.push_chunk(session_id, {"type": "control", "control": "w", "event": "release"})
        assert (await anext(stream))["applied_controls"] == ["d"]


async def test_a_held_key_expires_after_three_seconds_of_silence(
    world: DemoWorld, time: HandMovedTime
) -> None:
    """A page that is gone doesn't walk on."""
    session_id = world.create_session({"prompt": DUSK, "fps": 4})
    hold(world, session_id, "w")
    async with aclosing(stream_of(world, session_id)) as stream:
        for waited_s, applied in ((0.0, ["w"]), (2.9, ["w"]), (3.1, [])):
            time.now_s = 100.0 + waited_s
            assert (await anext(stream))["applied_controls"] == applied


async def test_reset_returns_to_the_start(world: DemoWorld) -> None:
    """After a walk the first chunk comes again, pixel by pixel."""
    session_id = world.create_session({"prompt": DUSK})
    async with aclosing(stream_of(world, session_id)) as stream:
        start = await anext(stream)
        hold(world, session_id, "w", "l")
        walked = await anext(stream)
        hold(world, session_id)
        world.push_chunk(session_id, {"type": "reset"})
        again = await anext(stream)
    assert difference(start["frames"][-1], walked["frames"][-1]) > 2
    assert np.array_equal(start["frames"], again["frames"])


async def test_sessions_share_nothing(world: DemoWorld) -> None:
    """One player's walk leaves another's picture alone."""
    alone = world.create_session({"prompt": DUSK})
    expected = await pull(world, alone, 3)
    idle, busy = world.create_session({"prompt": DUSK}), world.create_session({"prompt": DUSK})
    hold(world, busy, "w", "l")
    async with aclosing(stream_of(world, idle)) as one, aclosing(stream_of(world, busy)) as other:
        for chunk in expected:
            await anext(other)
            assert np.array_equal((await anext(one))["frames"], chunk["frames"])


# --- the end ------------------------------------------------------------------------------------


async def test_stop_ends_the_stream_with_done(world: DemoWorld) -> None:
    """The chunk that was asked for is the last one."""
    session_id = world.create_session({"prompt": DUSK})
    seen = []
    async for chunk in world.pull_chunks(session_id):
        seen.append(chunk["type"])
        world.push_chunk(session_id, {"type": "stop"})
    assert seen == ["chunk", "done"]


async def test_closing_a_session_ends_its_stream(world: DemoWorld) -> None:
    """So does stopping the service."""
    closed, stopped = world.create_session({"prompt": DUSK}), world.create_session({"prompt": DUSK})
    async for _ in world.pull_chunks(closed):
        world.close_session(closed)
    async for _ in world.pull_chunks(stopped):
        world.stop()
    assert not world.has_session(closed)
    assert not world.has_session(stopped)


async def test_ids_that_are_closed_or_unknown_are_tolerated(world: DemoWorld) -> None:
    """Late messages go nowhere, late streams are empty."""
    closed = world.create_session({})
    world.close_session(closed)
    for session_id in (closed, "never heard of"):
        hold(world, session_id, "w")
        world.close_session(session_id)
        assert [chunk async for chunk in world.pull_chunks(session_id)] == []


# --- the place ----------------------------------------------------------------------------------


async def test_the_prompt_makes_the_world(world: DemoWorld) -> None:
    """The same prompt shows the same picture, another one another; made anew as well as kept."""
    one, again, other = [await first_frame(world, prompt=prompt) for prompt in (DUSK, DUSK, ICE)]
    assert np.array_equal(one, again)
    assert difference(one, other) > 5
    anew = demo_world._make_place(DUSK, None)
    assert np.array_equal(anew.atlas, PLACE(DUSK, None).atlas)
    assert np.array_equal(anew.grid, PLACE(DUSK, None).grid)


async def test_a_new_prompt_moves_the_session_to_its_world(world: DemoWorld) -> None:
    """The next chunk is the first one of the other world."""
    session_id = world.create_session({"prompt": DUSK})
    async with aclosing(stream_of(world, session_id)) as stream:
        await anext(stream)
        world.push_chunk(session_id, {"type": "prompt", "prompt": ICE})
        chunk = await anext(stream)
    assert np.array_equal(chunk["frames"][0], await first_frame(world, prompt=ICE))


@pytest.mark.parametrize("prompt", ["", "one", "two", "three", "four", "five", "six"])
def test_each_free_cell_of_a_town_can_be_reached(prompt: str) -> None:
    """So wherever a player starts, nothing is locked away."""
    grid = town.plan_town(np.random.default_rng(list(prompt.encode())), with_picture=True)
    free = {(int(y), int(x)) for y, x in np.argwhere(grid == 0)}
    reached, edge = set(), [min(free)]
    while edge:
        y, x = edge.pop()
        if (y, x) in free and (y, x) not in reached:
            reached.add((y, x))
            edge += [(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)]
    assert reached == free


@pytest.mark.parametrize("fps", [1, 16, 30])
def test_walls_block(fps: int) -> None:
    """Whoever walks and turns for half a minute is never inside a wall, and comes somewhere."""
    walker = walk.Walker(PLACE(DUSK, None))
    visited = set()
    for frame in range(30 * fps):
        walker.step(["w", "l"] if frame // fps % 5 == 0 else ["w"], 1 / fps)
        assert walker._walls_at(walker.x, walker.y) == set()
        visited.add((int(walker.y), int(walker.x)))
    assert len(visited) > 10


def test_one_slides_along_a_wall() -> None:
    """Who walks into the border at an angle goes on beside it."""
    walker = walk.Walker(PLACE(DUSK, None))
    walker.x, walker.y, walker.angle = 1.5, 1.5, -0.6
    for _ in range(16):
        walker.step(["w"], 1 / 16)
    assert walker.y == pytest.approx(1.3, abs=0.1)
    assert walker.x > 2.5


def test_a_portal_leads_to_the_next_one() -> None:
    """Who walks into one stands before another, with its back to it."""
    place = PLACE(DUSK, None)
    walker = walk.Walker(place)
    walker.x, walker.y, out = (float(value) for value in place.exits[0])
    walker.angle = out + math.pi
    while math.hypot(walker.x - place.exits[0][0], walker.y - place.exits[0][1]) < 1:
        walker.step(["w"], 1 / 16)
    assert (walker.x, walker.y, walker.angle) == pytest.approx(tuple(place.exits[1]))


async def test_an_image_hangs_on_the_walls(world: DemoWorld, tmp_path: Path) -> None:
    """One sees it from the first frame on, however it was given."""
    path = tmp_path / "green.png"
    Image.new("RGB", (80, 60), (0, 255, 0)).save(path)
    url = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
    bare = await first_frame(world, prompt=DUSK)
    by_url = await first_frame(world, prompt=DUSK, image=url)
    by_path = await first_frame(world, prompt=DUSK, image_path=str(path))
    assert green_pixels(bare) == 0
    assert green_pixels(by_url) > 2000
    assert np.array_equal(by_url, by_path)
