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

from shared.room_protocol import ControlRejected

STATUS_TOPIC = "tf.status"
MAX_STATUS_BYTES = 15 * 1024

_MAX_TEXT_CHARS = 1000
_MAX_DEPTH = 12
_MAX_ARRAY_ITEMS = 256
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

    def draining(self, reason: str) -> Status:
        """The session is about to end."""
        return self._flat("draining", reason=reason)

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
    plain = {str(name): _plain(value, 0) for name, value in body.items()}
    encoded = _dump(plain)
    if len(encoded) <= MAX_STATUS_BYTES:
        return encoded
    plain["trimmed"] = True
    for part in (plain.get("data"), plain):
        if isinstance(part, dict):
            encoded = _trim(part, plain)
    return encoded


def _trim(part: dict[str, object], whole: dict[str, object]) -> bytes:
    """Make *part* of *whole* smaller, largest entry first, until the whole fits."""
    for name in sorted(part, key=lambda name: len(_dump(part[name])), reverse=True):
        encoded = _dump(whole)
        if len(encoded) <= MAX_STATUS_BYTES:
            return encoded
        value = part[name]
        if isinstance(value, str):
            part[name] = value[:_MAX_TEXT_CHARS]
        elif name not in _KEPT:
            del part[name]
    return _dump(whole)


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _plain(value: object, depth: int) -> object:
    """Return what JSON can say of *value*; what it can't is named by its type in angle brackets."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth < _MAX_DEPTH:
        if isinstance(value, Mapping):
            return {str(name): _plain(inner, depth + 1) for name, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [_plain(inner, depth + 1) for inner in value]
        # numpy's scalars and arrays, and torch's, without importing either
        if hasattr(value, "tolist") and getattr(value, "size", 1) in range(_MAX_ARRAY_ITEMS):
            return _plain(value.tolist(), depth + 1)
    return f"<{type(value).__name__}>"
