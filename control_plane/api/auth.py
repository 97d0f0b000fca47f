"""How does a route find out who is calling, and refuse who may not?

Each route that isn't for everybody begins with one of two guards: `require` for what isn't about
one session, `require_session` for what is. A credential is only taken from the Authorization
header, never from an address, which ends in logs and histories.
"""

from __future__ import annotations

from starlette.requests import Request

from control_plane.access import Access, Caller
from shared.access_keys import Scope
from shared.errors import BadApiKey, InvalidName, ScopeMissing, UnknownSession
from shared.ids import pool_of

__all__ = ["Guard", "Scope", "known_id"]

_BEARER = "bearer "
_MOST_CHARS = 512
"""More than any credential has."""


class Guard:
    """Guards the routes of one replica."""

    def __init__(self, access: Access, pools: tuple[str, ...]) -> None:
        self._access = access
        self._pools = pools

    @property
    def is_open(self) -> bool:
        """Nobody needs a key."""
        return self._access.is_open

    async def require(self, request: Request, scope: Scope) -> Caller:
        """Return who is calling, if that is somebody with *scope*.

        Raises:
            NotAllowed: 401 without a valid key, 403 if it may not do this.
            RateLimited: 429, the key is used too often, or too many wrong ones came.
            StoreUnavailable: 503, whether the key is valid can't be known now.
        """
        caller = await self._access.holder_of(_credential(request))
        if not caller.may(scope):
            raise ScopeMissing(scope=scope)
        return caller

    async def require_session(self, request: Request, session_id: str, scope: Scope) -> Caller:
        """Return who is calling about *session_id*, if that is its client or a key that may.

        ``Scope.READ`` is for looking at it; ``Scope.CREATE`` for all that its own client may do,
        which is also for the key that made it. After this the id is one of the pools served here.

        Raises:
            NotAllowed: As in `require`; also 403 for the token of another session.
            UnknownSession: Nothing here can have this id; told only to who may ask for any.
        """
        caller = await self._access.caller_for(session_id, _credential(request), scope)
        known_id(session_id, self._pools)
        return caller


def known_id(session_id: str, pools: tuple[str, ...]) -> str:
    """Return *session_id* if it may name a session of *pools*, else raise `UnknownSession`."""
    try:
        served = pool_of(session_id) in pools
    except InvalidName:
        served = False
    if not served:
        raise UnknownSession(session_id=session_id)
    return session_id


def _credential(request: Request) -> str:
    """Return what was sent as a bearer; empty if nothing was, or something else.

    Raises:
        BadApiKey: Several were sent; who is in front of us may have looked at another one than we.
    """
    sent = [value for name, value in request.scope["headers"] if name == b"authorization"]
    if not sent:
        return ""
    text = sent[0].decode("latin-1")
    if len(sent) > 1 or len(text) > _MOST_CHARS:
        raise BadApiKey
    return text[len(_BEARER) :].strip() if text.lower().startswith(_BEARER) else ""
