"""A service comes up in steps that operators see, and a node serves only after the last of them."""

from __future__ import annotations

import asyncio
import builtins
import weakref
from pathlib import Path

import pytest

from gpu_node import service_life
from shared.errors import ServiceLoadFailed
from shared.node_profile import NodeProgress
from shared.records import NodeRecord
from shared.states import NodeState, Reason, SessionState
from shared.store import Registry
from tests.support.redis_server import POOL
from tests.support.running_node import SERVICE, RunningNode, running_node
from tests.support.wait import wait_until

FILM = """
import asyncio, time, numpy as np
made = []
class Film:
    def start(self): pass
    def stop(self): pass
    async def serve(self, request):
        made.append(request)
        for index in range(int(request.get("chunks", 1_000_000))):
            frames = [np.full((16, 16, 3), index % 256, np.uint8)] * 2
            yield {"type": "chunk", "index": index, "fps": 50, "frames": frames}
def get_service(): return Film()
"""

IN_BOTH_PLACES = pytest.mark.parametrize("place", ["in-process", "process"])


def service_file(folder: Path, *more: str) -> Path:
    """The synthetic service, and what a test adds to it."""
    path = folder / "service.py"
    path.write_text("\n".join([SERVICE.read_text(), *more]))
    return path


async def record_of(registry: Registry) -> NodeRecord | None:
    """The one node, as operators see it."""
    nodes = (await registry.snapshot(POOL)).nodes
    return nodes[0] if nodes else None


@IN_BOTH_PLACES
async def test_while_a_service_loads_its_step_and_its_last_line_are_seen(
    redis_url: str, registry: Registry, tmp_path: Path, place: str
) -> None:
    """And its seconds; once it serves there's nothing left of it."""
    gate = tmp_path / "gate"
    path = service_file(
        tmp_path,
        "import pathlib, time",
        "def slow(self):",
        "    print('loading shard 3 of 8')",
        f"    while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.01)",
        "SyntheticService.start = slow",
    )
    options = {"worker_mode": place, "data_dir": tmp_path}
    node = RunningNode(redis_url, registry, pipe_path=path, **options)
    seen: NodeProgress | None = None

    async def is_seen() -> bool:
        nonlocal seen
        record = await record_of(registry)
        seen = record.progress if record else None
        return seen is not None and seen.line != ""

    await wait_until(is_seen, "the progress is told")
    assert seen is not None
    assert (seen.step, seen.line, seen.attempt, seen.error) == (
        "starting",
        "loading shard 3 of 8",
        1,
        "",
    )
    gate.touch()
    await node.ready()

    async def is_over() -> bool:
        record = await record_of(registry)
        return record is not None and record.progress is None

    await wait_until(is_over, "nothing more is told")
    await node.aclose()


async def test_a_service_that_fails_at_first_is_tried_again(
    redis_url: str, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile the node is in error, with the service's own words."""
    monkeypatch.setattr(service_life, "_FIRST_PAUSE_S", 0.5)
    gate = tmp_path / "gate"
    path = service_file(
        tmp_path,
        "import pathlib",
        "def picky(self):",
        f"    if not pathlib.Path({str(gate)!r}).exists(): raise OSError('card 0 is taken')",
        "SyntheticService.start = picky",
    )
    node = RunningNode(redis_url, registry, pipe_path=path, start_attempts=20)
    seen: NodeRecord | None = None

    async def failed() -> bool:
        nonlocal seen
        seen = await record_of(registry)
        return (
            seen is not None
            and seen.state is NodeState.ERROR
            and seen.progress is not None
            and seen.progress.step == "failed"
        )

    await wait_until(failed, "the node is in error", timeout_s=10)
    assert seen is not None
    assert seen.progress is not None
    assert seen.capacity == 0
    assert "start() in service.py failed: OSError: card 0 is taken" in seen.progress.error
    gate.touch()
    await node.ready()
    await node.play()
    await node.aclose()


async def test_a_failed_attempt_leaves_nothing_beside_the_next_one(
    redis_url: str, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two copies of a model's weights fit nowhere."""
    monkeypatch.setattr(service_life, "_FIRST_PAUSE_S", 0.01)
    alive: weakref.WeakSet[object] = weakref.WeakSet()
    monkeypatch.setattr(builtins, "_alive", alive, raising=False)
    path = service_file(
        tmp_path,
        "import builtins, gc",
        "class Weights: pass",
        "def counting(self):",
        "    self.weights = Weights()",
        "    builtins._alive.add(self.weights)",
        "    raise OSError(f'{len(builtins._alive)} in memory')",
        "SyntheticService.start = counting",
    )
    node = RunningNode(redis_url, registry, pipe_path=path, start_attempts=3)
    with pytest.raises(ServiceLoadFailed, match="OSError: 1 in memory"):
        await node.task


async def test_after_the_last_attempt_the_node_ends(
    redis_url: str, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake in the file itself isn't tried twice."""
    monkeypatch.setattr(service_life, "_FIRST_PAUSE_S", 0.01)
    tries = tmp_path / "tries"
    tries.touch()
    count = f"(t := __import__('pathlib').Path({str(tries)!r})).write_text(t.read_text() + 'x')"
    path = service_file(
        tmp_path,
        "def broken(self):",
        f"    {count}",
        "    raise OSError('no card')",
        "SyntheticService.start = broken",
    )
    node = RunningNode(redis_url, registry, pipe_path=path, start_attempts=3)
    with pytest.raises(ServiceLoadFailed, match="no card"):
        await node.task
    assert tries.read_text() == "xxx"
    path.write_text(f"{count}\nraise ImportError('no such thing')")
    node = RunningNode(redis_url, registry, pipe_path=path, start_attempts=3)
    with pytest.raises(ServiceLoadFailed, match="no such thing"):
        await node.task
    assert tries.read_text() == "xxxx"


async def test_a_file_that_is_a_mistake_is_refused_before_anything_of_it_runs(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """With the lines; without the look, or at a level that lets it pass, it is loaded."""
    path = service_file(tmp_path, "eval('1')")
    node = RunningNode(redis_url, registry, pipe_path=path, skip_validation=False)
    with pytest.raises(
        ServiceLoadFailed, match=r"service.py isn't loaded: line \d+ calls eval\(\)"
    ):
        await node.task
    async with running_node(redis_url, registry, pipe_path=path, skip_validation=True) as node:
        await node.play()
    path = service_file(tmp_path)
    node = RunningNode(
        redis_url, registry, pipe_path=path, skip_validation=False, validation_level="strict"
    )
    with pytest.raises(ServiceLoadFailed, match=r"calls os.kill\(\)"):
        await node.task


async def test_a_node_serves_after_its_service_made_a_frame(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """The warm-up's session is over before the first user's."""
    path = service_file(tmp_path, "SyntheticService.warm_up = True")
    async with running_node(redis_url, registry, pipe_path=path) as node:
        assert node.journal.made >= 1
        assert node.journal.closed == ["pipeline-1"]
        await node.play()
        assert node.journal.created[0]["session_id"] == "warm-up"


@IN_BOTH_PLACES
async def test_a_film_plays_through_the_node_and_says_what_it_is(
    redis_url: str, registry: Registry, tmp_path: Path, place: str
) -> None:
    """To its end, and one after the other."""
    path = tmp_path / "film.py"
    path.write_text(FILM)
    async with running_node(
        redis_url,
        registry,
        pipe_path=path,
        max_sessions_per_worker="auto",
        worker_mode=place,
        data_dir=tmp_path,
    ) as node:
        record = await record_of(registry)
        assert record is not None
        assert (record.profile.mode, record.profile.service, record.capacity) == (
            "server_push",
            "film.py",
            1,
        )
        for _ in range(2):
            session_id, alice = await node.play(chunks=3)
            ended = await node.reaches(session_id, SessionState.CLOSED)
            assert ended.reason is Reason.COMPLETED
            assert [int(seen.image[0, 0, 0]) for seen in alice.frames] == [0, 0, 1, 1, 2, 2]


@IN_BOTH_PLACES
async def test_the_rooms_stop_ends_a_film(
    redis_url: str, registry: Registry, tmp_path: Path, place: str
) -> None:
    """In the reference it went nowhere."""
    path = tmp_path / "film.py"
    path.write_text(FILM)
    async with running_node(
        redis_url, registry, pipe_path=path, worker_mode=place, data_dir=tmp_path
    ) as node:
        session_id, alice = await node.play()
        alice.say({"type": "stop"})
        ended = await node.reaches(session_id, SessionState.CLOSED)
        assert ended.reason is Reason.CLIENT_STOP
        await node.play(identity="bob", chunks=1)


async def test_a_film_for_several_at_once_is_a_start_failure(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """It isn't tried again: only the operator can change that."""
    path = tmp_path / "film.py"
    path.write_text(FILM)
    node = RunningNode(
        redis_url, registry, pipe_path=path, max_sessions_per_worker=2, start_attempts=9
    )
    with pytest.raises(ServiceLoadFailed, match="plays one session at a time, not 2"):
        async with asyncio.timeout(30):
            await node.task
