"""Does a whole node play a neural world?"""

from __future__ import annotations

from typing import Any

import pytest

from shared.states import SessionState
from shared.store import Registry
from tests.support.running_node import running_node
from tests.support.wait import wait_until
from tests.torch.conftest import TORCH_WORLD

pytest.importorskip("torch")  # before the clock of a test runs: the import takes seconds


async def test_two_players_share_a_model_on_one_node(redis_url: str, registry: Registry) -> None:
    """Checked as an operator's file is, warmed up, sized, played by two, and let go of."""
    options: dict[str, Any] = {
        "pipe_path": TORCH_WORLD,
        "max_sessions_per_worker": 2,
        "skip_validation": False,
        "ready_in_s": 20.0,
    }
    async with running_node(redis_url, registry, **options) as node:
        (first, alice), (second, bob) = [
            await node.play(identity=name, prompt=name) for name in ("alice", "bob")
        ]
        alice.say({"type": "control_state", "controls": ["w"]})

        def answered() -> bool:
            data = [status.get("data") for status in alice.statuses]
            return any(isinstance(d, dict) and d.get("applied_controls") == ["w"] for d in data)

        await wait_until(answered, "the key is in a chunk")
        seen = len(bob.frames)
        await wait_until(lambda: len(bob.frames) > seen + 8, "the other plays on")
        for person, session_id in ((alice, first), (bob, second)):
            person.say({"type": "stop"})
            await node.reaches(session_id, SessionState.CLOSED)
        third, _ = await node.play(identity="carol")
        assert (await node.registry.read(third)).state is SessionState.RUNNING
