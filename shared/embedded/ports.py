"""Which local port may a server have, today and at the next start?

A port is chosen once and kept in a file, so that a restart, of the child or of everything, is found
under the same address. The choice stays below the range from which the kernel hands out ports for
outgoing connections: none of those can take it while its server is down for a moment.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
from pathlib import Path

from shared.errors import StartupError

_LOWEST, _HIGHEST = 18_000, 32_000
_TRIES = 200

TCP = socket.SOCK_STREAM
UDP = socket.SOCK_DGRAM


def is_free(port: int, kind: socket.SocketKind = TCP, host: str = "127.0.0.1") -> bool:
    """Tell whether a server could bind *port* on *host* now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, kind) as probe:
        if kind == TCP:
            # As servers do: connections that are still closing don't count as taken.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            if kind == TCP:
                probe.listen(1)
        except OSError:
            return False
    return True


def free_port(
    kind: socket.SocketKind = TCP, *, host: str = "127.0.0.1", avoid: frozenset[int] = frozenset()
) -> int:
    """Return a port that is free now and not in *avoid*."""
    chooser = random.SystemRandom()
    for _ in range(_TRIES):
        port = chooser.randint(_LOWEST, _HIGHEST)
        if port not in avoid and is_free(port, kind, host):
            return port
    raise StartupError(f"No free port was found on {host} between {_LOWEST} and {_HIGHEST}.")


def read_ports(path: Path) -> dict[str, int]:
    """Return the ports kept in *path*; empty if none were."""
    with contextlib.suppress(OSError, ValueError):
        return {str(name): int(port) for name, port in json.loads(path.read_text()).items()}
    return {}


def kept_ports(path: Path, wanted: dict[str, socket.SocketKind]) -> dict[str, int]:
    """Return a port for each name in *wanted*: those kept in *path* if still free, else new ones.

    The caller holds the lock of the data folder, so nobody else writes the file.
    """
    before = read_ports(path)
    ports: dict[str, int] = {}
    for name, kind in wanted.items():
        port = before.get(name, 0)
        if not port or not is_free(port, kind):
            port = free_port(kind, avoid=frozenset(ports.values()))
        ports[name] = port
    if ports != before:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(ports) + "\n")
    return ports
