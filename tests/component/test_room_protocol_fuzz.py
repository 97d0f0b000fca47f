"""A real node in which somebody says anything at all: it refuses, goes on, and nobody else notices.

The room is a fake one, the node is whole: runner, dialogue, service, in its process and in a child.
"""

from __future__ import annotations

from typing import Any

import pytest

from shared.room_protocol import ASSET_TOPIC, Refusal
from shared.states import SessionState
from shared.store import Registry
from tests.support.fake_room import FakePerson
from tests.support.made_up_messages import made_up
from tests.support.running_node import running_node
from tests.support.wait import wait_until

MESSAGES = 150
AT_ONCE = 25
FIRST_SEQ = 1_000_000


async def heard(person: FakePerson, seq: int) -> None:
    """Wait until a message of ours was acknowledged, behind whatever was said before it."""
    person.say({"type": "control_state", "controls": ["w"], "seq": seq})
    await wait_until(
        lambda: any(ack["seq"] == seq for ack in person.of_type("control_ack")),
        f"message {seq} is acknowledged",
        20,
    )


@pytest.mark.parametrize("mode", ["in-process", "process"])
async def test_nothing_that_is_said_breaks_a_session_or_its_neighbour(
    redis_url: str, registry: Registry, mode: str
) -> None:
    """Each batch of made-up messages is followed by a right one, which counts as ever."""
    options: dict[str, Any] = {"worker_mode": mode, "max_sessions_per_worker": 2}
    async with running_node(redis_url, registry, **options) as node:
        await node.ready(60)
        loud, calm = (
            await node.open(chunks=100_000),
            await node.open(chunks=100_000, identity="bob"),
        )
        alice, bob = node.venue.stage(loud).enter("alice"), node.venue.stage(calm).enter("bob")
        stranger = node.venue.stage(loud).enter("mallory")
        for session_id in (loud, calm):
            await node.reaches(session_id, SessionState.RUNNING)
        said = made_up(MESSAGES)
        for start in range(0, len(said), AT_ONCE):
            for message in said[start : start + AT_ONCE]:
                alice.say(message)
                alice.say(message, nameless=True)
                stranger.say(message)
                alice.say(message, topic=ASSET_TOPIC)
            bob.frames.clear()
            await heard(alice, FIRST_SEQ + start)
            await heard(bob, FIRST_SEQ + start)
            await wait_until(lambda: bob.frames, "bob sees frames", 20)
        states = [(await registry.read(session_id)).state for session_id in (loud, calm)]
        refused = alice.of_type("control_rejected")

        assert states == [SessionState.RUNNING, SessionState.RUNNING]
        assert {body["code"] for body in refused} <= set(Refusal)
        assert {"bad_json", "unknown_type", "not_controller"} <= {body["code"] for body in refused}
        assert not bob.of_type("control_rejected")
        assert not bob.of_type("error")
