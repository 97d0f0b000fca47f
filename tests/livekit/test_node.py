"""A whole node, the demo world and a real media server: what a person in the room sees."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from shared.ids import new_session_id
from shared.records import OpenRequest, SessionLimits, SessionRequest
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.livekit.conftest import tokens_for
from tests.support import synthetic_service
from tests.support.live_person import LivePerson
from tests.support.livekit_server import LiveKitServer, running_livekit
from tests.support.node_process import NodeProcess, node_process
from tests.support.redis_server import POOL
from tests.support.wait import wait_until
from tests.support.worker_child import worker_pids

LONG_S = 30.0


class Visit:
    """One session of alice's, and the connections that she makes to its room."""

    def __init__(self, server: LiveKitServer, registry: Registry) -> None:
        self._server = server
        self._registry = registry
        self.session_id = new_session_id(POOL)
        self.people: list[LivePerson] = []

    async def open(self, **config: object) -> None:
        """Ask for the session as a replica does."""
        await self._registry.open(
            OpenRequest(
                pool=POOL,
                session_id=self.session_id,
                request=SessionRequest(
                    identity="alice", prompt="a neon city at night", config=config
                ),
                limits=SessionLimits(),
                queue_size=1,
            )
        )

    async def enter(self) -> LivePerson:
        """Join the room."""
        person = LivePerson()
        await person.enter(
            self._server.url, tokens_for(self._server).controller(self.session_id, "alice")
        )
        self.people.append(person)
        return person

    async def state(self) -> SessionState:
        """Where the session stands."""
        return (await self._registry.read(self.session_id)).state


@pytest.fixture
async def visit(livekit_server: LiveKitServer, registry: Registry) -> AsyncIterator[Visit]:
    """A session on the server that all tests share."""
    visit = Visit(livekit_server, registry)
    yield visit
    for person in visit.people:
        await person.leave()


def media(server: LiveKitServer, **options: str) -> dict[str, str]:
    """The variables of a node on this server."""
    return {
        "LIVEKIT_URL": server.url,
        "LIVEKIT_API_KEY": server.api_key,
        "LIVEKIT_API_SECRET": server.api_secret,
        **options,
    }


async def test_a_person_sees_the_world_and_moves_it(
    livekit_server: LiveKitServer,
    redis_url: str,
    registry: Registry,
    tmp_path: Path,
    visit: Visit,
) -> None:
    """Frames, an acknowledged control, a picture that answers to it, an end."""
    async with node_process(redis_url, registry, tmp_path, **media(livekit_server)):
        await visit.open()
        alice = await visit.enter()
        await wait_until(lambda: len(alice.frames) > 3, "frames", timeout_s=LONG_S)
        await wait_until(lambda: alice.of_type("first_frame"), "the first frame is told")
        still = alice.frames[-1].image.astype(int)
        await alice.say({"type": "control_state", "controls": ["w", "l"], "seq": 1})
        await wait_until(lambda: alice.of_type("control_ack"), "the control is acknowledged")
        await wait_until(
            lambda: np.abs(alice.frames[-1].image.astype(int) - still).mean() > 8,
            "the picture answers",
            timeout_s=10,
        )
        await alice.say({"type": "stop"})
        await wait_until(lambda: alice.of_type("closed"), "the end is told")

        async def ended() -> bool:
            return await visit.state() is SessionState.CLOSED

        await wait_until(ended, "the session is over")
        assert (await registry.read(visit.session_id)).reason is Reason.CLIENT_STOP


async def test_a_page_plays_on_when_pictures_and_sound_change(
    livekit_server: LiveKitServer,
    redis_url: str,
    registry: Registry,
    tmp_path: Path,
    visit: Visit,
) -> None:
    """Tracks of the new size and format take over; meanwhile figures come and a file goes."""
    options = media(livekit_server, PIPE_PATH=synthetic_service.__file__)
    async with node_process(redis_url, registry, tmp_path, **options):
        await visit.open(change_at=120, sound_hz=16_000)
        alice = await visit.enter()
        await wait_until(lambda: alice.frames, "frames", timeout_s=LONG_S)
        assert alice.frames[0].image.shape == (16, 16, 3)
        await alice.send_file(b"a small file", "note.txt")
        await wait_until(lambda: alice.of_type("asset_accepted"), "the file is taken")
        await wait_until(
            lambda: alice.frames[-1].image.shape == (32, 24, 3), "the new size", timeout_s=LONG_S
        )
        seen = len(alice.frames)
        await wait_until(lambda: len(alice.frames) > seen + 20, "it plays on", timeout_s=LONG_S)
        assert alice.tracks.count("telefuser-output") == 2
        assert alice.tracks.count("telefuser-audio") == 2
        await wait_until(
            # The round trip within one machine may be 0 whole milliseconds.
            lambda: any(
                body["bitrate_bps"] and body["rtt_s"] is not None for body in alice.metrics
            ),
            "bitrate and round trip are told",
        )
        assert await visit.state() is SessionState.RUNNING


async def test_a_session_outlives_a_restart_of_the_media_server(
    redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """Killed and started again: the same pipeline session plays on for whoever comes back."""
    with running_livekit() as server:
        visit = Visit(server, registry)
        async with node_process(redis_url, registry, tmp_path, **media(server)):
            await visit.open()
            alice = await visit.enter()
            await wait_until(lambda: alice.frames, "frames", timeout_s=LONG_S)
            before = await registry.read(visit.session_id)
            server.kill()
            await alice.leave()
            server.start()
            again = await visit.enter()
            await wait_until(lambda: len(again.frames) > 3, "frames again", timeout_s=LONG_S)
            after = await registry.read(visit.session_id)
            assert after.state is SessionState.RUNNING
            assert (after.epoch, after.pipeline_session_id) == (
                before.epoch,
                before.pipeline_session_id,
            )
            await again.leave()


async def test_a_killed_nodes_session_plays_on_for_the_same_person(
    livekit_server: LiveKitServer,
    redis_url: str,
    registry: Registry,
    tmp_path: Path,
    visit: Visit,
) -> None:
    """Same room, same connection, next epoch; the leftover worker is put out by its successor."""
    quick = media(livekit_server, NODE_TTL_S="4", BEAT_INTERVAL_S="0.4")
    async with node_process(redis_url, registry, tmp_path, **quick) as first:
        await visit.open()
        alice = await visit.enter()
        await wait_until(lambda: alice.frames, "frames", timeout_s=LONG_S)
        epoch = (await registry.read(visit.session_id)).epoch
        first.kill()
        await first.ended()
    second = await NodeProcess.start(redis_url, tmp_path, **quick)

    async def plays_again() -> bool:
        await registry.sweep_nodes(POOL)
        return _epoch_of(alice.frames[-1].worker) > epoch

    await wait_until(plays_again, "the next node's frames", timeout_s=LONG_S)
    await wait_until(lambda: alice.of_type("resumed"), "the resumption is told")
    assert (await registry.read(visit.session_id)).attempt == 2
    second.terminate()
    code, _, err = await second.ended()
    assert (code, err) == (0, "")


async def test_a_model_that_dies_costs_a_moment_and_nothing_else(
    livekit_server: LiveKitServer,
    redis_url: str,
    registry: Registry,
    tmp_path: Path,
    visit: Visit,
) -> None:
    """The demo world in a child that is killed: same node, same connection, frames again."""
    options = media(livekit_server, WORKER_MODE="process")
    async with node_process(redis_url, registry, tmp_path, **options) as node:
        await visit.open()
        alice = await visit.enter()
        await wait_until(lambda: len(alice.frames) > 3, "frames", timeout_s=LONG_S)
        before = await registry.read(visit.session_id)
        (pid,) = worker_pids(node._process.pid)
        os.kill(pid, signal.SIGKILL)

        async def plays_again() -> bool:
            return _epoch_of(alice.frames[-1].worker) > before.epoch

        await wait_until(plays_again, "the next child's frames", timeout_s=LONG_S)
        await wait_until(lambda: alice.of_type("resumed"), "the resumption is told")
        after = await registry.read(visit.session_id)
        assert (after.node_id, after.attempt) == (before.node_id, 2)
        assert worker_pids(node._process.pid) not in ([], [pid])


async def test_a_frozen_node_that_wakes_is_never_seen_again(
    livekit_server: LiveKitServer,
    redis_url: str,
    registry: Registry,
    tmp_path: Path,
    visit: Visit,
) -> None:
    """Another node plays on meanwhile; the zombie is put out and begins a new life, empty."""
    quick = media(livekit_server, NODE_TTL_S="4", BEAT_INTERVAL_S="0.4")
    async with (
        node_process(redis_url, registry, tmp_path / "a", **quick) as frozen,
        node_process(redis_url, registry, tmp_path / "b", NODE_ID="node-b", **quick),
    ):
        await visit.open()
        alice = await visit.enter()
        await wait_until(lambda: alice.frames, "frames", timeout_s=LONG_S)
        before = await registry.read(visit.session_id)
        assert before.node_id == "node-a"
        frozen.freeze()

        async def plays_elsewhere() -> bool:
            await registry.sweep_nodes(POOL)
            return "node-b" in alice.frames[-1].worker

        await wait_until(plays_elsewhere, "the other node's frames", timeout_s=LONG_S)
        seen = len(alice.frames)
        frozen.wake()

        async def begins_anew() -> bool:
            nodes = (await registry.snapshot(POOL)).nodes
            return any(node.node_id == "node-a" and node.used == 0 for node in nodes)

        await wait_until(begins_anew, "it has a new life", timeout_s=LONG_S)
        await wait_until(lambda: len(alice.frames) > seen + 60, "many frames", timeout_s=LONG_S)
        assert {frame.worker.rsplit("-", 2)[0] for frame in alice.frames[seen:]} == {
            "telefuser-node-b"
        }
        workers = {str(one.identity) for one in alice.room.remote_participants.values()}
        assert workers == {alice.frames[-1].worker}
        assert (await registry.read(visit.session_id)).attempt == 2


def _epoch_of(worker: str) -> int:
    match = re.fullmatch(r"telefuser-node-a-(\d+)-\d+", worker)
    assert match is not None
    return int(match[1])


async def test_everybody_in_the_room_hears_why_a_broken_session_ended(
    livekit_server: LiveKitServer, redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """Each time: the room doesn't go before the words have arrived."""
    options = media(livekit_server, PIPE_PATH=synthetic_service.__file__)
    async with node_process(redis_url, registry, tmp_path, **options):
        for _ in range(4):
            visit = Visit(livekit_server, registry)
            await visit.open(fail_in="pull")
            viewers = [LivePerson() for _ in range(2)]
            for number, viewer in enumerate(viewers):
                token = tokens_for(livekit_server).viewer(visit.session_id, f"viewer-{number}")
                await viewer.enter(livekit_server.url, token)
            people = [*viewers, await visit.enter()]
            for person in people:
                await wait_until(
                    partial(has_heard_the_end, person), "error and end are heard", timeout_s=LONG_S
                )
            for person in people:
                await person.leave()


def has_heard_the_end(person: LivePerson) -> bool:
    """Whether both were told."""
    words = {key for said in person.statuses for key in (str(said["type"]), *said)}
    return {"error", "closed"} <= words
