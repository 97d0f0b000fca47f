"""How does a test give commands to ``greenroom``, as an operator does?

In this process, on a thread of its own, since every command runs an event loop. What a mistake
would make `main` say is said here the same way.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from control_plane.cli.main import app
from shared.errors import StartupError
from shared.ids import new_session_id
from shared.records import OpenRequest, SessionLimits, SessionRequest
from shared.store import Registry
from tests.support.redis_server import POOL


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a command said, and its exit status."""

    status: int
    text: str

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Operator:
    """Somebody at a terminal that isn't one: nothing is coloured."""

    def __init__(self, redis_url: str, **environment: str) -> None:
        self._environment = {"GREENROOM_REDIS_URL": redis_url, **environment}

    async def says(self, *arguments: str) -> Told:
        """Run one command."""
        return await asyncio.to_thread(self._run, arguments)

    def _run(self, arguments: tuple[str, ...]) -> Told:
        result = CliRunner().invoke(app, list(arguments), env=self._environment)
        mistake = result.exception
        if isinstance(mistake, StartupError):
            return Told(status=2, text=f"{mistake}\nTry: {mistake.try_}")
        if mistake is not None and not isinstance(mistake, SystemExit):
            raise mistake
        return Told(status=result.exit_code, text=result.output)


@pytest.fixture
def operator(redis_url: str, tmp_path: Path) -> Operator:
    """An operator of the system on this test's Redis."""
    return Operator(redis_url, GREENROOM_DATA_DIR=str(tmp_path))


async def open_sessions(registry: Registry, count: int) -> list[str]:
    """Put sessions into the line, one after the other; those that find a slot are assigned."""
    names = [new_session_id(POOL) for _ in range(count)]
    for name in names:
        request = OpenRequest(
            pool=POOL,
            session_id=name,
            request=SessionRequest(identity="ann"),
            limits=SessionLimits(queued_s=600),
            queue_size=100,
        )
        await registry.open(request)
    return names
