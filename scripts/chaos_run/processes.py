"""What are the processes of a run, and what is in their environment?

Everything listens on loopback and lies in one temporary folder. Nothing of the person who runs this
gets in: neither settings nor proxies.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from scripts.chaos_run.schedule import REDIS
from shared.embedded.child import ChildSpec
from shared.embedded.probes import http_ok, redis_pong
from shared.settings import variable_of
from tests.support.redis_server import BINARIES

ROOT = Path(__file__).resolve().parents[2]


def redis_with_file(folder: Path, port: int, *, flavour: str) -> ChildSpec:
    """Return a Redis with an append-only file, as one is run in production."""
    folder.mkdir(parents=True)
    options = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
    place = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder))
    return ChildSpec(
        name=REDIS,
        argv=(BINARIES[flavour], *options, *place),
        env=environment(),
        ready=redis_pong(port),
    )


def replica(name: str, port: int, settings: Mapping[str, object]) -> ChildSpec:
    """Return one replica."""
    return ChildSpec(
        name=name,
        argv=(sys.executable, "-m", "control_plane"),
        env=environment({**settings, "port": port}),
        ready=http_ok(port, "/v1/service/health"),
        shown=True,
    )


def node(
    name: str,
    settings: Mapping[str, object],
    *,
    module: str = "gpu_node",
    more: Mapping[str, str] | None = None,
) -> ChildSpec:
    """Return one node: whether it serves is known to the registry alone.

    Args:
        name: Its node id, too.
        settings: By field.
        module: What is run.
        more: Variables that aren't settings.
    """
    return ChildSpec(
        name=name,
        argv=(sys.executable, "-m", module),
        env={**environment({**settings, "node_id": name}), **(more or {})},
        ready=_always,
        shown=True,
    )


def environment(settings: Mapping[str, object] | None = None) -> dict[str, str]:
    """Return a clean environment with *settings*, by field, in it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GREENROOM_", "TELEFUSER_")) and not name.lower().endswith("_proxy")
    }
    given = {variable_of(field): str(value) for field, value in (settings or {}).items()}
    return {**kept, "PYTHONPATH": str(ROOT), **given}


async def _always() -> bool:
    return True
