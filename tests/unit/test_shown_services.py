"""The services that compute nothing: a film that is watched, and one that is drawn upon."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_node.media import ChunkReader
from gpu_node.services import film, overlay, video_replay
from gpu_node.services.contract import ServiceMode, mode_of
from gpu_node.services.loader import load
from gpu_node.services.overlay import Overlay
from gpu_node.services.video_replay import VideoReplay

Chunk = dict[str, Any]


def small(seconds: float | None = None) -> Iterator[film.Cut]:
    """A pattern that is quick to draw."""
    return film.pattern(width=160, height=120, seconds=seconds)


async def taken(chunks: AsyncIterator[Chunk], most: int = 100) -> list[Chunk]:
    """Return the first chunks of a stream, and close it."""
    found: list[Chunk] = []
    async for chunk in chunks:
        found.append(chunk)
        if len(found) == most:
            break
    await chunks.aclose()  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(
    ("module", "mode"),
    [(video_replay, ServiceMode.SERVER_PUSH), (overlay, ServiceMode.BIDIRECTIONAL)],
)
def test_both_are_service_files(module: Any, mode: ServiceMode) -> None:
    """They keep the contract and can be loaded by their path."""
    assert mode_of(module.get_service()) is mode
    loaded = load(Path(module.__file__), gpu_num=1, gpu_ids=None)
    loaded.unload()


async def test_a_film_is_shown_to_its_end() -> None:
    """All its chunks can be played; the last word is done."""
    service = VideoReplay(pattern=lambda: small(2))
    service.start()
    *chunks, last = await taken(service.serve({}))
    reader = ChunkReader(16.0)
    read = [reader.read(chunk) for chunk in chunks]
    assert sum(len(chunk.frames) for chunk in read) == 48
    assert sum(len(chunk.audio.pcm) for chunk in read if chunk.audio) == 2 * film.RATE_HZ
    assert (last["type"], last["index"]) == ("done", len(chunks))


async def test_a_request_can_want_less_of_it() -> None:
    """Up to a whole cut more is shown; nonsense is refused with what is possible."""
    service = VideoReplay(pattern=small)
    *chunks, _ = await taken(service.serve({"duration_s": 1}))
    assert len(chunks) == 3
    for nonsense in (0, -1, "long", True, 1e9):
        with pytest.raises(ValueError, match="duration_s must be a number of seconds"):
            await taken(service.serve({"duration_s": nonsense}))


def test_a_film_that_is_none_is_told_at_the_start(tmp_path: Path) -> None:
    """Not when the first person comes."""
    text = tmp_path / "film.mp4"
    text.write_text("no film")
    for service in (VideoReplay(text), Overlay(text)):
        with pytest.raises(ValueError, match="can't be decoded"):
            service.start()


async def test_what_is_held_is_drawn_into_the_next_picture() -> None:
    """And gone again when it's let go; another session's picture stays as it is."""
    service = Overlay(pattern=small)
    ann, bob = service.create_session({}), service.create_session({})
    hers, his = service.pull_chunks(ann), service.pull_chunks(bob)
    plain = await anext(his)
    assert np.array_equal((await anext(hers))["frames"][1], plain["frames"][1])
    service.push_chunk(ann, {"type": "control_state", "controls": ["ArrowUp", "KeyD"]})
    drawn, untouched = await anext(hers), await anext(his)
    assert drawn["applied_controls"] == ["ArrowUp", "KeyD"]
    assert not np.array_equal(drawn["frames"][1], untouched["frames"][1])
    service.push_chunk(ann, {"type": "control_state", "controls": []})
    assert np.array_equal((await anext(hers))["frames"][1], (await anext(his))["frames"][1])
    for stream in (hers, his):
        await stream.aclose()  # type: ignore[attr-defined]


async def test_each_direction_has_an_arrow_of_its_own() -> None:
    """Four keys, four pictures."""
    service = Overlay(pattern=small)
    session = service.create_session({})
    seen = set()
    for key in ("w", "a", "s", "d"):
        service.push_chunk(session, {"type": "control", "control": key, "event": "press"})
        stream = service.pull_chunks(session)
        seen.add((await anext(stream))["frames"][1].tobytes())
        await stream.aclose()  # type: ignore[attr-defined]
        service.push_chunk(session, {"type": "control", "control": key, "event": "release"})
    assert len(seen) == 4


async def test_stop_ends_it_and_a_late_message_is_nobodys() -> None:
    """The stream says done; a closed session takes nothing."""
    service = Overlay(pattern=small)
    session = service.create_session({})
    stream = service.pull_chunks(session)
    await anext(stream)
    service.push_chunk(session, {"type": "stop"})
    assert (await anext(stream))["type"] == "done"
    service.close_session(session)
    service.push_chunk(session, {"type": "reset"})
    assert not service.has_session(session)
    assert [chunk async for chunk in service.pull_chunks(session)] == []


def test_it_takes_no_more_people_than_it_said() -> None:
    """The operator's number lowers it."""
    service = Overlay(pattern=small)
    assert service.configure_session_capacity(1) == {"effective_capacity": 1}
    service.create_session({})
    with pytest.raises(RuntimeError, match="all 1 places are taken"):
        service.create_session({})


def test_a_chunk_carries_its_sound() -> None:
    """As little-endian PCM16 in stereo."""
    cut = next(small(1))
    chunk = video_replay.chunk_of(cut, 0)
    raw = base64.b64decode(chunk["audio_b64"])
    assert cut.sound is not None
    assert len(raw) == cut.sound.size * 2
