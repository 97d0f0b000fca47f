"""A node offers itself after its service made a picture, as far as the service allows that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpu_node.services.contract import ServiceMode, ServiceTraits
from gpu_node.warm_up import SESSION_ID, WarmUp, warm_up, warm_up_of
from shared.errors import ServiceStartFailed
from tests.support.hosting import hosted
from tests.support.synthetic_service import Journal, SyntheticService

QUICK = WarmUp(within_s=0.2)
MUST = WarmUp(must=True, within_s=0.2)


class Silent(SyntheticService):
    """Waits for a control that never comes."""

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        yield {"type": "status", "stage": "runtime_ready"}
        await asyncio.Event().wait()


class Short(SyntheticService):
    """Is done before it began."""

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        yield {"type": "done"}


class Picky(SyntheticService):
    """Wants an image, as large models do."""

    def create_session(self, config: dict[str, Any]) -> str:
        if "image" not in config:
            raise ValueError("image is required")
        return super().create_session(config)


@pytest.mark.parametrize(
    ("declared", "mode", "plan"),
    [
        (None, ServiceMode.BIDIRECTIONAL, WarmUp()),
        (None, ServiceMode.SERVER_PUSH, None),
        (False, ServiceMode.BIDIRECTIONAL, None),
        (True, ServiceMode.SERVER_PUSH, WarmUp(must=True, within_s=600.0)),
        ({"fps": 8}, ServiceMode.BIDIRECTIONAL, WarmUp(must=True, config={"fps": 8}, within_s=600)),
    ],
)
def test_a_service_says_whether_it_is_warmed(
    declared: bool | dict[str, Any] | None, mode: ServiceMode, plan: WarmUp | None
) -> None:
    """Without a word: a bidirectional one is tried, server push is left alone."""
    assert warm_up_of(ServiceTraits(mode=mode, warm_up=declared)) == plan


async def test_one_frame_is_made_and_the_session_closed() -> None:
    """With its own id, and with what the service wants in its config."""
    journal = Journal()
    async with hosted(SyntheticService(journal)) as host:
        assert await warm_up(host, WarmUp(must=True, config={"fps": 8}))
        (config,) = journal.created
        assert config == {"session_id": SESSION_ID, "control_idle_timeout": 10.0, "fps": 8}
        assert journal.closed == ["pipeline-1"]
        assert 1 <= journal.made <= 2


@pytest.mark.parametrize(
    ("service", "config", "words"),
    [
        (Silent, {}, "no frame within 0.2 s"),
        (Short, {}, "ended without a frame"),
        (Picky, {}, "refused the config: image is required"),
        (SyntheticService, {"fail_in": "create"}, "no memory left for a world"),
        (SyntheticService, {"chunks": 0}, "ended without a frame"),
    ],
)
async def test_a_service_that_makes_no_frame_serves_unless_it_had_promised_one(
    service: type[SyntheticService], config: dict[str, Any], words: str
) -> None:
    """It may need an image or a first control; one that asked for the warm-up has failed."""
    journal = Journal()
    async with hosted(service(journal)) as host:
        plan = WarmUp(config=config, within_s=0.2)
        assert await warm_up(host, plan) is False
        with pytest.raises(ServiceStartFailed, match=f"warm-up of svc.py failed: .*{words}"):
            await warm_up(host, WarmUp(must=True, config=config, within_s=0.2))
        assert len(journal.closed) == len(journal.created)


@pytest.mark.parametrize(
    ("config", "words"),
    [({"fail_in": "close"}, "the door is stuck"), ({"hang_close": True}, "closed within 0.1 s")],
)
async def test_a_warm_up_session_that_stays_is_a_failed_start(
    config: dict[str, Any], words: str
) -> None:
    """Even of a service that didn't ask for it: the first user would meet it."""
    journal = Journal()
    async with hosted(SyntheticService(journal)) as host:
        plan = WarmUp(config=config, closed_within_s=0.1)
        with pytest.raises(ServiceStartFailed, match=f"keeps its slot: .*{words}"):
            await warm_up(host, plan)
        journal.may_close.set()
