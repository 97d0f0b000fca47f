"""How does a test get the whole system, as a person starts it, and reach into it?

One `greenroom stream-serve` with servers of its own on free ports; whatever it has started is
killed with it. Its log is shown when it doesn't become ready.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from shared.embedded.ports import free_port
from tests.support.wait import wait_until_sync

_READY_WITHIN_S = 40.0
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "ws_proxy", "wss_proxy", "no_proxy")


def _environment() -> dict[str, str]:
    """Return the environment without settings and proxies of whoever runs the tests."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GREENROOM_", "TELEFUSER_")) and name.lower() not in _PROXIES
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A running all-in-one."""

    address: str
    http: httpx.Client
    process: psutil.Process

    def create(self, identity: str) -> str:
        """Create a session over HTTP; nobody joins it, so it only takes a slot or a place."""
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

    def child(self, word: str) -> psutil.Process:
        """Return the child process whose command line has *word* in it."""
        found = [one for one in self.process.children(recursive=True) if _has(one, word)]
        assert found, f"no child process runs {word}"
        return found[0]

    def is_ready(self) -> bool:
        """Tell whether a session could be served now."""
        with contextlib.suppress(httpx.TransportError):
            return self.http.get("/v1/service/ready").status_code == httpx.codes.OK
        return False


def _has(process: psutil.Process, word: str) -> bool:
    try:
        return any(word in part for part in process.cmdline())
    except psutil.Error:
        return False


@contextlib.contextmanager
def running_system(folder: Path, *options: str) -> Iterator[System]:
    """Run `greenroom stream-serve` with *options* until the block is left."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    log = folder / "stack.log"
    command = [str(Path(sys.executable).with_name("greenroom")), "stream-serve"]
    command += ["--port", str(port), "--data-dir", str(folder / "data"), *options]
    with log.open("wb") as output:
        stack = subprocess.Popen(command, stdout=output, stderr=output, env=_environment())
    try:
        with httpx.Client(base_url=address, timeout=15.0, trust_env=False) as http:
            system = System(address=address, http=http, process=psutil.Process(stack.pid))
            try:
                wait_until_sync(system.is_ready, "the system is ready", _READY_WITHIN_S)
            except AssertionError as late:
                late.add_note(log.read_text(errors="replace")[-4000:])
                raise
            yield system
    finally:
        stack.kill()
        stack.wait()
