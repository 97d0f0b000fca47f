"""What may a controller say in a room, and how large may it be?

The controller speaks on ``tf.control``: a bare message ``{type, ...}`` or an envelope
``{version: 1, session_id?, type, payload}``. The outer ``type`` rules; a different one inside the
payload is refused. Both forms may carry ``seq``, by which a message is acknowledged.

==============  ============================================================================
control_state   ``controls``: the set of controls held down now
control         ``control`` (or ``key``) and ``event`` (or ``action``): one press or release
prompt          ``prompt``: what the world should become
reset           back to the start
stop            end the session
delivery_ack    ``published_frames``: how many frames the client has received
==============  ============================================================================

What a worker answers on ``tf.status`` is in `shared.room_status`. Nothing here does I/O.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn, TypeGuard

CONTROL_TOPIC = "tf.control"
ASSET_TOPIC = "tf.asset"

PROTOCOL_VERSION = 1
MAX_ASSET_BYTES = 1024 * 1024
"""A file on ``tf.asset``: controls wait behind it, so larger ones go by HTTP."""
MAX_SEQ = 2**53 - 1
"""The largest whole number that JavaScript keeps exactly."""
MAX_PROMPT_CHARS = 4000

CONTROLS: frozenset[str] = frozenset(
    (
        *("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"),
        *("KeyW", "KeyA", "KeyS", "KeyD", "KeyI", "KeyJ", "KeyK", "KeyL"),
        *("w", "a", "s", "d", "i", "j", "k", "l"),
        *("up", "down", "left", "right", "forward", "backward"),
    )
)
CONTROL_EVENTS: frozenset[str] = frozenset(
    ("press", "release", "keyup", "end", "reset", "reset_pose")
)
_POSE_EVENTS = frozenset(("reset", "reset_pose"))
"""Events that concern no key, so none need be named."""


class ControlType(StrEnum):
    """The messages that a controller may send."""

    CONTROL_STATE = "control_state"
    CONTROL = "control"
    PROMPT = "prompt"
    RESET = "reset"
    STOP = "stop"
    DELIVERY_ACK = "delivery_ack"


_TYPES = frozenset(ControlType)


class Refusal(StrEnum):
    """Why a message was refused; the ``code`` of ``control_rejected``."""

    NOT_CONTROLLER = "not_controller"
    UNKNOWN_SENDER = "unknown_sender"
    """The room doesn't know the sender yet; the same message may be sent again in a moment."""
    TOO_LARGE = "too_large"
    BAD_JSON = "bad_json"
    BAD_ENVELOPE = "bad_envelope"
    OTHER_SESSION = "other_session"
    UNKNOWN_TYPE = "unknown_type"
    TYPE_MISMATCH = "type_mismatch"
    BAD_SEQ = "bad_seq"
    UNKNOWN_CONTROL = "unknown_control"
    DUPLICATE_CONTROL = "duplicate_control"
    BAD_PAYLOAD = "bad_payload"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlMessage:
    """A message that keeps all rules."""

    type: ControlType
    chunk: Mapping[str, object]
    """What the model service gets by ``push_chunk``: ``type`` and the payload's fields."""
    seq: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRejected:
    """A message that breaks one."""

    code: Refusal
    text: str
    type: str | None = None
    seq: int | None = None


class _BrokenRule(Exception):
    """Leaves the parser at the first broken rule; never leaves this module."""

    def __init__(self, code: Refusal, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def parse_control(
    payload: bytes, *, session_id: str, max_bytes: int
) -> ControlMessage | ControlRejected:
    """Check one message from the controller and bring it into the service's form."""
    body: dict[str, object] = {}
    try:
        body = _json_object(payload, max_bytes)
        return _message(body, session_id)
    except _BrokenRule as broken:
        return ControlRejected(
            code=broken.code, text=broken.text, type=_type_word(body), seq=_seq_or_none(body)
        )


def _message(body: dict[str, object], session_id: str) -> ControlMessage:
    inner = _payload(body, session_id)
    word = body.get("type")
    if not isinstance(word, str) or word not in _TYPES:
        _refuse(Refusal.UNKNOWN_TYPE, f"type must be one of: {', '.join(ControlType)}")
    kind = ControlType(word)
    if inner.get("type", word) != word:
        _refuse(Refusal.TYPE_MISMATCH, "the type inside the payload differs from the outer one")
    fields = {name: value for name, value in inner.items() if name not in _ENVELOPE_FIELDS}
    chunk = {"type": str(kind), **fields, **_RULES[kind](fields)}
    return ControlMessage(type=kind, chunk=chunk, seq=_seq(body))


_ENVELOPE_FIELDS = frozenset(("version", "session_id", "type", "payload", "seq"))


def _json_object(payload: bytes, max_bytes: int) -> dict[str, object]:
    if len(payload) > max_bytes:
        _refuse(Refusal.TOO_LARGE, f"a message may have {max_bytes} bytes, this has {len(payload)}")
    try:
        body = json.loads(payload.decode(), parse_constant=_no_constant)
        # Half a character (a lone surrogate) and 1e999 are JSON, but nobody could write them again.
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        _refuse(Refusal.BAD_JSON, "a message must be a JSON object in UTF-8")
    if not isinstance(body, dict):
        _refuse(Refusal.BAD_JSON, "a message must be a JSON object in UTF-8")
    return body


def _no_constant(word: str) -> NoReturn:
    raise ValueError(word)


def _payload(body: dict[str, object], session_id: str) -> dict[str, object]:
    if body.get("session_id", session_id) != session_id:
        _refuse(Refusal.OTHER_SESSION, "the message is for another session")
    if "version" not in body and "payload" not in body:
        return body
    version = body.get("version")
    if isinstance(version, bool) or version != PROTOCOL_VERSION:
        _refuse(Refusal.BAD_ENVELOPE, f"version must be {PROTOCOL_VERSION}")
    inner = body.get("payload", {})
    if not isinstance(inner, dict):
        _refuse(Refusal.BAD_ENVELOPE, "payload must be an object")
    if inner.get("session_id", session_id) != session_id:
        _refuse(Refusal.OTHER_SESSION, "the payload is for another session")
    return inner


def _seq(body: dict[str, object]) -> int | None:
    if body.get("seq") is not None and _seq_or_none(body) is None:
        _refuse(Refusal.BAD_SEQ, "seq must be a whole number from 0 to 2^53 - 1")
    return _seq_or_none(body)


def _seq_or_none(body: dict[str, object]) -> int | None:
    seq = body.get("seq")
    return seq if _is_count(seq) else None


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SEQ


def _type_word(body: dict[str, object]) -> str | None:
    word = body.get("type")
    return word if isinstance(word, str) and word in _TYPES else None


def _control_state(fields: dict[str, object]) -> dict[str, object]:
    held = fields.get("controls")
    if not isinstance(held, list):
        _refuse(Refusal.BAD_PAYLOAD, "controls must be a list")
    controls = [_control_name(name) for name in held]
    if len(set(controls)) != len(controls):
        _refuse(Refusal.DUPLICATE_CONTROL, "a control may be named once")
    return {"controls": controls}


def _control(fields: dict[str, object]) -> dict[str, object]:
    event = _one_of(fields, "event", "action")
    if not isinstance(event, str) or event not in CONTROL_EVENTS:
        _refuse(Refusal.BAD_PAYLOAD, f"event must be one of: {', '.join(sorted(CONTROL_EVENTS))}")
    control = _one_of(fields, "control", "key")
    if control is None and event in _POSE_EVENTS:
        return {"event": event}
    return {"control": _control_name(control), "event": event}


def _one_of(fields: dict[str, object], name: str, alias: str) -> object:
    value = fields.get(name, fields.get(alias))
    if fields.get(alias, value) != value:
        _refuse(Refusal.BAD_PAYLOAD, f"{name} and {alias} differ")
    return value


def _control_name(name: object) -> str:
    if not isinstance(name, str):
        _refuse(Refusal.BAD_PAYLOAD, "a control must be a string")
    if name not in CONTROLS:
        _refuse(Refusal.UNKNOWN_CONTROL, f"unknown control {name[:40]!r}")
    return name


def _prompt(fields: dict[str, object]) -> dict[str, object]:
    prompt = fields.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        _refuse(Refusal.BAD_PAYLOAD, "prompt must be a string that isn't empty")
    if len(prompt) > MAX_PROMPT_CHARS:
        _refuse(Refusal.BAD_PAYLOAD, f"prompt may have {MAX_PROMPT_CHARS} characters")
    return {"prompt": prompt}


def _delivery_ack(fields: dict[str, object]) -> dict[str, object]:
    published = fields.get("published_frames")
    if not _is_count(published):
        _refuse(Refusal.BAD_PAYLOAD, "published_frames must be a whole number, 0 or more")
    return {"published_frames": published}


def _anything(_fields: dict[str, object]) -> dict[str, object]:
    return {}


_RULES: Mapping[ControlType, Callable[[dict[str, object]], dict[str, object]]] = {
    ControlType.CONTROL_STATE: _control_state,
    ControlType.CONTROL: _control,
    ControlType.PROMPT: _prompt,
    ControlType.RESET: _anything,
    ControlType.STOP: _anything,
    ControlType.DELIVERY_ACK: _delivery_ack,
}


def _refuse(code: Refusal, text: str) -> NoReturn:
    raise _BrokenRule(code, text)
