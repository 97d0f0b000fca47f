"""Which inbound messages count, and what follows from them?

The gate stands between a room and a pipeline session. It lets through what the controller may say,
answers what it refuses, acknowledges each numbered message and applies it once, however often it
comes. What comes before the pipeline session exists is kept: of states and prompts the newest, of
key presses a bounded number. ``stop`` counts at once, and after it nothing else does.

Pure: what to do is returned, and the runner does it in that order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from gpu_node.roster import may_control
from shared.room_protocol import (
    CONTROL_TOPIC,
    ControlMessage,
    ControlRejected,
    ControlType,
    Refusal,
    parse_control,
)
from shared.room_status import Status, StatusWriter

MAX_KEPT = 32
MAX_REMEMBERED_SEQS = 1024

_NEWEST_WINS = frozenset((ControlType.CONTROL_STATE, ControlType.PROMPT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Push this chunk to the pipeline session."""

    chunk: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """End the session as the client wishes; the service gets the chunk as well."""

    chunk: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The client has received so many frames."""

    published_frames: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Say this on tf.status."""

    status: Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """Nothing follows; ``why`` is for logs and counters."""

    why: str


Decision = Apply | Stop | Delivered | Reply | Ignore


class ControlGate:
    """Decides about the messages of one session."""

    def __init__(self, *, controller: str, status: StatusWriter, max_bytes: int) -> None:
        self._controller = controller
        self._status = status
        self._max_bytes = max_bytes
        self._kept: list[ControlMessage] = []
        self._seqs: OrderedDict[int, None] = OrderedDict()
        self._open = False
        self._stopped = False
        self.silent = False
        """R2: while the node lease doesn't hold, nothing counts and nothing is answered."""

    def receive(self, sender: str, payload: bytes, topic: str) -> tuple[Decision, ...]:
        """Decide about one message."""
        why = self._nothing_counts_because(topic)
        if why is not None:
            return (Ignore(why=why),)
        message = parse_control(
            payload, session_id=self._status.session_id, max_bytes=self._max_bytes
        )
        if not sender:
            return self._refuse(replace(_UNKNOWN_SENDER, seq=message.seq))
        if not may_control(sender, self._controller):
            return self._refuse(_NOT_CONTROLLER)
        if isinstance(message, ControlRejected):
            return self._refuse(message)
        return self._take(message)

    def open(self) -> tuple[Apply, ...]:
        """The pipeline session exists: return what was kept for it, in order."""
        self._open = True
        kept, self._kept = self._kept, []
        return tuple(Apply(chunk=message.chunk) for message in kept)

    def renew(self) -> None:
        """The controller has a new connection, so its numbers may begin again."""
        self._seqs.clear()

    def _nothing_counts_because(self, topic: str) -> str | None:
        if topic != CONTROL_TOPIC:
            return "other_topic"
        if self.silent:
            return "silent"
        return "stopping" if self._stopped else None

    def _take(self, message: ControlMessage) -> tuple[Decision, ...]:
        ack = () if message.seq is None else (Reply(status=self._status.ack(message.seq)),)
        if self._is_repeated(message.seq):
            return ack
        match message.type:
            case ControlType.STOP:
                self._stopped = True
                self._kept.clear()
                return (Stop(chunk=message.chunk), *ack)
            case ControlType.DELIVERY_ACK:
                return (
                    Delivered(published_frames=cast(int, message.chunk["published_frames"])),
                    *ack,
                )
            case _ if self._open:
                return (Apply(chunk=message.chunk), *ack)
            case _:
                self._keep(message)
                return ack or (Ignore(why="kept"),)

    def _is_repeated(self, seq: int | None) -> bool:
        if seq is None:
            return False
        if seq in self._seqs:
            return True
        self._seqs[seq] = None
        if len(self._seqs) > MAX_REMEMBERED_SEQS:
            self._seqs.popitem(last=False)
        return False

    def _keep(self, message: ControlMessage) -> None:
        if message.type in _NEWEST_WINS:
            self._kept = [older for older in self._kept if older.type is not message.type]
        self._kept.append(message)
        if len(self._kept) > MAX_KEPT:
            # A key press goes before a state or a prompt does: those are what the user wants now.
            presses = [one for one in self._kept if one.type not in _NEWEST_WINS]
            self._kept.remove(presses[0])

    def _refuse(self, refused: ControlRejected) -> tuple[Decision, ...]:
        return (Reply(status=self._status.rejected(refused)),)


_UNKNOWN_SENDER = ControlRejected(
    code=Refusal.UNKNOWN_SENDER, text="the room doesn't know the sender yet; send it again"
)
_NOT_CONTROLLER = ControlRejected(
    code=Refusal.NOT_CONTROLLER, text="only the session's controller may send controls"
)
