"""Which key made this session?

The answer is in the session's id: its last letters are a keyed digest of its first ones and of the
key's id. So every replica knows it without a look into the registry, it survives the loss of all
data, and nobody else can make such an id. What is left is as random as a key: 80 bits.
"""

from __future__ import annotations

import hmac

from shared.ids import letters, new_session_id
from shared.signing import Signer

_MARK_CHARS = 10
"""50 bits: whoever tries a key on a foreign session has one chance in 10**15."""


class SessionOwners:
    """Makes ids of sessions and tells who made them, with one secret that all replicas share."""

    def __init__(self, secret: bytes) -> None:
        self._signer = Signer(secret, b"greenroom session owner v1:")

    def new_id(self, pool: str, key_id: str) -> str:
        """Return a fresh id for a session of *key_id*; of nobody, if that is empty."""
        session_id = new_session_id(pool)
        if not key_id:
            return session_id
        start = session_id[:-_MARK_CHARS]
        return start + self._mark(start, key_id)

    def is_owner(self, key_id: str, session_id: str) -> bool:
        """Say whether *key_id* made *session_id*, in constant time; nobody made none."""
        start, mark = session_id[:-_MARK_CHARS], session_id[-_MARK_CHARS:]
        expected = self._mark(start, key_id)
        return bool(key_id) and hmac.compare_digest(
            expected.encode(), mark.encode("utf-8", "surrogatepass")
        )

    def _mark(self, start: str, key_id: str) -> str:
        mac = self._signer.digest(f"{key_id}\0{start}".encode("utf-8", "surrogatepass"))
        return letters(mac[:_MARK_CHARS])
