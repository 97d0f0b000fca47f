"""What is in Redis, and what did a call change there?

`read_all` takes every key of the server in one step. A dump flattens that to single facts:
``s:a state`` → ``running``, ``q a`` → the score, ``s:a ttl`` → seconds, rounded up to tens. Session
ids appear by their letter, so that a comparison can be read. Which run of the server it is, is left
out: it is another one each time.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TypeAlias, cast

from shared.store.keys import KEY_TABLE
from tests.support.redis_server import RawRedis

Facts: TypeAlias = dict[str, str]
"""One entry per hash field, zset member, string, stream entry and time to live."""

Changes: TypeAlias = dict[str, str | None]
"""Facts that are new or other than before; None for those that are gone."""

_SESSION = re.compile(r"default-([a-z2-7])\1{25}")
_PREFIX = re.compile(r"gr:\{[a-z0-9-]+\}:")

_NO_FACTS = ("ctr run", "ctr gen")
_SAVES_WORK = (" settled", " settled_until", " seen")
"""What a beat remembers of the one before it; nothing else reads it."""

_READ_ALL = """
local found = {}
for _, name in ipairs(redis.call('KEYS', '*')) do
  local kind, value = redis.call('TYPE', name).ok, {}
  if kind == 'hash' then value = redis.call('HGETALL', name) end
  if kind == 'zset' then value = redis.call('ZRANGE', name, 0, -1, 'WITHSCORES') end
  if kind == 'list' then
    for place, item in ipairs(redis.call('LRANGE', name, 0, -1)) do
      value[#value + 1] = tostring(place)
      value[#value + 1] = item
    end
  end
  if kind == 'string' then value = {'', redis.call('GET', name)} end
  if kind == 'stream' then
    for place, entry in ipairs(redis.call('XRANGE', name, '-', '+')) do
      local told, by_name = {}, {}
      for i = 1, #entry[2], 2 do by_name[entry[2][i]] = entry[2][i + 1] end
      for _, field in ipairs({'what', 'sid', 'node', 'why'}) do
        if by_name[field] and by_name[field] ~= '' then told[#told + 1] = by_name[field] end
      end
      value[#value + 1] = tostring(place)
      value[#value + 1] = table.concat(told, ' ')
    end
  end
  found[#found + 1] = {name, redis.call('PTTL', name), value}
end
return found
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key: its parts are hash fields, zset members, stream or list places, '' for a string."""

    name: str
    ttl_ms: int
    """-1: it stays for ever."""
    parts: dict[str, str]


def read_all(raw: RawRedis) -> list[Key]:
    """Return every key of the server, as of one instant."""
    found = cast("list[tuple[str, int, list[str]]]", raw.eval(_READ_ALL, 0))
    return [
        Key(name=name, ttl_ms=ttl_ms, parts=dict(zip(flat[::2], flat[1::2], strict=True)))
        for name, ttl_ms, flat in sorted(found)
    ]


def short(text: str) -> str:
    """Replace session ids made by `scenario.sid` by their letter, and drop the pool's prefix."""
    return _SESSION.sub(r"\1", _PREFIX.sub("", text))


def dump(raw: RawRedis) -> Facts:
    """Return every fact of every key on the server."""
    facts: Facts = {}
    for key in read_all(raw):
        name = short(key.name)
        for part, value in key.parts.items():
            fact = short(f"{name} {part}").strip()
            if not fact.endswith(_SAVES_WORK):
                facts[fact] = short(value)
        for told in _NO_FACTS:
            facts.pop(told, None)
        if key.ttl_ms >= 0:
            # In whole tens: on a slow machine seconds go by between a call and the look at it.
            facts[f"{name} ttl"] = str(10 * math.ceil(key.ttl_ms / 10_000))
    return facts


def changes(before: Facts, after: Facts) -> Changes:
    """Return what differs between two dumps."""
    changed: Changes = {fact: value for fact, value in after.items() if before.get(fact) != value}
    changed.update((fact, None) for fact in before if fact not in after)
    return changed


def kind(fact: str) -> str:
    """Return the row of the key table that a fact's key belongs to: ``s:<sid>``, ``q``."""
    name = fact.split(maxsplit=1)[0]
    start = name.split(":", maxsplit=1)[0]
    return next(row.suffix for row in KEY_TABLE if row.suffix.split(":")[0] == start)
