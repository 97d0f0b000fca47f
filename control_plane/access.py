"""Who is calling, and what may they do?

Three kinds of callers are known by what they send as a bearer: the admin key of this replica, an
API key with its scopes, and the token of exactly one session. An open replica asks nobody; but a
session token that is shown must be right there, too.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Protocol

from control_plane.admin_key import ADMIN_ID, AdminKey
from control_plane.session_owners import SessionOwners
from control_plane.session_tokens import SessionTokens
from shared.access_errors import BadApiKey, ForeignSession, NoCredentials, ScopeMissing
from shared.access_keys import ApiKey, Scope, digest_of, id_of
from shared.errors import BadSessionToken

SESSION_TOKEN_PREFIX = "gst1."  # noqa: S105 - what each of them begins with


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is calling, as far as it matters."""

    key_id: str = ""
    """Of the API key; empty: a session's client, or anybody on an open replica."""
    name: str = "anybody"
    """What the key is called; nothing secret, it stands in the audit trail."""
    scopes: frozenset[Scope] = frozenset()
    is_client: bool = False
    """It has shown the token of the session that the call is about."""

    def may(self, scope: Scope) -> bool:
        """Whether *scope* is among what it may do."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


ANYBODY = Caller(scopes=frozenset((Scope.ADMIN,)))
"""The caller of an open replica."""
ADMIN = Caller(key_id=ADMIN_ID, name="admin", scopes=ANYBODY.scopes)
"""Whoever has this replica's admin key."""
CLIENT = Caller(name="session", is_client=True)
ANYBODYS_CLIENT = Caller(name="session", is_client=True, scopes=ANYBODY.scopes)


class Keys(Protocol):
    """The API keys that are valid now."""

    async def find(self, key_id: str) -> ApiKey | None:
        """Return the key with this id; raises `StoreUnavailable` if that can't be known."""

    def still_has(self, key_id: str) -> bool:
        """Say whether a key that was found before was still there at the last look."""


class Access:
    """Tells callers apart; the same on all replicas that have the same settings."""

    def __init__(
        self,
        *,
        admin_key: AdminKey | None,
        keys: Keys,
        session_tokens: SessionTokens,
        owners: SessionOwners,
    ) -> None:
        self._admin_digest = digest_of(admin_key.value) if admin_key else None
        self._keys = keys
        self._session_tokens = session_tokens
        self._owners = owners

    @property
    def is_open(self) -> bool:
        """Nobody needs a key."""
        return self._admin_digest is None

    async def holder_of(self, credential: str) -> Caller:
        """Return who holds the key *credential*.

        Raises:
            NoCredentials: Nothing was sent.
            ScopeMissing: It is a session's token, which is good for that session alone.
            BadApiKey: Nobody.
            StoreUnavailable: Whether it is valid can't be known now.
        """
        if self._admin_digest is None:
            return ANYBODY
        if not credential:
            raise NoCredentials
        if credential.startswith(SESSION_TOKEN_PREFIX):
            raise ScopeMissing(scope="")
        digest = digest_of(credential)
        if hmac.compare_digest(digest, self._admin_digest):
            return ADMIN
        key_id = id_of(credential)
        key = await self._keys.find(key_id) if key_id else None
        if key is None or not hmac.compare_digest(digest, key.digest):
            raise BadApiKey
        return Caller(key_id=key.key_id, name=key.name, scopes=key.scopes)

    async def caller_for(self, session_id: str, credential: str, scope: Scope) -> Caller:
        """Return who calls about one session.

        ``read`` is for looking at it, ``create`` for all that its own client may do.

        Raises:
            ForeignSession: The key may only create, and hasn't created this one.
            BadSessionToken: The token is another session's, or forged.
            NotAllowed: As `holder_of`.
        """
        if credential.startswith(SESSION_TOKEN_PREFIX):
            if not self._session_tokens.verify(session_id, credential):
                raise BadSessionToken
            return ANYBODYS_CLIENT if self.is_open else CLIENT
        caller = await self.holder_of(credential)
        if caller.may(Scope.ADMIN) or (scope is Scope.READ and caller.may(Scope.READ)):
            return caller
        if not caller.may(Scope.CREATE):
            raise ScopeMissing(scope=scope, key_id=caller.key_id)
        if not self._owners.is_owner(caller.key_id, session_id):
            raise ForeignSession(key_id=caller.key_id)
        return caller

    def still_knows(self, caller: Caller) -> bool:
        """Say whether *caller* is still valid: its key may have been revoked meanwhile."""
        return caller.key_id in ("", ADMIN_ID) or self._keys.still_has(caller.key_id)
