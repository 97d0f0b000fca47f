"""How does a route find out who is calling, and refuse who may not?

Each route that isn't for everybody begins with one of two guards: `require` for what isn't about
one session, `require_session` for what is. What an admin changes stands in an ``async with
access.noted(…)`` (see `admin_acts`). A credential is only taken from the Authorization
header, never from an address, which ends in logs and histories.

Whoever shows something wrong too often is told to wait, by its address. A right key always passes:
behind a proxy all callers have the same address, and none may lock out the others.
"""

from __future__ import annotations

import math

import structlog
from starlette.requests import Request

from control_plane.access import Access, Caller
from control_plane.admin_acts import AdminActs
from control_plane.buckets import Buckets
from control_plane.metrics import Metrics
from control_plane.rate_limits import RateLimits, Use
from shared.access_errors import BadApiKey, ForeignSession, RateLimited, ScopeMissing
from shared.access_keys import Scope
from shared.clock import Clock, SystemClock
from shared.errors import BadSessionToken, GreenroomError, InvalidName, UnknownSession
from shared.ids import pool_of

__all__ = ["Caller", "Guard", "Scope", "known_id"]

WRONG_PER_S = 0.5
WRONG_AT_ONCE = 20
ADDRESSES_KEPT = 10_000

_BEARER = "bearer "
_MOST_CHARS = 512
"""More than any credential has."""
_log = structlog.get_logger()


class Guard:
    """Guards the routes of one replica."""

    def __init__(
        self,
        *,
        access: Access,
        limits: RateLimits,
        acts: AdminActs,
        metrics: Metrics,
        pools: tuple[str, ...],
        clock: Clock | None = None,
    ) -> None:
        self._access = access
        self._limits = limits
        self._metrics = metrics
        self._pools = pools
        self._clock = clock or SystemClock()
        self.noted = acts.noted
        self._wrong = Buckets(per_s=WRONG_PER_S, most=WRONG_AT_ONCE, names_kept=ADDRESSES_KEPT)

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
        try:
            caller = await self._access.holder_of(_credential(request))
            if not caller.may(scope):
                raise ScopeMissing(scope=scope, key_id=caller.key_id)
            if not self.is_open:
                await self._limits.count(caller, _USES[scope])
        except GreenroomError as refusal:
            raise self._told(request, refusal) from refusal.__cause__
        return caller

    async def require_session(self, request: Request, session_id: str, scope: Scope) -> Caller:
        """Return who is calling about *session_id*, if that is its client or a key that may.

        ``Scope.READ`` is for looking at it; ``Scope.CREATE`` for all that its own client may do,
        which is also for the key that made it. After this the id is one of the pools served here.

        Raises:
            NotAllowed: As in `require`; also 403 for the token of another session.
            UnknownSession: Nothing here can have this id; told only to who may ask for any.
        """
        try:
            caller = await self._access.caller_for(session_id, _credential(request), scope)
            if not self.is_open:
                await self._limits.count(caller, Use.READ, session_id)
        except GreenroomError as refusal:
            raise self._told(request, refusal) from refusal.__cause__
        known_id(session_id, self._pools)
        return caller

    def still_knows(self, caller: Caller) -> bool:
        """Say whether a caller who was let in would still be; for streams, which last."""
        return self._access.still_knows(caller)

    def _told(self, request: Request, refusal: GreenroomError) -> GreenroomError:
        """Count a refusal, and return it, or another one for an address with too many."""
        if self.is_open:
            return refusal
        if isinstance(refusal, BadApiKey | BadSessionToken):
            address = _address_of(request)
            if wait_s := self._wrong.take(address, self._clock.monotonic_s()):
                what = "wrong keys from this address"
                refusal = RateLimited(what=what, retry_after_s=max(math.ceil(wait_s), 1))
        elif isinstance(refusal, ScopeMissing | ForeignSession) and refusal.key_id:
            _log.info("access_refused", code=refusal.code, key_id=refusal.key_id)
        self._metrics.access_refused(refusal.code)
        return refusal


_USES = {Scope.CREATE: Use.CREATE, Scope.READ: Use.READ, Scope.ADMIN: Use.READ}


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


def _address_of(request: Request) -> str:
    """Return whose wrong keys are counted together: one IPv4 address, or an IPv6 network of 64."""
    host = request.client.host if request.client else ""
    return ":".join(host.split(":")[:4]) if ":" in host else host
