"""revoke_key: an API key is taken away for good."""

from __future__ import annotations

import pytest

from shared.access_errors import UnknownKey
from shared.store import Registry
from shared.store.scripts import Argument
from tests.support.scenario import World

NEW: dict[str, Argument] = {
    "key_id": "abcdefgh",
    "record": "{}",
    "told": "backend: create",
    "who": "ann@ops",
    "most": 2,
}


def test_a_revoked_key_is_gone_for_good(world: World) -> None:
    """It is told once; whoever repeats hears that it is gone."""
    world.run("add_key", **NEW)
    assert world.call_once("revoke_key", key_id="abcdefgh", who="ann")[0] == "revoked"
    assert world.changes == {"keys abcdefgh": None, "ev 2": "key_revoked"}
    assert world.call("revoke_key", key_id="abcdefgh", who="ann")[0] == "gone"
    assert world.changes == {}


async def test_an_unknown_key_is_an_error(registry: Registry) -> None:
    """Whoever mistyped an id must not think that a key is gone."""
    with pytest.raises(UnknownKey):
        await registry.access.revoke("abcdefgh", who="ann")
