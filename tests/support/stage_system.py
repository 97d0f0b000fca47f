"""How does a test reach into a running all-in-one over HTTP?

Sessions made here are joined by nobody: they only take a slot, or a place in line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.all_in_one import AllInOne, all_in_one


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """An all-in-one and a client of its API."""

    stack: AllInOne
    http: httpx.Client

    @property
    def address(self) -> str:
        """Where the page is."""
        return self.stack.url

    def create(self, identity: str) -> str:
        """Create a session and return its id."""
        body = {"identity": identity, "role": "controller", "config": {}}
        answer = self.http.post("/v1/stream/sessions", json=body)
        answer.raise_for_status()
        return str(answer.json()["session_id"])

    def end(self, session_id: str) -> None:
        """End a session; returns when its slot is free again."""
        self.http.delete(f"/v1/stream/sessions/{session_id}").raise_for_status()

    def record(self, session_id: str) -> dict[str, Any]:
        """Return what the API says of a session."""
        answer = self.http.get(f"/v1/stream/sessions/{session_id}")
        answer.raise_for_status()
        record: dict[str, Any] = answer.json()
        return record


@contextlib.contextmanager
def running_system(folder: Path, *options: str) -> Iterator[System]:
    """Run `greenroom stream-serve` with *options* until the block is left."""
    with (
        all_in_one(folder, *options) as stack,
        httpx.Client(base_url=stack.url, timeout=15.0, trust_env=False) as http,
    ):
        yield System(stack=stack, http=http)
