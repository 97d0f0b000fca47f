"""How does a person send one raw command to the registry, where no redis-cli is?

For looking, not for the house's own code: nothing here knows scripts or keys. One connection, one
command, one reply as plain Python values.
"""

from __future__ import annotations

import redis

from shared.errors import StartupError

_ANSWER_WITHIN_S = 5.0


def ask(url: str, command: tuple[str, ...]) -> object:
    """Send *command* and return its reply, all bytes decoded to text.

    Raises:
        StartupError: The server can't be reached, or it refuses the command.
    """
    client = redis.Redis.from_url(
        url, socket_timeout=_ANSWER_WITHIN_S, socket_connect_timeout=_ANSWER_WITHIN_S
    )
    try:
        return _plain(client.execute_command(*command))  # type: ignore[no-untyped-call]
    except redis.exceptions.ResponseError as refusal:
        raise StartupError(f"Redis refuses this command: {refusal}.") from refusal
    except (redis.exceptions.RedisError, OSError) as fault:
        raise StartupError(
            "Redis can't be reached.", try_="start greenroom first, or give --redis-url"
        ) from fault
    finally:
        client.close()


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    return value
