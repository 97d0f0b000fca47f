"""A worker with a higher epoch is in a session's room, and the registry never heard of it."""

from __future__ import annotations

import pytest

from gpu_node.room import RoomEvents, RoomRequest
from shared.errors import StoreUnavailable
from shared.ids import WorkerIdentity
from shared.records import Owner, SessionRecord
from shared.store import Registry
from tests.support.fake_room import FakeRoom
from tests.support.running_node import RunningNode, running_node
from tests.support.wait import wait_until


async def zombie(node: RunningNode, session_id: str, epoch: int) -> FakeRoom:
    """Let a silent worker into the room whose epoch was issued by writes that are lost."""
    room = node.venue(
        RoomRequest(
            session_id=session_id,
            identity=WorkerIdentity(node_id="node-z", epoch=epoch, attempt=1),
            controller="alice",
            fps=16,
            events=RoomEvents(
                on_control=lambda *_: None,
                on_presence=lambda _: None,
                on_lost=lambda _: None,
            ),
        )
    )
    await room.join()
    return room


async def rebased(node: RunningNode, session_id: str, above: int) -> SessionRecord:
    """Wait until the session has a higher epoch."""

    async def higher() -> bool:
        return (await node.registry.read(session_id)).epoch > above

    await wait_until(higher, "the session has an epoch above it", timeout_s=10)
    return await node.registry.read(session_id)


async def test_the_owner_goes_on_above_it_and_puts_it_out(
    redis_url: str, registry: Registry
) -> None:
    """Same node, pipeline session and attempt; its worker comes back under the new epoch."""
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play()
        before = await registry.read(session_id)
        seen = before.epoch + 3_600_000
        other = await zombie(node, session_id, seen)
        after = await rebased(node, session_id, seen)
        assert (after.node_id, after.attempt) == ("node-a", before.attempt)
        name = f"telefuser-node-a-{after.epoch}-"
        await wait_until(
            lambda: alice.frames[-1].worker.startswith(name), "it plays under the new epoch",
            timeout_s=10,
        )  # fmt: skip
        assert not other.presence().connected
        assert len(node.journal.created) == 1
        alice.say({"type": "stop"})
        await wait_until(lambda: node.journal.closed, "it ends like any other")
        await node.ready()


async def test_the_registry_must_say_first_whose_it_is(redis_url: str, registry: Registry) -> None:
    """While no beat is answered the other one may be right: nothing is asked for."""
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play()
        before = await registry.read(session_id)
        node.link.cut = True
        await zombie(node, session_id, before.epoch + 3_600_000)
        stamp = node.agent.heartbeat.stamp
        await wait_until(lambda: node.agent.heartbeat.stamp > stamp + 2, "some beats fail")
        assert (await registry.read(session_id)).epoch == before.epoch
        node.link.cut = False
        after = await rebased(node, session_id, before.epoch + 3_600_000)
        seen = len(alice.frames)
        await wait_until(lambda: len(alice.frames) > seen, "the picture goes on", timeout_s=10)
        assert after.attempt == before.attempt


async def test_a_rebase_whose_answer_is_lost_is_asked_for_again(
    redis_url: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then beats of the epoch before count as its own; one number is given."""
    async with running_node(redis_url, registry) as node:
        session_id, alice = await node.play()
        before = await registry.read(session_id)
        lossy = LossyRebase(node)
        monkeypatch.setattr(node.agent._parts.registry, "rebase", lossy)
        await zombie(node, session_id, before.epoch + 9_000)
        await wait_until(
            lambda: len(lossy.given) == 3, "it was asked for three times", timeout_s=10
        )
        assert len(set(lossy.given)) == 1
        seen = len(alice.frames)
        await wait_until(lambda: len(alice.frames) > seen, "the picture goes on", timeout_s=10)
        after = await registry.read(session_id)
        assert (after.epoch, after.attempt) == (lossy.given[0], before.attempt)


class LossyRebase:
    """The registry's `rebase`, of which the first two answers get lost, with beats between them."""

    def __init__(self, node: RunningNode) -> None:
        self._node = node
        self.given: list[int | None] = []

    async def __call__(self, owner: Owner, seen_epoch: int) -> int | None:
        """Ask, and lose the answer."""
        heartbeat = self._node.agent.heartbeat
        self.given.append(await self._node.registry.rebase(owner, seen_epoch))
        if len(self.given) < 3:
            stamp = heartbeat.stamp
            heartbeat.poke()
            await wait_until(lambda: heartbeat.stamp > stamp + 1, "some beats")
            raise StoreUnavailable(why="its answer was lost")
        return self.given[-1]
