"""What is in Redis, and what did a call change there?

A dump holds every key, flattened to single facts: ``s:a state`` → ``running``, ``q a`` → the score,
``s:a ttl`` → seconds. Session ids appear by their letter, so that a comparison can be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from shared.store.keys import KEY_TABLE
from tests.support.redis_server import RawRedis

Facts: TypeAlias = dict[str, str]
"""One entry per hash field, zset member, string, stream entry and time to live."""

Changes: TypeAlias = dict[str, str | None]
"""Facts that are new or other than before; None for those that are gone."""

_SESSION = re.compile(r"default-([a-z2-7])\1{25}")
_PREFIX = re.compile(r"gr:\{[a-z0-9-]+\}:")


def short(text: str) -> str:
    """Replace session ids made by `scenario.sid` by their letter, and drop the pool's prefix."""
    return _SESSION.sub(r"\1", _PREFIX.sub("", text))


def dump(raw: RawRedis) -> Facts:
    """Return every fact of every key on the server."""
    facts: Facts = {}
    for key in sorted(cast("list[str]", raw.keys("*"))):
        name = short(key)
        for part, value in _READ[cast("str", raw.type(key))](raw, key).items():
            facts[short(f"{name} {part}").strip()] = short(value)
        ttl_ms = raw.pttl(key)
        if ttl_ms >= 0:
            facts[f"{name} ttl"] = str(round(ttl_ms / 1000))
    return facts


def changes(before: Facts, after: Facts) -> Changes:
    """Return what differs between two dumps."""
    changed: Changes = {fact: value for fact, value in after.items() if before.get(fact) != value}
    changed.update((fact, None) for fact in before if fact not in after)
    return changed


def kind(fact: str) -> str:
    """Return the row of the key table that a fact's key belongs to: ``s:<sid>``, ``q``."""
    name = fact.split(maxsplit=1)[0]
    start = name.split(":")[0]
    return next(row.suffix for row in KEY_TABLE if row.suffix.split(":")[0] == start)


def _hash(raw: RawRedis, key: str) -> Mapping[str, str]:
    return cast("dict[str, str]", raw.hgetall(key))


def _zset(raw: RawRedis, key: str) -> Mapping[str, str]:
    scores = cast("list[tuple[str, float]]", raw.zrange(key, 0, -1, withscores=True))
    return {member: f"{score:.15g}" for member, score in scores}


def _string(raw: RawRedis, key: str) -> Mapping[str, str]:
    return {"": cast("str", raw.get(key))}


def _stream(raw: RawRedis, key: str) -> Mapping[str, str]:
    """Entries by place: what happened to which session or node, and why."""
    entries = cast("list[tuple[str, dict[str, str]]]", raw.xrange(key))
    told = ("what", "sid", "node", "why")
    return {
        str(place): " ".join(fields[name] for name in told if fields.get(name))
        for place, (_, fields) in enumerate(entries, 1)
    }


_READ: dict[str, Callable[[RawRedis, str], Mapping[str, str]]] = {
    "hash": _hash,
    "zset": _zset,
    "string": _string,
    "stream": _stream,
}
