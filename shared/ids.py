"""How is a session, node, pool or room named, and is this name valid?

Names carry their own routing. A session id begins with its pool, so any replica finds the
session's keys from the id alone; a worker's identity ends in epoch and attempt, so anybody in the
room can tell which of two workers is the newer one without asking Redis.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from shared.errors import InvalidName

ROOM_PREFIX = "tf-world-"
WORKER_PREFIX = "telefuser-"

_POOL = re.compile(r"[a-z0-9-]{1,32}")
_NODE = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")
_SESSION = re.compile(r"(?P<pool>[a-z0-9-]{1,32})-(?P<random>[a-z2-7]{26})")
_WORKER = re.compile(r"telefuser-(?P<node>.+)-(?P<epoch>\d{1,15})-(?P<attempt>\d{1,6})")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerIdentity:
    """Who a room worker is: its node, and which assignment and join it stands for."""

    node_id: str
    epoch: int
    attempt: int

    def __str__(self) -> str:
        return f"{WORKER_PREFIX}{self.node_id}-{self.epoch}-{self.attempt}"

    @property
    def order(self) -> tuple[int, int]:
        """Sort key: the worker with the higher (epoch, attempt) is the current one."""
        return (self.epoch, self.attempt)


def check_pool(name: str) -> str:
    """Return *name* if it may name a pool, else raise `InvalidName`."""
    if not _POOL.fullmatch(name):
        raise InvalidName(what="pool", name=name, allowed="1 to 32 of a-z, 0-9 and '-'")
    return name


def check_node_id(name: str) -> str:
    """Return *name* if it may name a node, else raise `InvalidName`."""
    if not _NODE.fullmatch(name):
        raise InvalidName(what="node id", name=name, allowed="1 to 48 of a-z, 0-9 and '-'")
    return name


def new_node_id() -> str:
    """Return a random node id; a node keeps the one it first made in its data folder."""
    return f"node-{secrets.token_hex(4)}"


def new_boot_ids() -> Iterator[str]:
    """Yield the ids of the lives that one process asks for, ``<process>.<number>`` (R11).

    The registry sees by them that a life is a later one of the same process.
    """
    process = secrets.token_hex(8)
    return (f"{process}.{number}" for number in itertools.count(1))


def new_session_id(pool: str) -> str:
    """Return ``<pool>-<26 base32 characters>``: 130 random bits, not guessable."""
    return f"{check_pool(pool)}-{letters(secrets.token_bytes(26))}"


def letters(raw: bytes) -> str:
    """Return a base32 letter for each byte of *raw*, by its lowest five bits."""
    return raw.translate(_TO_BASE32).decode()


_TO_BASE32 = bytes(b"abcdefghijklmnopqrstuvwxyz234567"[byte % 32] for byte in range(256))
"""Each letter for eight of the 256 bytes, so all are as likely; six times faster than `base64`."""


def pool_of(session_id: str) -> str:
    """Return the pool that *session_id* belongs to, or raise `InvalidName`."""
    match = _SESSION.fullmatch(session_id)
    if match is None:
        raise InvalidName(what="session id", name=session_id, allowed="<pool>-<26 characters>")
    return match["pool"]


def room_of(session_id: str) -> str:
    """Return the room name of a session; one room serves it for life."""
    return f"{ROOM_PREFIX}{session_id}"


def session_of_room(room: str) -> str | None:
    """Return the session id of one of our rooms, or None for a foreign room name."""
    session_id = room.removeprefix(ROOM_PREFIX)
    if session_id == room or not _SESSION.fullmatch(session_id):
        return None
    return session_id


def parse_worker_identity(identity: str) -> WorkerIdentity | None:
    """Read a worker's identity from the right; None if it isn't one.

    The name alone proves nothing: whether a participant is a worker is said by its signed token.
    """
    match = _WORKER.fullmatch(identity)
    if match is None:
        return None
    return WorkerIdentity(
        node_id=match["node"], epoch=int(match["epoch"]), attempt=int(match["attempt"])
    )
