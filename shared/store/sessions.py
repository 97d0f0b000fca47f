"""Read a session; move it along; close it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from typing import Literal, cast

from shared.errors import IllegalMove, UnknownSession
from shared.ids import pool_of
from shared.records import (
    AdvanceReply,
    Fenced,
    Moved,
    MustStop,
    Owner,
    SessionRecord,
    SessionRequest,
)
from shared.silence import NO_SILENCE, Silence
from shared.states import Reason, SessionState
from shared.store import keys, replies
from shared.store.connection import Connection

GivenBack = Literal["returned", "ended", "fenced"]
FirstFrame = Literal["noted", "already", "fenced"]
Credited = Literal["credited", "already", "fenced"]
EndConfirmed = Literal["ended", "already", "fenced"]


class Sessions:
    """What may be asked about a session, and what its node may do with it."""

    def __init__(self, connection: Connection, images: Connection) -> None:
        self._connection = connection
        self._images = images

    async def touch(
        self, session_ids: Iterable[str], *, replica: str = ""
    ) -> dict[str, SessionRecord]:
        """Return the sessions that exist, with live positions; a sign of life of those that wait.

        A named *replica* is told of their changes from now on (`wakeups.session_hints`).
        """
        found: dict[str, SessionRecord] = {}
        for pool, group in groupby(sorted(set(session_ids), key=pool_of), key=pool_of):
            _, rest = await self._connection.call(
                "touch_sessions", pool, session_ids=" ".join(group), replica=replica
            )
            found.update((record.session_id, record) for record in map(replies.session, rest))
        return found

    async def read(self, session_id: str) -> SessionRecord:
        """Return one session; no sign of life.

        Raises:
            UnknownSession: There is no such session (any more).
        """
        word, rest = await self._connection.call(
            "read_session", pool_of(session_id), session_id=session_id
        )
        if word == "gone":
            raise UnknownSession(session_id=session_id)
        return replies.session(rest[0])

    async def request(self, session_id: str) -> SessionRequest | None:
        """Return what the client asked for, or None if the session is unknown."""
        pool = pool_of(session_id)
        raw = await self._connection.get(pool, keys.request_key(pool, session_id))
        return None if raw is None else replies.request(raw)

    async def image(self, session_id: str) -> bytes | None:
        """Return the session's image (JPEG), if it has one."""
        pool = pool_of(session_id)
        return await self._images.get(pool, keys.image_key(pool, session_id))

    async def advance(
        self,
        owner: Owner,
        state: SessionState,
        *,
        stamp: int,
        pipeline_session_id: str | None = None,
        reason: Reason | None = None,
    ) -> AdvanceReply:
        """Move the session to *state* in the name of its owner.

        Args:
            owner: Who speaks; anybody but the current owner is fenced.
            state: The next state; DRAINING needs a *reason*.
            stamp: The latest stamp that a beat of this life has taken.
            pipeline_session_id: The service's own id, with RUNNING.
            reason: Why it drains.

        Raises:
            IllegalMove: The table doesn't allow the move from the state that it is in.
        """
        word, rest = await self._connection.call(
            "advance_session",
            pool_of(owner.session_id),
            **_named(owner),
            stamp=stamp,
            target=state,
            reason=reason or "",
            pipeline_session_id=pipeline_session_id or "",
        )
        match word:
            case "moved":
                return Moved(state=SessionState(str(rest[0])))
            case "stop":
                return MustStop(reason=str(rest[0]))
            case "illegal":
                raise IllegalMove(machine="session", source=str(rest[0]), target=state)
            case _:
                return Fenced()

    async def note_first_frame(self, owner: Owner, *, ago_s: float = 0.0) -> FirstFrame:
        """Note that the first frame of this assignment was played so long ago; once per epoch."""
        word, _ = await self._connection.call(
            "note_first_frame",
            pool_of(owner.session_id),
            **_named(owner),
            ago_ms=round(ago_s * 1000),
        )
        return cast("FirstFrame", word)

    async def count_people(self, record: SessionRecord, people: int) -> None:
        """Note how many are in the room of a waiting session; told late, it counts no more."""
        await self._connection.call(
            "count_people",
            pool_of(record.session_id),
            session_id=record.session_id,
            epoch=record.epoch,
            people=people,
        )

    async def credit(self, owner: Owner, lost_s: float) -> Credited:
        """Put the session's limit off by what a failure took while it stayed on its node.

        Args:
            owner: Who speaks.
            lost_s: The sum since the session came to the node; a repeat changes nothing.
        """
        word, _ = await self._connection.call(
            "credit_session",
            pool_of(owner.session_id),
            **_named(owner),
            lost_ms=round(lost_s * 1000),
        )
        return cast("Credited", word)

    async def bundle(self, session_id: str) -> str | None:
        """Return what a node must keep to bring the session back (R14); None if it is unknown."""
        word, rest = await self._connection.call(
            "read_bundle", pool_of(session_id), session_id=session_id
        )
        return str(rest[0]) if word == "ok" else None

    async def left_s(self, session_id: str) -> float | None:
        """Return what is left of the session's limit, by the registry's own clock.

        Returns:
            None without a limit, and while the limit is paused.

        Raises:
            UnknownSession: There's no such record.
        """
        bundle = await self.bundle(session_id)
        if bundle is None:
            raise UnknownSession(session_id=session_id)
        left_ms = json.loads(bundle).get("left")
        return None if left_ms is None else float(left_ms) / 1000

    async def adopt(
        self, owner: Owner, state: SessionState, *, stamp: int, bundle: str, age_s: float
    ) -> Literal["adopted", "fenced"]:
        """Bring back a resident that the registry lost or knows only from an earlier time (R6).

        Args:
            owner: Who holds it, under which epoch.
            state: How far it is here: JOINING_ROOM, STARTING_PIPELINE or RUNNING.
            stamp: The latest stamp that a beat of this life has taken.
            bundle: What `bundle` answered.
            age_s: Seconds since then; the session's limit has run on for as long.

        Returns:
            ``fenced`` if it has ended or somebody holds a higher epoch.
        """
        word, _ = await self._connection.call(
            "adopt_session",
            pool_of(owner.session_id),
            **_named(owner),
            stamp=stamp,
            state=state,
            bundle=bundle,
            age_ms=round(age_s * 1000),
        )
        return cast("Literal['adopted', 'fenced']", word)

    async def rebase(self, owner: Owner, seen_epoch: int) -> int | None:
        """Ask for an epoch above one that is in use in the session's room (R5).

        Returns:
            The session's epoch from now on; None if it can't be had: in a grace, since whoever has
            the higher one may yet claim the session, or for anybody but the owner.
        """
        word, rest = await self._connection.call(
            "rebase_epoch", pool_of(owner.session_id), **_named(owner), seen=seen_epoch
        )
        return int(str(rest[0])) if word == "rebased" else None

    async def give_back(
        self,
        owner: Owner,
        *,
        why: str,
        capacity: int,
        media_ok: bool,
        silence: Silence = NO_SILENCE,
    ) -> GivenBack:
        """Return the session to the line, after its worker is silent and out of the room.

        Args:
            owner: Who speaks.
            why: node_shutdown, node_drained and media_lost cost nothing; join_failed,
                service_lost and gpu_lost count.
            capacity: Slots that the node offers from now on.
            media_ok: Whether the node reaches LiveKit.
            silence: What of its limit the session didn't have, and gets back.
        """
        word, _ = await self._connection.call(
            "give_back",
            pool_of(owner.session_id),
            **_named(owner),
            why=why,
            capacity=capacity,
            media_ok=media_ok,
            unplayed_ms=round(silence.unplayed_s * 1000),
            earlier_ms=round(silence.earlier_s * 1000),
        )
        return cast("GivenBack", word)

    async def end(self, owner: Owner, reason: Reason, error: str | None = None) -> EndConfirmed:
        """Confirm that nothing is left of the session here; its slot goes to the next in line.

        A reason that was stored when it began to drain stays. ``already``: it was terminal before
        and only its quarantined slot, if any, was freed.
        """
        word, _ = await self._connection.call(
            "end_session",
            pool_of(owner.session_id),
            **_named(owner),
            reason=reason,
            error=error or "",
        )
        return cast("EndConfirmed", word)


def _named(owner: Owner) -> dict[str, str | int | bytes]:
    return {
        "node_id": owner.node_id,
        "incarnation": owner.incarnation,
        "session_id": owner.session_id,
        "epoch": owner.epoch,
    }


def only(records: dict[str, SessionRecord], session_id: str) -> SessionRecord:
    """Return the one record that was asked for.

    Raises:
        UnknownSession: It isn't among *records*.
    """
    if session_id not in records:
        raise UnknownSession(session_id=session_id)
    return records[session_id]
