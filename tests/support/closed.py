"""How does a test run a closed replica, and call it as somebody?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from control_plane.app import Replica
from shared.access_keys import ApiKey, Scope, digest_of, id_of, new_key
from shared.store import Registry
from tests.support.replica import Client, served, settings_for

ADMIN_KEY = "grk_admin_" + "a2b3c4d5" * 4


def bearer(credential: str) -> dict[str, str]:
    """Return the header that shows *credential*."""
    return {"Authorization": f"Bearer {credential}"}


async def add_key(registry: Registry, *scopes: Scope, name: str = "backend") -> str:
    """Let a new key in, and return it."""
    key = new_key()
    key_id = id_of(key)
    assert key_id is not None
    record = ApiKey(key_id=key_id, name=name, scopes=frozenset(scopes), digest=digest_of(key))
    await registry.access.add(record, who="test")
    return key


@asynccontextmanager
async def closed(
    redis_url: str, livekit_url: str, **options: object
) -> AsyncIterator[tuple[Replica, Client]]:
    """Run one closed replica, and return it with a client that shows nothing."""
    settings = settings_for(redis_url, livekit_url, admin_key=ADMIN_KEY, **options)
    async with served(settings) as running:
        yield running
