"""How does a test get a TURN server that relays on this machine?

A real coturn with the options that deploy/compose.yaml gives it, on a free port of loopback.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shared.embedded.ports import free_port
from tests.support.compose_file import services, words_of_the_example
from tests.support.wait import wait_until_sync

PROGRAM = "turnserver"
SECRET = "a-secret-that-livekit-and-coturn-share"
_HERE = ("--listening-ip=127.0.0.1", "--relay-ip=127.0.0.1", "--allow-loopback-peers")
"""What it needs where browser, relay and media server share one machine, and nowhere else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnServer:
    """One coturn that a test may end."""

    port: int
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def for_livekit(self) -> str:
        """What LiveKit's ``rtc`` says of it, as compose.yaml does."""
        named = f"host: 127.0.0.1, port: {self.port}, secret: {SECRET}"
        return f"turn_servers: [{{{named}, protocol: udp}}, {{{named}, protocol: tcp}}]"

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def running_turn(folder: Path) -> Iterator[TurnServer]:
    """Run one for the length of the block; it listens when that begins."""
    words = {**dict.fromkeys(words_of_the_example(), SECRET), "PUBLIC_IP": "127.0.0.1"}
    port, log = free_port(), folder / "turn.log"
    command = [word.replace("3478", str(port)) for word in services(words)["turn"].command]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [PROGRAM, *command, *_HERE], cwd=folder, stdout=file, stderr=subprocess.STDOUT
        )
    server = TurnServer(port=port, log=log, process=process)
    try:
        wait_until_sync(lambda: _listens(server), "coturn listens", timeout_s=20)
        yield server
    finally:
        server.kill()


def is_installed() -> bool:
    """Tell whether coturn is there."""
    return shutil.which(PROGRAM) is not None


def _listens(server: TurnServer) -> bool:
    assert server.process.poll() is None, server.log.read_text(errors="replace")[-2000:]
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", server.port)) == 0
