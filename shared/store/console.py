"""How does a person send one raw command to the registry, where no redis-cli is?

For looking, not for the house's own code: nothing here knows scripts or keys. One connection, one
command, one reply as plain Python values. In a cluster the server that holds the pool is asked, or
the one that it names instead.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import redis

from shared.errors import StartupError
from shared.store.endpoints import Endpoints, Nowhere

_ANSWER_WITHIN_S = 5.0
_WHERE_IN_A_SCRIPT = re.compile(r"\s*script: .*$", re.DOTALL)


def ask(url: str, pool: str, command: tuple[str, ...]) -> object:
    """Send *command* and return its reply, all bytes decoded to text.

    Raises:
        StartupError: The server can't be reached, or it refuses the command.
    """
    endpoints = Endpoints(url)
    try:
        try:
            return _ask(endpoints, pool, command)
        except redis.exceptions.MovedError as fault:
            if endpoints.finder is None:
                raise
            endpoints.finder.learn(pool, fault)
            return _ask(endpoints, pool, command)
    except redis.exceptions.ResponseError as refusal:
        raise StartupError(f"Redis refuses this command: {refusal}.") from refusal
    except Nowhere as fault:
        raise StartupError(
            f"Redis can't be reached ({fault}).", try_="give another --redis-url"
        ) from fault
    except (redis.exceptions.RedisError, OSError) as fault:
        raise StartupError(
            "Redis can't be reached.", try_="start greenroom first, or give --redis-url"
        ) from fault


@contextlib.contextmanager
def refusals_told() -> Iterator[None]:
    """Turn what a server refuses a look into a sentence: somebody else has written there."""
    try:
        yield
    except redis.exceptions.ResponseError as refusal:
        text = _WHERE_IN_A_SCRIPT.sub("", str(refusal))
        raise StartupError(
            f"The registry holds what Greenroom never wrote: {text}.",
            try_="see who else writes to this Redis",
        ) from refusal


def _ask(endpoints: Endpoints, pool: str, command: tuple[str, ...]) -> object:
    with endpoints.client(endpoints.find(pool), _ANSWER_WITHIN_S) as client:
        return _plain(client.execute_command(*command))


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    return value
