"""What could somebody send on a control topic who means harm, or has a bug?

Bytes of any kind; JSON of any shape; and, since most of that ends at the first check, messages that
are nearly right: known words in known places with one thing or another wrong about them.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.room_protocol import CONTROL_EVENTS, CONTROLS, ControlType

_DEEP = st.integers(2, 3000).map(lambda depth: b"[" * depth + b"]" * depth)
_DEEP_PAYLOADS = st.integers(2, 1200).map(
    lambda depth: b'{"type":"reset","extra":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
)
_HUGE = st.sampled_from((
    b'{"type":"prompt","prompt":"' + b"x" * 70_000 + b'"}',
    b'{"type":"control_state","controls":[' + b'"w",' * 2_900 + b'"w"]}',
    b'{"type":"' + b"y" * 9_000 + b'"}',
    b'{"type":"reset","seq":' + b"9" * 5_000 + b"}",
    b'{"type":"reset","seq":1e999}',
    b'{"type":"prompt","prompt":"\\ud800"}',
    b'{"type":"reset","type":"stop","seq":NaN}',
    b"\xff\xfe{}",
    b'\xef\xbb\xbf{"type":"reset"}',
))  # fmt: skip
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
_WORDS = st.sampled_from((*ControlType, *CONTROL_EVENTS, *CONTROLS, "", "Stop", "telefuser"))
_VALUES = _WORDS | _ANY | st.lists(_WORDS, max_size=5)
_FIELDS = st.sampled_from((
    "type", "controls", "control", "key", "event", "action", "prompt", "published_frames", "seq",
    "version", "session_id", "payload",
))  # fmt: skip
_NEARLY = st.fixed_dictionaries(
    {"type": _WORDS | _ANY},
    optional={
        "controls": st.lists(_WORDS, max_size=4) | _ANY,
        "control": _VALUES,
        "event": _VALUES,
        "prompt": st.text(max_size=30) | _ANY,
        "published_frames": st.integers() | _ANY,
        "seq": st.integers(-1, 5) | _ANY,
        "version": st.sampled_from((1, 1.0, True, "1", 2, None)),
        "payload": st.dictionaries(_FIELDS, _VALUES, max_size=4) | _ANY,
        "session_id": st.text(max_size=10),
    },
)
messages: st.SearchStrategy[bytes] = st.one_of(
    st.binary(max_size=60),
    _ANY.map(lambda value: json.dumps(value).encode()),
    _NEARLY.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(_FIELDS, _VALUES, max_size=5).map(lambda value: json.dumps(value).encode()),
    _HUGE,
    _DEEP,
    _DEEP_PAYLOADS,
)


def made_up(how_many: int) -> list[bytes]:
    """Return so many messages, the same ones in each run, and none that rightly ends the session.

    For tests whose other side runs on an event loop, where hypothesis can't be asked in between.
    """
    found: list[bytes] = []

    @settings(max_examples=how_many, derandomize=True, database=None)
    @given(messages.filter(lambda message: not _stops(message)))
    def collect(message: bytes) -> None:
        found.append(message)

    collect()
    return found


def _stops(message: bytes) -> bool:
    try:
        body: Any = json.loads(message)
    except (ValueError, RecursionError):
        return False
    return isinstance(body, dict) and body.get("type") == "stop"
