"""How does a value of a service (a chunk, a config) become JSON and raw bytes, and back?

No pickle: what arrives can only be plain data. Arrays, bytes and long texts leave the value and are
named beside it by path, kind and size; they lie one behind the other in a block of bytes, which is
shared memory for chunks and the tail of the message for all else. What JSON has no word for is
named by its type in angle brackets, as it would be on ``tf.status``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Block = npt.NDArray[np.uint8]
"""One dimension of bytes."""

_LONG_TEXT = 4096
_ALIGN_BYTES = 64
_MAX_DEPTH = 24
_MAX_WHOLE = 2**64
_PLAIN_KINDS = "biuf"
"""Kinds of numpy's dtypes that are numbers and nothing else."""

Path = list[str | int]
Entry = tuple[Path, str, int, str, list[int]]
"""Path, kind, bytes, and of an array its dtype and shape."""


@dataclass(slots=True, kw_only=True)
class Parcel:
    """A value taken apart."""

    plain: Any = None
    """What JSON can say."""
    table: list[Entry] = field(default_factory=list)
    blobs: list[bytes | npt.NDArray[Any]] = field(default_factory=list)
    """What belongs to the entries of the table, in their order."""

    @property
    def size_bytes(self) -> int:
        """How large a block the blobs need."""
        return size_of(self.table)

    def fill(self, block: Block) -> None:
        """Copy the blobs into *block*, each once."""
        for (_, _, size, dtype, shape), begin, blob in zip(
            self.table, _spaced(self.table)[0], self.blobs, strict=True
        ):
            place = block[begin : begin + size]
            if isinstance(blob, np.ndarray):
                np.copyto(place.view(dtype).reshape(shape), blob)
            else:
                place[:] = np.frombuffer(blob, np.uint8)

    def body(self) -> bytes:
        """Return the blobs as bytes."""
        block = np.zeros(self.size_bytes, np.uint8)
        self.fill(block)
        return block.tobytes()


def pack(value: object) -> Parcel:
    """Take *value* apart; arrays aren't copied yet."""
    parcel = Parcel()
    parcel.plain = _plain(value, [], parcel)
    return parcel


def unpack(plain: Any, table: list[Entry], block: Block) -> Any:
    """Put a value together again; its arrays are views of *block*."""
    whole = {"": plain}
    for (path, kind, size, dtype, shape), begin in zip(table, _spaced(table)[0], strict=True):
        place = block[begin : begin + size]
        inner: Any = whole
        for step in ("", *path)[:-1]:
            inner = inner[step]
        inner[("", *path)[-1]] = _restored(kind, place, dtype, shape)
    return whole[""]


def _restored(kind: str, place: Block, dtype: str, shape: list[int]) -> object:
    if kind == "array":
        return place.view(dtype).reshape(shape)
    raw = place.tobytes()
    return raw if kind == "bytes" else raw.decode("utf-8", "surrogatepass")


def size_of(table: list[Entry]) -> int:
    """Return how large a block the blobs of *table* need."""
    return _spaced(table)[1]


def _spaced(table: list[Entry]) -> tuple[list[int], int]:
    """Return where each blob begins, and where the last one ends."""
    begins, end = [], 0
    for _, _, size, _, _ in table:
        begin = -(-end // _ALIGN_BYTES) * _ALIGN_BYTES
        begins.append(begin)
        end = begin + size
    return begins, end


def _plain(value: object, path: Path, parcel: Parcel) -> Any:
    plain: Any = f"<{type(value).__name__}>"
    match value:
        case None | bool():
            plain = value
        case int() | float():
            plain = _number(value)
        case str():
            plain = _text(value, path, parcel)
        case bytes() | bytearray() | memoryview():
            plain = _blob((path, "bytes", len(raw := bytes(value)), "", []), raw, parcel)
        case _ if len(path) > _MAX_DEPTH:
            pass
        case Mapping():
            plain = {
                (name := str(key)): _plain(inner, [*path, name], parcel)
                for key, inner in value.items()
            }
        case list() | tuple():
            plain = [_plain(inner, [*path, at], parcel) for at, inner in enumerate(value)]
        case np.ndarray() if value.dtype.kind in _PLAIN_KINDS:
            entry = (path, "array", value.nbytes, value.dtype.str, list(value.shape))
            plain = _blob(entry, value, parcel)
        case np.generic():
            plain = _plain(value.item(), path, parcel)
        case _:
            pass
    return plain


def _number(value: float) -> float | str:
    if isinstance(value, int):
        return int(value) if abs(value) <= _MAX_WHOLE else "<int>"
    return float(value)


def _text(value: str, path: Path, parcel: Parcel) -> Any:
    if len(value) < _LONG_TEXT:
        return str(value)
    raw = value.encode("utf-8", "surrogatepass")
    return _blob((path, "text", len(raw), "", []), raw, parcel)


def _blob(entry: Entry, blob: bytes | npt.NDArray[Any], parcel: Parcel) -> Any:
    """Note what leaves the value; nothing stays at its place."""
    parcel.table.append(entry)
    parcel.blobs.append(blob)
    return None
