"""Worlds that another server computes, against small servers that follow the public protocols."""

from __future__ import annotations

import base64
import contextlib
import io
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gpu_node.media import ChunkReader
from gpu_node.services import sglang_world, vllm_omni_world
from gpu_node.services.remote_link import Remote
from gpu_node.services.remote_world import RemoteWorld
from shared.embedded.ports import free_port
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.support.manual_clock import ManualClock
from tests.support.remote_servers import (
    BRIGHT,
    Habits,
    SGLangServer,
    VllmOmniServer,
    WorldServer,
)
from tests.support.running_node import running_node
from tests.support.wait import scaled_s, wait_until

Chunk = dict[str, Any]
Make = Callable[..., RemoteWorld]
SERVERS: list[tuple[type[WorldServer], Make]] = [
    (SGLangServer, sglang_world.sglang_world),
    (VllmOmniServer, vllm_omni_world.vllm_omni_world),
]
BOTH = pytest.mark.parametrize(("server_kind", "make"), SERVERS, ids=["sglang", "vllm_omni"])
UP = {"type": "control_state", "controls": ["ArrowUp"]}
NIGHT = {"type": "prompt", "prompt": "a night in spring"}
SECRET = "s3cret-t0ken"


def remote(server: WorldServer, **options: Any) -> Remote:
    """A server's address, with limits that a slow machine keeps."""
    limits: dict[str, Any] = {"connect_timeout_s": scaled_s(10), "receive_buffer_bytes": 32 * 1024}
    return Remote(url=server.url, **{**limits, **options})


@contextlib.asynccontextmanager
async def playing(world: RemoteWorld, **config: object) -> AsyncIterator[tuple[str, Any]]:
    """A session and its chunks, closed at the end as a node does it."""
    session = world.create_session(config)
    async with contextlib.aclosing(world.pull_chunks(session)) as chunks:  # type: ignore[type-var]
        yield session, chunks
    world.close_session(session)


async def shown(chunks: Any) -> Chunk:
    """Return the next chunk that has pictures or says that it's over."""
    while (chunk := await anext(chunks))["type"] == "status":
        pass
    return dict(chunk)


async def to_the_end(chunks: Any) -> list[Chunk]:
    """Return all chunks."""
    return [chunk async for chunk in chunks]


def shade(chunk: Chunk) -> str:
    """What the last picture of a chunk shows."""
    return "bright" if np.mean(chunk["frames"][-1]) > BRIGHT / 2 else "dark"


async def becomes(chunks: Any, wanted: str) -> None:
    """Take chunks until they look so."""
    while shade(await shown(chunks)) != wanted:
        pass


def png() -> str:
    """A small picture as a data URL."""
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4)).save(buffer, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


@pytest.mark.parametrize("size", [(32, 32), (160, 144)], ids=["one_message", "two_messages"])
@pytest.mark.parametrize("kind", ["jpeg", "webp", "raw"])
async def test_sglangs_pictures_are_played_in_each_form(kind: str, size: tuple[int, int]) -> None:
    """All chunks that were asked for, at the rate that was asked for; then it's done."""
    async with SGLangServer(Habits(size=size)) as server:
        fields = {"realtime_output_format": kind, "max_chunks": 2, "fps": 20}
        world = sglang_world.sglang_world(remote(server), init=fields)
        async with playing(world, prompt="a hill", seed=7, image=png()) as (_, chunks):
            first, second, last = await to_the_end(chunks)
    for chunk in (first, second):
        read = ChunkReader(16.0).read(chunk)
        assert (len(read.frames), read.fps) == (4, 20.0)
        assert read.frames[0].shape == (size[1], size[0], 3)
        assert abs(float(read.frames[0].mean()) - BRIGHT) < 4
    assert (second["index"], second["remote"]) == (1, {"chunk_index": 1})
    assert (last["type"], last["index"]) == ("done", 2)
    begun = server.visits[0].first
    assert (begun["prompt"], begun["seed"], begun["num_frames"]) == ("a hill", 7, 9)
    assert begun["first_frame"].startswith(b"\x89PNG")


async def test_frames_between_frames_make_the_rate_higher() -> None:
    """An interpolating server sends more pictures for the same time."""
    async with SGLangServer() as server:
        fields = {"enable_frame_interpolation": True, "fps": 12}
        world = sglang_world.sglang_world(remote(server), init=fields)
        async with playing(world) as (_, chunks):
            assert (await shown(chunks))["fps"] == 24.0


async def test_vllm_omnis_film_is_played_to_its_end() -> None:
    """Each picture once, at the server's rate; the picture to begin with goes as a data URL."""
    async with VllmOmniServer() as server:
        world = vllm_omni_world.vllm_omni_world(remote(server), start={"num_frames": 12, "fps": 24})
        async with playing(world, prompt="a hill", image=png()) as (_, chunks):
            *film, last = await to_the_end(chunks)
    read = [ChunkReader(16.0).read(chunk) for chunk in film]
    assert sum(len(chunk.frames) for chunk in read) == 12
    assert {chunk.fps for chunk in read} == {24.0}
    assert last["type"] == "done"
    begun = server.visits[0].first
    assert begun["image_reference"]["image_url"] == png()


async def test_held_keys_arrive_at_sglang_as_actions() -> None:
    """The newest state, once; each key once; let go when they aren't named any more."""
    clock = ManualClock()
    async with SGLangServer() as server:
        world = sglang_world.sglang_world(remote(server))
        world._clock = clock.monotonic_s
        async with playing(world) as (session, chunks):
            await becomes(chunks, "bright")
            world.push_chunk(session, {"type": "control", "control": "d", "event": "press"})
            world.push_chunk(session, {"type": "control", "control": "d", "event": "release"})
            world.push_chunk(session, {"type": "control_state", "controls": ["KeyW", "ArrowLeft"]})
            await becomes(chunks, "dark")
            clock.move(4.0)
            world.push_chunk(session, {"type": "control", "control": "x", "event": "press"})
            await becomes(chunks, "bright")
        events = server.visits[0].events
    said = [event["payload"]["transitions"][0]["actions"] for event in events]
    assert said == [["j", "w"], []]
    assert [event["event_id"] for event in events] == [1, 2]


async def test_held_keys_become_phrases_for_vllm_omni() -> None:
    """Its only control is the prompt; keys without a phrase say nothing."""
    async with VllmOmniServer() as server:
        phrases = {"up": "into the night"}
        world = vllm_omni_world.vllm_omni_world(remote(server), phrases=phrases)
        async with playing(world, prompt="a hill") as (session, chunks):
            await becomes(chunks, "bright")
            world.push_chunk(session, {"type": "control_state", "controls": ["KeyA"]})
            world.push_chunk(session, UP)
            await becomes(chunks, "dark")
            world.push_chunk(session, {"type": "control_state", "controls": []})
            await becomes(chunks, "bright")
        said = [
            event["interaction"]["event"]["prompt"]
            for event in server.visits[0].events
            if event["type"] == "session.interaction"
        ]
    assert said == ["a hill, into the night", "a hill"]


@BOTH
async def test_a_new_prompt_arrives(server_kind: type[WorldServer], make: Make) -> None:
    """And is in the pictures after it; an empty one changes nothing."""
    async with server_kind() as server:
        world = make(remote(server))
        async with playing(world) as (session, chunks):
            await becomes(chunks, "bright")
            world.push_chunk(session, NIGHT)
            world.push_chunk(session, {"type": "prompt", "prompt": ""})
            world.push_chunk(session, {"type": "reset"})
            await becomes(chunks, "dark")
        assert server.visits[0].prompt == NIGHT["prompt"]


@BOTH
async def test_stop_ends_the_session_on_both_sides(
    server_kind: type[WorldServer], make: Make
) -> None:
    """The last word is done; the server is told in its own way; late messages are nobody's."""
    async with server_kind() as server:
        world = make(remote(server))
        async with playing(world) as (session, chunks):
            await shown(chunks)
            world.push_chunk(session, {"type": "stop"})
            *_, last = await to_the_end(chunks)
            assert last["type"] == "done"
        visit = server.visits[0]
        await wait_until(lambda: visit.gone, "the server is free again")
        assert visit.stopped is (server_kind is VllmOmniServer)
        world.push_chunk(session, UP)
        assert not world.has_session(session)
        assert [chunk async for chunk in world.pull_chunks(session)] == []


@BOTH
async def test_stop_needs_no_answer(server_kind: type[WorldServer], make: Make) -> None:
    """A server that has fallen silent can't hold the session back."""
    async with server_kind(Habits(quiet_after=1)) as server:
        world = make(remote(server))
        async with playing(world) as (session, chunks):
            await shown(chunks)
            world.push_chunk(session, {"type": "stop"})
            *_, last = await to_the_end(chunks)
            assert last["type"] == "done"


async def test_vllm_omni_hears_now_and_then_that_somebody_is_there() -> None:
    """Else it would give up a session whose player pauses."""
    clock = ManualClock()
    async with VllmOmniServer() as server:
        world = vllm_omni_world.vllm_omni_world(remote(server))
        world._clock = clock.monotonic_s
        async with playing(world) as (session, chunks):
            await shown(chunks)
            events = server.visits[0].events
            for pings in (1, 2):
                clock.move(21.0)
                world.push_chunk(session, UP)

                def has_heard(pings: int = pings) -> bool:
                    return [event["type"] for event in events] == ["session.ping"] * pings

                await wait_until(has_heard, "a ping")


@BOTH
async def test_a_cancelled_session_is_closed_too(
    server_kind: type[WorldServer], make: Make
) -> None:
    """Leaving the chunks in the middle tells the server, and the place is free again."""
    async with server_kind() as server:
        world = make(remote(server))
        async with playing(world) as (_, chunks):
            await shown(chunks)
            with pytest.raises(RuntimeError, match="all 1 places are taken"):
                world.create_session({})
        visit = server.visits[0]
        await wait_until(lambda: visit.gone, "the server is free again")
        world.close_session(world.create_session({}))


@BOTH
@pytest.mark.parametrize(
    ("habits", "words"),
    [
        (Habits(fails_after=1), "server says: .*CUDA out of memory$"),
        (Habits(breaks_after=1), "server is gone: the connection broke in the middle"),
        (Habits(closes_after=1), "server ended the session: session idle timeout$"),
        (Habits(garbage="hm"), "server sent something that isn't a"),
        (Habits(status=HTTPStatus.FORBIDDEN), "refused the connection with HTTP status 403$"),
        (Habits(points_to="ws://127.0.0.1:9/"), "refused the connection with HTTP status 302$"),
    ],
    ids=["error", "broken", "closed", "garbage", "refused", "redirected"],
)
async def test_each_failure_is_told_in_one_sentence(
    server_kind: type[WorldServer], make: Make, habits: Habits, words: str
) -> None:
    """With the server's own words; neither its address nor the token is among them."""
    habits.error_words = f"{SECRET} CUDA out of memory"
    async with server_kind(habits) as server:
        world = make(remote(server, token=SECRET))
        async with playing(world) as (_, chunks):
            with pytest.raises(RuntimeError, match=words) as failed:
                await to_the_end(chunks)
        if server.visits:
            assert server.visits[0].headers["Authorization"] == f"Bearer {SECRET}"
    text = repr(failed.value)
    assert SECRET not in text
    assert "127.0.0.1" not in text
    assert SECRET not in repr(Remote(url="ws://there", token=SECRET))


@BOTH
async def test_nobody_is_waited_for_without_end(server_kind: type[WorldServer], make: Make) -> None:
    """Not for an answer, not for a chunk, and a closed port is told at once."""
    async with server_kind(Habits(never_answers=True)) as server:
        world = make(remote(server, connect_timeout_s=0.2))
        async with playing(world) as (_, chunks):
            with pytest.raises(RuntimeError, match=r"didn't answer within 0\.2 s"):
                await anext(chunks)
    async with server_kind(Habits(quiet_after=1)) as server:
        world = make(remote(server, silence_timeout_s=0.2))
        async with playing(world) as (_, chunks):
            with pytest.raises(RuntimeError, match=r"said nothing for 0\.2 s"):
                await to_the_end(chunks)
    nobody = Remote(url=f"ws://127.0.0.1:{free_port()}/")
    async with playing(make(nobody)) as (_, chunks):
        with pytest.raises(RuntimeError, match=r"can't be reached: Connection refused$"):
            await anext(chunks)


@BOTH
async def test_a_refused_control_is_a_notice(server_kind: type[WorldServer], make: Make) -> None:
    """The player hears of it, and the world plays on."""
    async with server_kind(Habits(refuses_events=True)) as server:
        world = make(remote(server))
        async with playing(world) as (session, chunks):
            await shown(chunks)
            world.push_chunk(session, NIGHT)
            while (chunk := await anext(chunks))["type"] != "status":
                pass
            assert "didn't take the last control" in chunk["message"]
            assert (await shown(chunks))["type"] == "chunk"


async def test_lossless_pictures_are_refused_in_words() -> None:
    """Their form isn't described anywhere."""
    async with SGLangServer() as server:
        fields = {"realtime_output_format": None}
        async with playing(sglang_world.sglang_world(remote(server), init=fields)) as (_, chunks):
            with pytest.raises(RuntimeError, match=r"sends pictures as .*delta-gzip"):
                await anext(chunks)


async def test_a_slow_player_slows_the_server_down() -> None:
    """What nobody takes isn't made: a few messages wait in the network, not the whole world."""
    async with SGLangServer(Habits(size=(320, 240), chunk_frames=8)) as server:
        fields = {"realtime_output_format": "raw", "max_chunks": 300}
        async with playing(sglang_world.sglang_world(remote(server), init=fields)) as (_, chunks):
            await shown(chunks)
            visit, seen = server.visits[0], [0]

            def stands_still() -> bool:
                seen.append(visit.sent)
                return len(seen) > 20 and len(set(seen[-20:])) == 1

            await wait_until(stands_still, "the server has stopped sending")
            assert visit.sent < 100
            while visit.sent == seen[-1]:  # it goes on when some are taken
                await shown(chunks)


@BOTH
async def test_two_sessions_know_nothing_of_each_other(
    server_kind: type[WorldServer], make: Make
) -> None:
    """A connection, a prompt and an end of their own."""
    async with server_kind() as server:
        world = make(remote(server), sessions=2)
        assert world.configure_session_capacity(5) == {"effective_capacity": 2}
        async with playing(world) as (_, his):
            async with playing(world) as (ann, hers):
                await becomes(his, "bright")
                world.push_chunk(ann, NIGHT)
                await becomes(hers, "dark")
                for _ in range(3):
                    assert shade(await shown(his)) == "bright"
            assert shade(await shown(his)) == "bright"
        assert len(server.visits) == 2


async def test_a_service_file_of_three_lines_plays_on_a_node(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """A person sees the other server's world, steers it and leaves; the server is free again."""
    async with SGLangServer(Habits(size=(160, 120))) as server:
        file = tmp_path / "our_world.py"
        file.write_text(
            "from gpu_node.services.sglang_world import Remote, sglang_world\n\n"
            f"def get_service():\n    return sglang_world(Remote(url={server.url!r}))\n"
        )
        async with running_node(
            redis_url,
            registry,
            pipe_path=file,
            skip_validation=False,
            validation_level="strict",
        ) as node:
            session_id, person = await node.play(identity="alice")
            person.say(UP)
            await wait_until(
                lambda: person.frames[-1].image.mean() < BRIGHT / 2, "it answers", timeout_s=10
            )
            person.say({"type": "stop"})
            ended = await node.reaches(session_id, SessionState.CLOSED)
            assert ended.reason is Reason.CLIENT_STOP
            await wait_until(lambda: server.visits[-1].gone, "the server is free again")
