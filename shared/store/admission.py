"""Open, wait in line, leave the line, hand a slot on."""

from __future__ import annotations

import hashlib
from typing import Literal, cast

from shared.errors import AssetBudgetSpent, IdempotencyMismatch, NotWaiting, UnknownSession
from shared.ids import pool_of
from shared.records import Admitted, Ended, Opened, OpenRequest, Queued, Refused, SessionRecord
from shared.states import Reason, SessionState
from shared.store import replies
from shared.store.connection import Connection
from shared.waiting import Line, Suspect

Settled = Literal["abandoned", "extended", "moved", "gone"]
IMAGE_BUDGET_BYTES = 256 * 1024 * 1024
"""All images of one pool's live sessions together."""
TICKETS_READ = 1_000
"""Of the first in line: a ticket is dearer than a name."""
WAITING_READ = 10_000
"""The longest line that may be set; a millisecond of the server, half a megabyte on the wire."""
RESIDENTS_READ = 200
"""Enough to tell how far along those on stage are."""


class Admission:
    """The way into the line and out of it again."""

    def __init__(self, connection: Connection, images: Connection) -> None:
        self._connection = connection
        self._images = images

    async def open(self, request: OpenRequest) -> Opened:
        """Put a session in line; it may be assigned in the same step.

        Raises:
            IdempotencyMismatch: The key was used with another body.
            StoreUnavailable: Redis is out; nothing is lost, the call may be repeated.
        """
        word, rest = await self._connection.call(
            "open_session",
            request.pool,
            session_id=request.session_id,
            idempotency_hash=request.idempotency_hash,
            fingerprint=request.fingerprint,
            queue_size=request.queue_size,
            **_identity_limits(request),
            identity=request.request.identity,
            request=replies.request_json(request.request),
            **replies.limits(request.limits),
        )
        match word:
            case "conflict":
                raise IdempotencyMismatch
            case "limited":
                return Refused(detail="identity_limit")
            case "full":
                return Refused(detail="queue_full" if request.queue_size else "no_idle_worker")
            case _:
                record = replies.session(rest[0])
                replay = word == "exists" and bool(request.idempotency_hash)
                return _opened(record, replay=replay)

    async def cancel(self, session_id: str, reason: Reason) -> SessionRecord:
        """End a session: a waiting one at once, a resident one when its node has cleaned up.

        Raises:
            UnknownSession: There is no such session (any more).
        """
        word, rest = await self._connection.call(
            "cancel_session", pool_of(session_id), session_id=session_id, reason=reason
        )
        if word == "gone":
            raise UnknownSession(session_id=session_id)
        return replies.session(rest[0])

    async def cancel_waiting(self, session_id: str, reason: Reason) -> SessionRecord:
        """End a session if it waits in line; repeating it is harmless.

        Raises:
            UnknownSession: There is no such session (any more).
            NotWaiting: It was served meanwhile, and goes on.
        """
        word, rest = await self._connection.call(
            "cancel_waiting", pool_of(session_id), session_id=session_id, reason=reason
        )
        if word == "gone":
            raise UnknownSession(session_id=session_id)
        record = replies.session(rest[0])
        if word == "served":
            raise NotWaiting(session_id=session_id, state=record.state)
        return record

    async def settle_waiting(self, suspect: Suspect, *, present: bool) -> Settled:
        """Say whether the client of a silent waiting session is in its room.

        ``moved``: it has given a sign of life meanwhile, or doesn't wait any more.
        """
        word, _ = await self._connection.call(
            "settle_waiting",
            pool_of(suspect.session_id),
            session_id=suspect.session_id,
            version=suspect.version,
            lease=suspect.lease_ms,
            present=present,
        )
        return cast("Settled", word)

    async def line(self, pool: str) -> Line:
        """Return one pool's line, as far as `WAITING_READ`, and what its movement depends on."""
        _, rest = await self._connection.call(
            "read_line",
            pool,
            most_waiting=WAITING_READ,
            most_tickets=TICKETS_READ,
            most_residents=RESIDENTS_READ,
        )
        return replies.line(pool, rest)

    async def note_estimate(self, session_id: str, seconds: tuple[float, float, float]) -> None:
        """Remember what was promised: *seconds* are the middle, the least and the most."""
        middle, low, high = (round(value * 1000) for value in seconds)
        await self._connection.call(
            "note_estimate",
            pool_of(session_id),
            session_id=session_id,
            middle_ms=middle,
            low_ms=low,
            high_ms=high,
        )

    async def put_image(self, session_id: str, image: bytes) -> None:
        """Keep *image* for a session that is about to be opened.

        On a connection of its own: half a megabyte must not stand in the way of a heartbeat.

        Raises:
            AssetBudgetSpent: The pool's images are over `IMAGE_BUDGET_BYTES`.
        """
        word, _ = await self._images.call(
            "put_image",
            pool_of(session_id),
            session_id=session_id,
            image=image,
            budget_bytes=IMAGE_BUDGET_BYTES,
        )
        if word == "over":
            raise AssetBudgetSpent


def _identity_limits(request: OpenRequest) -> dict[str, str | int]:
    """Name the identity by a digest, and only if its sessions are to be counted."""
    limits, digest = request.identity_limits, ""
    if limits.are_set:
        whose = f"{request.caller}\0" if request.caller else ""
        digest = hashlib.sha256(f"{whose}{request.request.identity}".encode()).hexdigest()[:32]
    return {
        "identity_hash": digest,
        "most_waiting": limits.waiting,
        "most_active": limits.active,
    }


def _opened(record: SessionRecord, *, replay: bool) -> Opened:
    if record.ended:
        return Ended(session=record)
    if record.state is SessionState.QUEUED:
        return Queued(session=record, replay=replay)
    return Admitted(session=record, replay=replay)
