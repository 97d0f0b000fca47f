"""Which API keys are there, how much may each still be used, and who did what as an admin?

Keys and allowances belong to no pool: they lie under a tag of their own, `keys.ACCESS`. What an
admin did stands in the trail of the pool that it was done in.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from typing import cast

from shared.access_errors import TooManyKeys, UnknownKey
from shared.access_keys import ApiKey, Scope
from shared.store import keys
from shared.store.connection import Connection

_DIGEST = re.compile(r"[0-9a-f]{64}")
MOST_KEYS = 1_000
"""Every replica holds all of them."""


class AccessRecords:
    """What one registry knows of those who may use the system."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def keys(self) -> dict[str, ApiKey]:
        """Return all valid keys by id; what isn't a record of ours is no valid key.

        Raises:
            StoreUnavailable: Redis is out; nothing can be said about any key.
        """
        name = keys.api_keys_key()
        found = await self._connection.command(keys.ACCESS, "HGETALL", name)
        read = (_read(_text(key_id), record) for key_id, record in _pairs(found))
        return {key.key_id: key for key in read if key is not None}

    async def add(self, key: ApiKey, *, who: str) -> None:
        """Let *key* in; *who* did so is written to the trail.

        Raises:
            TooManyKeys: There are `MOST_KEYS` already, or one with this id.
        """
        word, _ = await self._connection.call(
            "add_key",
            keys.ACCESS,
            key_id=key.key_id,
            record=_record(key),
            told=f"{key.name}: {', '.join(sorted(key.scopes))}",
            who=who,
            most=MOST_KEYS,
        )
        if word != "added":
            raise TooManyKeys(most=MOST_KEYS)

    async def revoke(self, key_id: str, *, who: str) -> None:
        """Take a key away for good; *who* did so is written to the trail.

        Raises:
            UnknownKey: There is none with this id (any more).
        """
        word, _ = await self._connection.call("revoke_key", keys.ACCESS, key_id=key_id, who=who)
        if word == "gone":
            raise UnknownKey(key_id=key_id)

    async def draw(self, holder: str, *, per_s: float, most: int, wanted: int) -> int:
        """Draw up to *wanted* of what *holder* may still do, of *most* that fill with *per_s*.

        Returns how many; if there is none, minus the milliseconds until there is one again.
        """
        word, (number,) = await self._connection.call(
            "draw_allowance",
            keys.ACCESS,
            holder_hash=hashlib.sha256(holder.encode()).hexdigest()[:32],
            per_1000_s=max(round(per_s * 1000), 1),
            most=most,
            wanted=wanted,
        )
        amount = int(cast("str", number))
        return amount if word == "drawn" else -amount

    async def note_act(self, pool: str, act: str, subject: str, *, who: str, outcome: str) -> None:
        """Write to the trail of *pool* what an admin did, to what, and how it went."""
        await self._connection.call(
            "note_act",
            pool,
            act_id=secrets.token_hex(6),
            act=act,
            subject=subject,
            who=who,
            outcome=outcome,
        )


def _record(key: ApiKey) -> str:
    kept = {
        "name": key.name,
        "scopes": sorted(key.scopes),
        "digest": key.digest,
        "created": key.created_at_ms,
    }
    return json.dumps(kept, separators=(",", ":"))


def _read(key_id: str, record: object) -> ApiKey | None:
    try:
        told = json.loads(_text(record))
        if not _DIGEST.fullmatch(told["digest"]):
            return None
        return ApiKey(
            key_id=key_id,
            name=str(told["name"]),
            scopes=frozenset(Scope(word) for word in told["scopes"]),
            digest=told["digest"],
            created_at_ms=int(told["created"]),
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None  # somebody else wrote it


def _pairs(reply: object) -> list[tuple[object, object]]:
    """Return the fields of a hash, whichever protocol the server speaks."""
    if isinstance(reply, dict):
        return list(reply.items())
    flat = cast("list[object]", reply)
    return list(zip(flat[::2], flat[1::2], strict=True))


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
