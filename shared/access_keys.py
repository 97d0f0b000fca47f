"""What is an API key, and what may it be used for? Pure.

A key is ``grk_<id>_<secret>``. The id is no secret: it is how a key is found, listed and revoked.
The secret has 160 random bits, so a plain SHA-256 of the whole key is all that is ever stored:
nobody can try out that many, and there is nothing in it to guess.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from shared.errors import InvalidName

_KEY = re.compile(r"grk_(?P<id>[a-z2-7]{8}|admin)_[A-Za-z0-9]{16,128}")
_NAMED = re.compile(r"(?:grk_)?(?P<id>[a-z2-7]{8}|admin)(?:_.*)?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,47}")


class Scope(StrEnum):
    """What a key may be used for."""

    CREATE = "create"
    """Create sessions, and do with those that this key made what their own clients may."""
    READ = "read"
    """Look at any session whose id is known, and at the numbers."""
    ADMIN = "admin"
    """Everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """What is known of a key; the key itself is not."""

    key_id: str
    name: str
    scopes: frozenset[Scope]
    digest: str
    """SHA-256 of the whole key, as hex."""
    created_at_ms: int = 0

    def allows(self, scope: Scope) -> bool:
        """Whether it may be used for *scope*."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


def new_key(key_id: str | None = None) -> str:
    """Return a fresh key, under a fresh id unless one is given."""
    return f"grk_{key_id or _letters(5)}_{_letters(20)}"


def id_of(key: str) -> str | None:
    """Return the id that *key* names, None if it has not the form of a key."""
    match = _KEY.fullmatch(key)
    return match["id"] if match else None


def named_id(text: str) -> str | None:
    """Return the id in *text*, which is an id or a key, perhaps cut short; None if it's neither."""
    match = _NAMED.fullmatch(text.strip())
    return match["id"] if match else None


def digest_of(key: str) -> str:
    """Return what is stored of *key*; compared in constant time, by `hmac.compare_digest`."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def check_key_name(name: str) -> str:
    """Return *name* if a key may be called so, else raise `InvalidName`."""
    if not _NAME.fullmatch(name):
        raise InvalidName(
            what="name of a key", name=name, allowed="1 to 48 of letters, digits and '._@-'"
        )
    return name


def scopes_of(words: Iterable[str]) -> frozenset[Scope]:
    """Return the scopes that *words* name, or raise `InvalidName`."""
    allowed = ", ".join(Scope)
    found = set()
    for word in words:
        try:
            found.add(Scope(word))
        except ValueError:
            raise InvalidName(what="scope", name=word, allowed=allowed) from None
    if not found:
        raise InvalidName(what="scope", name="", allowed=allowed)
    return frozenset(found)


def _letters(count: int) -> str:
    """Return *count* random bytes as base32; five bytes are eight letters."""
    return base64.b32encode(secrets.token_bytes(count)).decode().lower()
