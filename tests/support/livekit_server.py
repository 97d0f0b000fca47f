"""How does a test get a real LiveKit server of its own?

One process on free loopback ports, ready when it answers, gone when the block ends. The binary is
the one that `scripts/livekit/build` made; without it there is a clear error, never a silent skip.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.wait import wait_until_sync

API_KEY = "devkey"
API_SECRET = "a-secret-of-the-tests-that-is-long-enough"
RELEASE = "v1.13.5"
_PORTS = (20_000, 32_000)


class LiveKitServer:
    """One server that a test may kill and start again on the same ports."""

    def __init__(self, folder: Path, webhook_urls: Sequence[str] = (), rtc: str = "") -> None:
        self._webhook_urls = webhook_urls
        self._rtc = rtc
        self.port, self._tcp_port = _free_ports(socket.SOCK_STREAM, 2)
        (self._udp_port,) = _free_ports(socket.SOCK_DGRAM, 1)
        self.url = f"ws://127.0.0.1:{self.port}"
        self.api_key, self.api_secret = API_KEY, API_SECRET
        self._config = folder / "livekit.yaml"
        self._config.write_text(self._yaml())
        self._log = folder / "livekit.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [livekit_binary(), "--config", self._config], stdout=log, stderr=log
            )
        wait_until_sync(self._answers, f"LiveKit answers on {self.url}", timeout_s=15)

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log(self) -> str:
        """What it printed so far."""
        return self._log.read_text(errors="replace")

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"LiveKit ended at once:\n{self.log()[-2000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=1) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _yaml(self) -> str:
        urls = ", ".join(f'"{url}"' for url in self._webhook_urls)
        webhook = f"webhook: {{api_key: {API_KEY}, urls: [{urls}]}}\n" if urls else ""
        return webhook + (
            f"port: {self.port}\n"
            'bind_addresses: ["127.0.0.1"]\n'
            f"keys: {{{API_KEY}: {API_SECRET}}}\n"
            "logging: {level: warn}\n"
            "rtc:\n"
            f"  tcp_port: {self._tcp_port}\n"
            f"  udp_port: {self._udp_port}\n"
            "  use_external_ip: false\n"
            "  node_ip: 127.0.0.1\n"
            "  enable_loopback_candidate: true\n"
            "  interfaces: {includes: [lo]}\n" + (f"  {self._rtc}\n" if self._rtc else "")
        )


@contextlib.contextmanager
def running_livekit(*webhook_urls: str, rtc: str = "") -> Iterator[LiveKitServer]:
    """Run one server for the length of the block; it tells these URLs what happens in rooms.

    *rtc*: one more line below its ``rtc``.
    """
    with tempfile.TemporaryDirectory(prefix="greenroom-livekit-") as folder:
        server = LiveKitServer(Path(folder), webhook_urls, rtc)
        server.start()
        try:
            yield server
        finally:
            server.kill()


@pytest.fixture(scope="session")
def livekit_server() -> Iterator[LiveKitServer]:
    """One server for all tests of a run; sessions keep them apart."""
    with running_livekit() as server:
        yield server


def livekit_binary() -> Path:
    """Return the server's binary or say how to get it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "greenroom" / "bin"
    binary = cache / f"livekit-server-{RELEASE}"
    if not binary.is_file():
        raise FileNotFoundError(f"{binary} isn't there: build it once with scripts/livekit/build.")
    return binary


def free_ports(count: int) -> tuple[int, ...]:
    """Return ports that nobody listens on, for a test's own servers."""
    return _free_ports(socket.SOCK_STREAM, count)


def _free_ports(kind: socket.SocketKind, count: int) -> tuple[int, ...]:
    """Return ports that nobody holds, below the range from which outgoing connections take theirs.

    Else one of those might take the port while the server isn't running, as between two starts.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(*_PORTS)
        with socket.socket(socket.AF_INET, kind) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return tuple(found)
