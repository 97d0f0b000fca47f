"""Which messages go between the node and its child, and which errors may cross?

To the child, one ``do`` each:

=============  =========================================================================
``call``       ``id``, ``method`` and a parcel of its arguments; answered once
``open``       ``session``: begin with its chunks
``ask``        ``session``, ``number``: this chunk is needed now
``needed_in``  ``session``, ``number``, ``seconds``: it will be needed then
``stop``       ``session``: end its chunks
``free``       ``slot``: nothing shows it any more
=============  =========================================================================

To the node, one ``say`` each:

=============  =========================================================================
``answer``     ``id``, and an ``error`` or a parcel
``chunk``      ``session``, ``number``, a parcel, the ``slot`` in which its bytes lie, and
               the slots that are ``dropped``
``end``        ``session``, ``error``: its chunks are over
``alive``      how long the child's loops have stood
=============  =========================================================================

Chunks are counted from one, and what asks for one names its number: so what crosses on the way
never makes a chunk more than was wanted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_node.worker.framing import Message, encode
from gpu_node.worker.parcels import Parcel, pack, unpack
from shared.errors import (
    BadChunk,
    GreenroomError,
    InvalidConfig,
    ServiceFault,
    ServiceLoadFailed,
    ServiceStartFailed,
)

ALIVE_EVERY_S = 0.5

_ERRORS: dict[str, type[ServiceFault]] = {
    kind.code: kind
    for kind in (ServiceFault, ServiceLoadFailed, ServiceStartFailed, InvalidConfig, BadChunk)
}


def parcelled(value: object, **head: object) -> bytes:
    """Return a message that carries *value*, its blobs behind the head."""
    parcel = pack(value)
    return encode({**head, **named(parcel)}, parcel.body() if parcel.blobs else b"")


def named(parcel: Parcel) -> dict[str, Any]:
    """Return the part of a head that describes *parcel*."""
    return {"plain": parcel.plain, "table": parcel.table}


def value_of(message: Message) -> Any:
    """Return the value that a message carries behind its head."""
    head = message.head
    return unpack(head["plain"], head["table"], np.frombuffer(message.body, np.uint8))


def error_word(error: BaseException) -> list[str]:
    """Return an error as it crosses: its kind and its sentence."""
    code = error.code if isinstance(error, GreenroomError) else ServiceFault.code
    return [code, str(error) or type(error).__name__]


def error_from(word: list[str]) -> ServiceFault:
    """Return the error that crossed."""
    code, text = word
    return _ERRORS.get(code, ServiceFault)(text)
