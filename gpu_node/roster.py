"""Who is in the room, and which workers are older than this one?

Pure bookkeeping for one worker. Participants are kept by sid, not by identity: a page that reloads
comes back under the same identity with a new sid, and the late word that the old sid left must not
count as absence (R10). What somebody is, is said by signed attributes; a name that merely looks
like a worker's gives no rights and takes the right to control away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared.ids import WORKER_PREFIX, WorkerIdentity
from shared.records import Presence
from shared.rooms.tokens import Role, order_of, role_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """One participant as its token describes it."""

    sid: str
    identity: str
    role: Role | None
    order: tuple[int, int] | None = None
    """(epoch, attempt) of a worker."""


def occupant(sid: str, identity: str, attributes: Mapping[str, str]) -> Occupant:
    """Read one participant from what LiveKit says of it."""
    return Occupant(
        sid=sid, identity=identity, role=role_of(attributes), order=order_of(attributes)
    )


class Roster:
    """The other participants of one room, as one worker knows them."""

    def __init__(self, me: WorkerIdentity, controller: str) -> None:
        self._me = me
        self._controller = controller
        self._by_sid: dict[str, Occupant] = {}

    def enter(self, newcomer: Occupant) -> None:
        """Note somebody who is there; being told twice is fine."""
        self._by_sid[newcomer.sid] = newcomer

    def leave(self, sid: str) -> None:
        """Note that the connection with this sid is gone."""
        self._by_sid.pop(sid, None)

    def replace(self, present: Iterable[Occupant]) -> None:
        """Forget everybody and note who is there now (after the connection was made anew)."""
        self._by_sid = {one.sid: one for one in present}

    def knows(self, sid: str) -> bool:
        """Whether this connection was told of."""
        return sid in self._by_sid

    def presence(self, *, connected: bool) -> Presence:
        """Return who is there; a person with two connections during a reload counts once."""
        humans = {one.identity for one in self._by_sid.values() if one.role is not Role.WORKER}
        return Presence(
            connected=connected,
            controller=self._controller in humans,
            participants=len(humans),
        )

    def older_workers(self) -> tuple[str, ...]:
        """Identities of workers that an earlier assignment or join left behind."""
        return tuple(
            one.identity
            for one in self._by_sid.values()
            if one.role is Role.WORKER and (one.order or (0, 0)) < self._me.order
        )

    def superseded(self) -> bool:
        """Whether a newer worker than this one is there."""
        return self._highest() > self._me.order

    def outranked_by(self) -> int | None:
        """Return the epoch of the newest worker there if it's above this one's own."""
        epoch, _ = self._highest()
        return epoch if epoch > self._me.epoch else None

    def _highest(self) -> tuple[int, int]:
        orders = [one.order for one in self._by_sid.values() if one.order is not None]
        return max(orders, default=(0, 0))


def may_control(sender: str, controller: str) -> bool:
    """Whether a sender's controls count: the controller's own, never nameless, never a worker."""
    return bool(sender) and sender == controller and not sender.startswith(WORKER_PREFIX)
