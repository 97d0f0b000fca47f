"""What does a node do when it is asked to stop, and when it is asked again?"""

from __future__ import annotations

import signal
from pathlib import Path

from shared.ids import new_session_id
from shared.records import OpenRequest, SessionLimits, SessionRequest
from shared.states import SessionState
from shared.store import Registry
from tests.livekit.conftest import tokens_for
from tests.support import synthetic_service
from tests.support.live_person import LivePerson
from tests.support.livekit_server import LiveKitServer
from tests.support.node_process import NodeProcess, node_process
from tests.support.redis_server import POOL
from tests.support.wait import wait_until


async def test_a_second_signal_ends_a_node_that_waits_for_its_sessions_at_once(
    livekit_server: LiveKitServer, redis_url: str, registry: Registry, tmp_path: Path
) -> None:
    """The first one closes it and leaves running sessions their grace; whoever asks twice means
    it.
    """
    options = {
        "LIVEKIT_URL": livekit_server.url,
        "LIVEKIT_API_KEY": livekit_server.api_key,
        "LIVEKIT_API_SECRET": livekit_server.api_secret,
        "PIPE_PATH": synthetic_service.__file__,
        "DRAIN_GRACE_S": "600",
    }
    alice = LivePerson()
    async with node_process(redis_url, registry, tmp_path, **options) as node:
        playing, waiting = await open_one(registry), await open_one(registry)
        await alice.enter(livekit_server.url, tokens_for(livekit_server).controller(playing, "ann"))
        await wait_until(lambda: alice.frames, "frames", timeout_s=30)
        node.terminate()

        async def drains() -> bool:
            return (await registry.snapshot(POOL)).nodes[0].draining

        await wait_until(drains, "the registry knows that it drains", timeout_s=10)
        seen = len(alice.frames)
        await wait_until(lambda: len(alice.frames) > seen, "it plays on")
        assert (await registry.read(playing)).state is SessionState.RUNNING
        assert (await registry.read(waiting)).state is SessionState.QUEUED
        await quit_now(node)
    assert (await registry.read(playing)).state is SessionState.RUNNING  # until the lease runs out
    await alice.leave()


async def open_one(registry: Registry) -> str:
    """Ask for a session as a replica does."""
    session_id = new_session_id(POOL)
    request = OpenRequest(
        pool=POOL,
        session_id=session_id,
        request=SessionRequest(identity="ann"),
        limits=SessionLimits(),
        queue_size=1,
    )
    await registry.open(request)
    return session_id


async def quit_now(node: NodeProcess) -> None:
    """Ask once more, and see that it ends without a word."""
    node.terminate()
    code, _, err = await node.ended()
    assert (code, err) == (128 + signal.SIGTERM, "")
