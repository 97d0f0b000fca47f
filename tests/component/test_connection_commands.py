"""How commands are written on a connection of ours: as redis-py writes them, only faster."""

from __future__ import annotations

from typing import Any

import pytest
import redis.asyncio.connection
import redis.exceptions
from hypothesis import given
from hypothesis import strategies as st

from shared.store.connecting import LocalConnection
from shared.store.multiplexer import Multiplexer

PARTS = st.binary(max_size=40) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=40
) | st.integers(-(2**70), 2**70)  # fmt: skip


def written(kind: type[Any], path: str, *command: object) -> bytes:
    """Return a command as that kind of connection writes it."""
    return b"".join(kind(path=path).pack_command(*command))


@given(name=st.sampled_from(("EVALSHA", "SET", "CONFIG GET")), parts=st.lists(PARTS, max_size=5))
def test_a_command_is_the_same_bytes(name: str, parts: list[object]) -> None:
    """Also one whose name is two words."""
    theirs = redis.asyncio.connection.UnixDomainSocketConnection

    assert written(LocalConnection, "/x", name, *parts) == written(theirs, "/x", name, *parts)


@pytest.mark.parametrize("part", [None, True, object(), "\ud800"])
async def test_what_cant_be_written_is_one_callers_fault(redis_url: str, part: Any) -> None:
    """Those who share the connection are answered, in order."""
    path = redis_url.removeprefix("unix://").partition("?")[0]
    shared = Multiplexer(lambda: LocalConnection(path=path))
    try:
        before, broken, after = (
            shared.send(("ECHO", "one")),
            shared.send(("ECHO", part)),
            shared.send(("ECHO", "two")),
        )
        with pytest.raises((redis.exceptions.DataError, UnicodeError)):
            await broken
        assert [await before, await after] == [b"one", b"two"]
    finally:
        await shared.aclose()
