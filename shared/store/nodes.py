"""Register, beat, retire, and find the nodes that went silent."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping

from shared.errors import NodeChanged, UnknownNode
from shared.node_profile import NodeProgress
from shared.records import (
    Assignment,
    Beat,
    BeatConfirmed,
    BeatReply,
    BeatStale,
    MustRegister,
    Registered,
    RegisterLater,
    RegisterReply,
    Registration,
    Resident,
    Snapshot,
    Superseded,
    Swept,
)
from shared.states import Admin, SessionState
from shared.store import replies
from shared.store.connection import BlockingConnection, Connection
from shared.store.endpoints import ANSWER_WITHIN_S
from shared.store.scripts import Argument, Reply

_SAID = ("incarnation", "state", "capacity", "draining", "media_ok", "ended")

SWEEP_BUDGET = 64
"""Sessions per sweep call: about 3 ms in which Redis serves nobody else."""
WAITING_SHOWN = 100


class Nodes:
    """What a node does in the registry, and what any replica does about silent ones."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def register(self, registration: Registration) -> RegisterReply:
        """Begin a life of a node; a repeat with the same boot id gets the same answer."""
        word, rest = await self._connection.call(
            "register_node",
            registration.pool,
            node_id=registration.node_id,
            boot_id=registration.boot_id,
            previous=registration.previous_incarnation,
            ttl_ms=round(registration.ttl_s * 1000),
            capacity=registration.capacity,
            state=registration.state,
            profile=replies.profile_json(registration.profile),
            start_ms=round(registration.profile.start_timeout_s * 1000),
            session_capacity=json.dumps(registration.profile.session_capacity),
            options=json.dumps(registration.profile.options),
            residents=json.dumps([[r.session_id, str(r.epoch)] for r in registration.residents]),
        )
        match word:
            case "registered":
                kept = frozenset(replies.assignments(rest[1]))
                return Registered(incarnation=int(str(rest[0])), kept=kept)
            case "wait":
                return RegisterLater(wait_s=int(str(rest[0])) / 1000)
            case _:
                return Superseded()

    async def retire(self, pool: str, node_id: str, incarnation: int) -> None:
        """Say goodbye: the next process with this id needn't wait for a lease."""
        await self._connection.call("retire_node", pool, node_id=node_id, incarnation=incarnation)

    async def note_progress(
        self, pool: str, node_id: str, incarnation: int, progress: NodeProgress | None
    ) -> None:
        """Tell how the node's service comes up; None once it serves."""
        await self._connection.call(
            "note_progress",
            pool,
            node_id=node_id,
            incarnation=incarnation,
            progress="" if progress is None else replies.progress_json(progress),
        )

    async def set_node_admin(
        self,
        pool: str,
        node_id: str,
        admin: Admin,
        *,
        replaces: str = "",
        move_in_s: float | None = None,
    ) -> int:
        """Close a node to new sessions, or open it again; returns how many it holds.

        Args:
            pool: The node's pool.
            node_id: The node.
            admin: What it shall be from now on.
            replaces: The ``order`` in the node's record when it was looked at.
            move_in_s: Seconds until those that it holds go elsewhere; None: they stay.

        Raises:
            UnknownNode: There is no such node (any more).
            NodeChanged: Another order was given since it was looked at.
        """
        word, rest = await self._connection.call(
            "set_node_admin",
            pool,
            node_id=node_id,
            admin=admin,
            move_in_ms="" if move_in_s is None else round(move_in_s * 1000),
            order=secrets.token_hex(8),
            replaces=replaces,
        )
        return _held(word, rest, pool, node_id)

    async def set_node_capacity(
        self, pool: str, node_id: str, capacity: int | None, *, replaces: str = ""
    ) -> int:
        """Have a node hold no more than *capacity* sessions; returns how many it holds.

        Args:
            pool: The node's pool.
            node_id: The node.
            capacity: What the line may use from now on; None: all that the node reports.
            replaces: The ``order`` in the node's record when it was looked at.

        Raises:
            UnknownNode: There is no such node (any more).
            NodeChanged: Another order was given since it was looked at.
        """
        word, rest = await self._connection.call(
            "set_node_capacity",
            pool,
            node_id=node_id,
            capacity="" if capacity is None else capacity,
            order=secrets.token_hex(8),
            replaces=replaces,
        )
        return _held(word, rest, pool, node_id)

    async def note_play(self, pool: str, node_id: str, incarnation: int, play: str) -> None:
        """Tell how a node plays (`shared.play_facts`); an empty text takes away what was told."""
        await self._connection.call(
            "note_play", pool, node_id=node_id, incarnation=incarnation, play=play
        )

    async def sweep_nodes(self, pool: str, *, budget: int = SWEEP_BUDGET) -> Swept:
        """Declare silent nodes dead and return their sessions to the line."""
        word, rest = await self._connection.call("sweep_nodes", pool, budget=budget)
        return Swept(
            more=word == "more",
            dead_nodes=tuple(replies.fields(rest[0])),
            returns=replies.returns(rest[1]),
            endings=replies.endings(rest[2]),
        )

    async def sweep_deadlines(self, pool: str, *, budget: int = SWEEP_BUDGET) -> Swept:
        """Fire the deadlines that have passed."""
        word, rest = await self._connection.call("sweep_deadlines", pool, budget=budget)
        return Swept(
            more=word == "more",
            returns=replies.returns(rest[0]),
            endings=replies.endings(rest[1]),
            suspects=replies.suspects(rest[2]),
        )

    async def snapshot(self, pool: str) -> Snapshot:
        """Return one pool at one instant."""
        _, rest = await self._connection.call("snapshot", pool, waiting_shown=WAITING_SHOWN)
        nodes, states, waiting, queued, oldest_ms, totals = rest
        return Snapshot(
            pool=pool,
            nodes=tuple(replies.node(row) for row in replies.rows(nodes)),
            states={SessionState(word): count for word, count in replies.pairs(states)},
            waiting=tuple(replies.fields(waiting)),
            queued=int(str(queued)),
            oldest_wait_s=int(str(oldest_ms)) / 1000,
            totals=dict(replies.pairs(totals)),
        )


class BeatLink:
    """The blocking way to the registry for the heartbeat's own thread."""

    def __init__(self, url: str, pool: str, *, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        self._connection = BlockingConnection(url, answer_within_s=answer_within_s)
        self._pool = pool

    def beat(self, beat: Beat) -> BeatReply:
        """Send one heartbeat.

        Raises:
            StoreUnavailable: No answer in time. The beat may have counted all the same.
        """
        reply = self._connection.call("beat_node", self._pool, **beat_arguments(beat))
        return decode_beat(*reply, beat.residents)

    def close(self) -> None:
        """Close the connection; harmless when done twice."""
        self._connection.close()


def _held(word: str, rest: Reply, pool: str, node_id: str) -> int:
    """Decode the reply to an operator's order."""
    if word == "gone":
        raise UnknownNode(node_id=node_id, pool=pool)
    if word == "changed":
        raise NodeChanged(node_id=node_id)
    return int(str(rest[0]))


def beat_arguments(beat: Beat) -> dict[str, Argument]:
    """Return a beat as script arguments; epochs travel as text so that no digit is lost."""
    told: dict[str, Argument] = {
        "node_id": beat.node_id,
        "incarnation": beat.incarnation,
        "stamp": beat.stamp,
        "state": beat.state,
        "capacity": beat.capacity,
        "draining": beat.draining,
        "media_ok": beat.media_ok,
        "residents": json.dumps([_resident(resident) for resident in beat.residents]),
        "ended": json.dumps([[e.session_id, str(e.epoch), e.reason] for e in beat.ended]),
        "gpus": beat.gpus,
    }
    return told | digests_of(told)


def digests_of(told: Mapping[str, Argument]) -> dict[str, Argument]:
    """Return the digests of all that a beat says, its stamp apart.

    ``seen`` stands for who is in the rooms, ``said`` for all the rest. A beat with the digests of
    the one before is answered without a look at sessions, so whatever may ask for another answer
    has to be in one of them. Made here, since there are many nodes and one registry.
    """
    rows = json.loads(str(told["residents"]))
    said = [[told[name] for name in _SAID], [row[:2] + row[5:] for row in rows]]
    return {"said": _digest(said), "seen": _digest([row[2:5] for row in rows])}


def _digest(value: object) -> str:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=16).hexdigest()


def _resident(resident: Resident) -> list[str | int]:
    row: list[str | int] = [resident.session_id, str(resident.epoch)]
    if resident.presence is not None:
        seen = resident.presence
        row += [int(seen.connected), int(seen.controller), seen.participants]
        if resident.state is not None:
            row.append(resident.state)
    return row


def decode_beat(word: str, rest: Reply, listed: Iterable[Resident]) -> BeatReply:
    """Turn the reply of ``beat_node`` to a beat that *listed* these into what the node must do."""
    match word:
        case "same":
            return BeatConfirmed(
                owned=frozenset(Assignment(session_id=r.session_id, epoch=r.epoch) for r in listed),
                moves_in_s=_seconds(rest),
            )
        case "ok":
            return BeatConfirmed(
                owned=frozenset(replies.assignments(rest[0])),
                todo=replies.assignments(rest[1]),
                kills=replies.kills(rest[2]),
                adopt=replies.assignments(rest[3]),
                moves_in_s=_seconds(rest[4:]),
            )
        case "stale":
            return BeatStale()
        case _:
            return MustRegister(keep=rest[0] == "keep")


def _seconds(told_ms: Reply) -> float | None:
    return int(str(told_ms[0])) / 1000 if told_ms else None
