"""What does a worker say in a room, in which shape, and how large?

Everything goes to ``tf.status``, reliably. Chunk metadata, the service's own stages, errors,
``worker_running`` and ``done`` have the reference's shapes; all others are flat:
``{type, session_id, ..., timestamp}``. Times are float Unix seconds.

A status stays under 15 KiB, the size that data channels carry well: the largest parts of a chunk's
own metadata go first, and ``"trimmed": true`` tells that something is missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

from shared.room_protocol import ControlRejected

STATUS_TOPIC = "tf.status"
METRICS_TOPIC = "tf.metrics"
"""Lossy, once a second: how well the session plays."""
MAX_STATUS_BYTES = 15 * 1024

_MAX_TEXT_CHARS = 1000
_MAX_DEPTH = 12
_MAX_ARRAY_ITEMS = 256
_MOST_VALUES = MAX_STATUS_BYTES // 2
"""Of one entry, since each takes a comma as well: an entry that has more goes anyway, and isn't
looked at any further, for all rooms of a node wait meanwhile."""
_MAX_WHOLE = 2**64
"""Covers ids and seeds; what is longer means nothing to a client, and may be too long to write."""
_KEPT = frozenset(("type", "session_id", "index", "error", "timestamp", "data", "stage", "trimmed"))

Status = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """When one chunk's frames were taken over and played."""

    decoded_ready_at_s: float
    publish_started_at_s: float
    publish_finished_at_s: float
    frames: int

    def as_measurement(self) -> Status:
        """Return the reference's ``transport_measurement``."""
        return {
            "decoded_ready_at": self.decoded_ready_at_s,
            "publish_started_at": self.publish_started_at_s,
            "publish_finished_at": self.publish_finished_at_s,
            "publish_seconds": self.publish_finished_at_s - self.publish_started_at_s,
            "frames": self.frames,
            "pacing": "realtime",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusWriter:
    """Builds what is said about one session; ``now_s`` gives the wall time in Unix seconds."""

    session_id: str
    now_s: Callable[[], float]

    def running(self, worker_id: str) -> Status:
        """The pipeline session exists."""
        return self.stage({"type": "status", "stage": "worker_running", "worker_id": worker_id})

    def stage(self, data: Mapping[str, object]) -> Status:
        """Pass on a status chunk of the service, such as ``lease_queued``."""
        return self._envelope(None, data, None)

    def chunk(self, index: object, data: Mapping[str, object], transport: Transport) -> Status:
        """Pass on what a chunk says besides its media, and how it was played."""
        measured = {**data, "transport_measurement": transport.as_measurement()}
        return self._envelope(index, measured, None)

    def error(self, text: str, code: str) -> Status:
        """The session can't go on, or lost something, because of *text*."""
        short = text[:_MAX_TEXT_CHARS]
        return self._envelope(None, {"type": "error", "error": short, "code": code}, short)

    def done(self, total_chunks: int, published_frames: int) -> Status:
        """The service has nothing more to play."""
        return self._flat("done", total_chunks=total_chunks, published_frames=published_frames)

    def first_frame(self, frame_id: int) -> Status:
        """The first real frame has left: here the user's play clock starts."""
        return self._flat("first_frame", frame_id=frame_id)

    def ack(self, seq: int) -> Status:
        """The message with this number counts; said again for each repetition."""
        return self._flat("control_ack", seq=seq)

    def rejected(self, refused: ControlRejected) -> Status:
        """A message was refused."""
        body = self._flat(
            "control_rejected",
            code=str(refused.code),
            rejected_type=refused.type,
            message=refused.text,
        )
        if refused.seq is not None:
            body["seq"] = refused.seq
        return body

    def asset_accepted(self, stream_id: str, name: str, size_bytes: int) -> Status:
        """The service has this file."""
        return self._flat("asset_accepted", stream_id=stream_id, name=name, bytes=size_bytes)

    def asset_rejected(self, stream_id: str, name: str, *, code: str, text: str) -> Status:
        """A file was refused."""
        return self._flat("asset_rejected", stream_id=stream_id, name=name, code=code, message=text)

    def delivery(self, published_frames: int, acknowledged_frames: int | None) -> Status:
        """What came of a lossless delivery; nothing acknowledged is null."""
        return self._flat(
            "delivery",
            published_frames=published_frames,
            acknowledged_frames=acknowledged_frames,
            complete=published_frames == acknowledged_frames,
        )

    def figures(self, figures: Mapping[str, object]) -> Status:
        """How well the session plays; for ``tf.metrics``."""
        return self._flat("metrics", **figures)

    def draining(self, reason: str) -> Status:
        """The session is about to end."""
        return self._flat("draining", reason=reason)

    def moving(self, in_s: float | None) -> Status:
        """An operator has the session moved to another node: the stage closes here for a moment.

        None: it stays after all.
        """
        return self._flat("draining", reason="node_drained", in_s=in_s)

    def expiring(self, in_s: float) -> Status:
        """The session's time is up soon."""
        return self._flat("expiring", in_s=in_s)

    def closed(self, reason: str) -> Status:
        """The session has ended; nothing follows."""
        return self._flat("closed", reason=reason)

    def queued(self, position: int, estimated_wait_s: float | None = None) -> Status:
        """The session waits in line."""
        return self._flat("queued", queue_position=position, estimated_wait_s=estimated_wait_s)

    def requeued(self, reason: str) -> Status:
        """The session lost its node and waits again, with its old ticket."""
        return self._flat("requeued", reason=reason)

    def resumed(self, attempt: int) -> Status:
        """The session plays again after it was interrupted."""
        return self._flat("resumed", attempt=attempt)

    def owner_changed(self, epoch: int) -> Status:
        """Another worker plays from now on: the one of this epoch."""
        return self._flat("owner_changed", epoch=epoch)

    def _flat(self, type_: str, **fields: object) -> Status:
        return {
            "type": type_,
            "session_id": self.session_id,
            **fields,
            "timestamp": self.now_s(),
        }

    def _envelope(self, index: object, data: Mapping[str, object], error: str | None) -> Status:
        return self._flat("chunk", index=index, data=dict(data), error=error)


def encode_status(body: Mapping[str, object]) -> bytes:
    """Return *body* as JSON of at most 15 KiB; services' own values are made plain first."""
    plain = {_word(name): _part(value) for name, value in body.items()}
    encoded = _dump(plain)
    if len(encoded) <= MAX_STATUS_BYTES:
        return encoded
    plain["trimmed"] = True
    for part in (plain.get("data"), plain):
        if isinstance(part, dict):
            _trim(part, plain)
    return _dump(plain)


def _trim(part: dict[str, object], whole: dict[str, object]) -> None:
    """Make *part* of *whole* smaller, largest entry first, until the whole fits."""
    excess_bytes = len(_dump(whole)) - MAX_STATUS_BYTES
    sizes = {name: len(_dump(value)) for name, value in part.items()}
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if excess_bytes <= 0:
            return
        value = part[name]
        if isinstance(value, str):
            part[name] = value[:_MAX_TEXT_CHARS]
            excess_bytes -= sizes[name] - len(_dump(part[name]))
        elif part is whole and name == "data" and isinstance(value, dict):
            continue  # trimmed before
        elif name not in _KEPT or sizes[name] > _MAX_TEXT_CHARS:
            del part[name]
            excess_bytes -= sizes[name]


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _word(name: object) -> str:
    if isinstance(name, int) and abs(name) > _MAX_WHOLE:
        return "<int>"
    return str(name)[: MAX_STATUS_BYTES + 1].encode(errors="replace").decode()


def _part(value: object) -> object:
    """Return a part of a status made plain: an entry that is too large leaves the others whole."""
    if not isinstance(value, Mapping):
        return _plain(value, 0, [_MOST_VALUES])
    entries = islice(value.items(), _MOST_VALUES)
    return {_word(name): _plain(inner, 1, [_MOST_VALUES]) for name, inner in entries}


def _plain(value: object, depth: int, left: list[int]) -> object:
    """Return what JSON can say of *value*; what it can't is named by its type in angle brackets.

    *left* counts down how many more values of its entry are looked at.
    """
    left[0] -= 1
    plain: object = f"<{type(value).__name__}>"
    match value:
        case None | bool():
            plain = value
        case int() if abs(value) <= _MAX_WHOLE:
            plain = int(value)
        case str():
            plain = _word(value)
        case float():
            plain = value if math.isfinite(value) else None
        case _ if depth == _MAX_DEPTH or left[0] <= 0:
            pass
        case Mapping():
            entries = islice(value.items(), left[0])
            plain = {_word(name): _plain(inner, depth + 1, left) for name, inner in entries}
        case list() | tuple():
            plain = [_plain(inner, depth + 1, left) for inner in islice(value, left[0])]
        case _ if hasattr(value, "tolist") and getattr(value, "size", 1) in range(_MAX_ARRAY_ITEMS):
            # numpy's and torch's values, without importing either
            plain = _plain(value.tolist(), depth + 1, left)
    return plain
