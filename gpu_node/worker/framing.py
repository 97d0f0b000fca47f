"""How does one message cross the pipe between node and child?

A message is a JSON head and, behind it, the bytes that JSON can't carry cheaply::

    4 bytes   length of the head    4 bytes   length of the bytes      head (UTF-8)      bytes

Both numbers are big-endian. The same decoder serves both sides: it is fed whatever the socket gave.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_LENGTHS = struct.Struct("!II")
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""More than any picture or control; a longer one means that the two sides lost their places."""


class LostPlace(Exception):
    """What came is no message: the other side is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message as it arrived."""

    head: dict[str, Any]
    body: bytearray
    """Of its own, so that arrays made of it may be written to."""


def encode(head: Mapping[str, Any], body: bytes = b"") -> bytes:
    """Return the bytes of one message; *head* is plain JSON."""
    text = json.dumps(head, separators=(",", ":")).encode()
    return b"".join((_LENGTHS.pack(len(text), len(body)), text, body))


class Decoder:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that *data* completes; raises `LostPlace`."""
        self._rest += data
        while len(self._rest) >= _LENGTHS.size:
            head_bytes, body_bytes = _LENGTHS.unpack_from(self._rest)
            begin = _LENGTHS.size + head_bytes
            end = begin + body_bytes
            if end > MAX_MESSAGE_BYTES:
                raise LostPlace(f"a message of {end} bytes")
            if len(self._rest) < end:
                return
            message = _message(self._rest[_LENGTHS.size : begin], self._rest[begin:end])
            del self._rest[:end]
            yield message


def _message(text: bytearray, body: bytearray) -> Message:
    try:
        head = json.loads(text)
    except ValueError as fault:
        raise LostPlace("a head that is no JSON") from fault
    if not isinstance(head, dict):
        raise LostPlace("a head that is no object")
    return Message(head=head, body=body)
