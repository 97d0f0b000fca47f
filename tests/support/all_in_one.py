"""How does a test run the real command and see what its processes do?

`AllInOne` is one ``greenroom stream-serve`` with a data folder of its own. Its processes are found
by that folder, which stands in their command or environment: so a process that nobody waits for any
more is found as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from shared.embedded.ports import free_port
from tests.support.wait import scaled_s, wait_until_sync

GREENROOM = Path(sys.executable).with_name("greenroom")
NAMES = {
    "valkey": re.compile(r"(valkey|redis)-server"),
    "livekit": re.compile(r"livekit-server.* --config"),
    "replica": re.compile(r"-m control_plane"),
    "node": re.compile(r"-m gpu_node"),
}


def clean_environment(**more: str) -> dict[str, str]:
    """Return the environment without settings of the person who runs the tests."""
    known = {k: v for k, v in os.environ.items() if not k.startswith(("GREENROOM_", "TELEFUSER_"))}
    return {**known, **more}


def greenroom(
    *arguments: str | Path, cwd: Path, timeout_s: float = 20, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command that is expected to end by itself."""
    return subprocess.run(
        [str(GREENROOM), *map(str, arguments)],
        cwd=cwd,
        env=clean_environment(**more),
        capture_output=True,
        text=True,
        timeout=scaled_s(timeout_s),
        check=False,
    )


class AllInOne:
    """One running all-in-one."""

    def __init__(self, folder: Path, *arguments: str | Path, port: int | None = None) -> None:
        self.port = free_port() if port is None else port
        self.folder = folder
        self.data_dir = folder / "data"
        self.lines: list[str] = []
        command = [GREENROOM, "stream-serve", "--data-dir", self.data_dir]
        self.process = subprocess.Popen(
            [*map(str, command), "--port", str(self.port), *map(str, arguments)],
            cwd=folder,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        """All that it has printed so far."""
        return "\n".join(self.lines)

    @property
    def url(self) -> str:
        """Where its replica answers."""
        return f"http://127.0.0.1:{self.port}"

    def ready(self, timeout_s: float = 30) -> None:
        """Wait until it prints its address."""
        wait_until_sync(
            lambda: "Greenroom is ready" in self.output or self.process.poll() is not None,
            f"the all-in-one is ready; it said:\n{self.output}",
            timeout_s,
        )
        assert self.process.poll() is None, self.output

    def is_usable(self) -> bool:
        """Whether a session could be served now."""
        try:
            with urllib.request.urlopen(f"{self.url}/v1/service/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def create(self, identity: str) -> dict[str, Any]:
        """Create a session and return the answer."""
        return self._ask("/v1/stream/sessions", json.dumps({"identity": identity}).encode())

    def look(self, session_id: str) -> dict[str, Any]:
        """Return how a session stands."""
        return self._ask(f"/v1/stream/sessions/{session_id}")

    def metadata(self) -> dict[str, Any]:
        """Return what the replica tells of the service."""
        return self._ask("/v1/service/metadata")

    def _ask(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        request = urllib.request.Request(
            self.url + path, body, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=scaled_s(5)) as answer:
            parsed: dict[str, Any] = json.load(answer)
        return parsed

    def end(self, number: signal.Signals = signal.SIGINT, timeout_s: float = 30) -> int:
        """Send a signal and return the exit status; everything that it printed is there then."""
        self.process.send_signal(number)
        status = self.process.wait(timeout=scaled_s(timeout_s))
        self._reader.join()
        return status

    def wait(self, timeout_s: float = 30) -> int:
        """Wait for it to end by itself."""
        status = self.process.wait(timeout=scaled_s(timeout_s))
        self._reader.join()
        return status

    def processes(self) -> list[psutil.Process]:
        """Return all processes of this all-in-one but its first one."""
        mark = str(self.data_dir)
        return [found for found in psutil.process_iter() if self._is_child(found, mark)]

    def pid(self, name: str) -> int | None:
        """Return the process id of one of `NAMES`, None while it doesn't run."""
        for found in self.processes():
            with contextlib.suppress(psutil.Error):
                if NAMES[name].search(" ".join(found.cmdline())):
                    return found.pid
        return None

    def kill(self, name: str) -> int:
        """Kill one child as a crash would; returns the process id that it had."""
        pid = self.pid(name)
        assert pid is not None, f"{name} doesn't run"
        os.kill(pid, signal.SIGKILL)
        return pid

    def close(self) -> None:
        """End whatever still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(timeout=scaled_s(5))
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read(self) -> None:
        if self.process.stdout is not None:
            for line in self.process.stdout:
                self.lines.append(line.rstrip("\n"))

    def _is_child(self, found: psutil.Process, mark: str) -> bool:
        try:
            if found.pid == self.process.pid or found.status() == psutil.STATUS_ZOMBIE:
                return False
            told = " ".join(found.cmdline())
            # Redis overwrites its command and environment with a title, but works in its folder.
            where = found.cwd()
            return mark in told or mark in where or mark in found.environ().values()
        except psutil.Error:
            return False


@contextlib.contextmanager
def all_in_one(folder: Path, *arguments: str | Path) -> Iterator[AllInOne]:
    """Run an all-in-one for the length of the block; it is ready at its beginning."""
    running = AllInOne(folder, *arguments)
    try:
        running.ready()
        yield running
    finally:
        running.close()
