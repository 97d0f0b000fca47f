"""Which files from the room reach the pipeline session, and what is answered?

A file comes as a byte stream on ``tf.asset``, from the controller alone. It's read whole, at most
1 MiB, and pushed as ``{"type": "asset", ...}``; larger things go by HTTP. Each is answered on
``tf.status``: ``asset_accepted`` once the service has it, or ``asset_rejected`` with the reason. A
session holds a few files at a time, from the first byte until the service has taken them, so its
memory is bounded however slow the service is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum

import structlog

from gpu_node import metrics
from gpu_node.room import AssetStream
from gpu_node.roster import may_control
from shared.clock import Clock
from shared.errors import ServiceFault
from shared.lifecycle import Background
from shared.room_protocol import MAX_ASSET_BYTES
from shared.room_status import Status, StatusWriter

_log = structlog.get_logger()

MOST_AT_ONCE = 2
MOST_PER_MINUTE = 20
_MINUTE_S = 60.0
READ_WITHIN_S = 30.0
_NAME_CHARS = 256
_MOST_ATTRIBUTES, _ATTRIBUTE_CHARS = 16, 1024


class AssetRefusal(StrEnum):
    """Why a file was refused; the ``code`` of ``asset_rejected``."""

    UNKNOWN_SENDER = "unknown_sender"
    NOT_CONTROLLER = "not_controller"
    NOT_RUNNING = "not_running"
    """The pipeline session doesn't exist yet."""
    TOO_LARGE = "too_large"
    TOO_MANY = "too_many"
    TOO_OFTEN = "too_often"
    TOO_SLOW = "too_slow"
    BROKEN_OFF = "broken_off"
    SERVICE_FAULT = "service_fault"


_TEXTS = {
    AssetRefusal.UNKNOWN_SENDER: "the room doesn't know the sender yet; send it again",
    AssetRefusal.NOT_CONTROLLER: "only the session's controller may send files",
    AssetRefusal.NOT_RUNNING: "the session isn't running yet; send it after worker_running",
    AssetRefusal.TOO_LARGE: f"a file may have {MAX_ASSET_BYTES} bytes; send larger ones by HTTP",
    AssetRefusal.TOO_MANY: f"{MOST_AT_ONCE} files are under way; wait for their answers",
    AssetRefusal.TOO_OFTEN: f"{MOST_PER_MINUTE} files a minute are enough; wait a little",
    AssetRefusal.TOO_SLOW: f"a file must arrive within {READ_WITHIN_S:g} s",
    AssetRefusal.BROKEN_OFF: "the file broke off",
    AssetRefusal.SERVICE_FAULT: "the service couldn't take the file",
}


class _Refused(Exception):
    """Ends the reading of one file; never leaves this module."""

    def __init__(self, code: AssetRefusal) -> None:
        super().__init__(code)
        self.code = code


class Assets:
    """The files of one session. Everything here runs on the event loop."""

    def __init__(
        self,
        *,
        controller: str,
        status: StatusWriter,
        clock: Clock,
        say: Callable[[Status], None],
        push: Callable[[Mapping[str, object]], Awaitable[None]],
    ) -> None:
        self._controller = controller
        self._status = status
        self._clock = clock
        self._say = say
        self._push = push
        self._tasks = Background()
        self._under_way = 0
        self._begun_s: deque[float] = deque(maxlen=MOST_PER_MINUTE)
        self.running = False
        """The pipeline session exists."""

    def receive(self, sender: str, stream: AssetStream, *, silent: bool) -> None:
        """A file begins to arrive; while *silent* nothing counts and nothing is answered (R2)."""
        if silent:
            stream.close()
            return
        code = self._refusal(sender, stream)
        if code is not None:
            stream.close()
            self._reject(stream, code)
            return
        self._under_way += 1
        self._begun_s.append(self._clock.monotonic_s())
        self._tasks.start(f"asset {self._status.session_id}", self._take(stream))

    async def aclose(self) -> None:
        """Take no more."""
        await self._tasks.aclose()

    def _refusal(self, sender: str, stream: AssetStream) -> AssetRefusal | None:
        code = None
        if not sender:
            code = AssetRefusal.UNKNOWN_SENDER
        elif not may_control(sender, self._controller):
            code = AssetRefusal.NOT_CONTROLLER
        elif not self.running:
            code = AssetRefusal.NOT_RUNNING
        elif (stream.size_bytes or 0) > MAX_ASSET_BYTES:
            code = AssetRefusal.TOO_LARGE
        elif self._under_way >= MOST_AT_ONCE:
            code = AssetRefusal.TOO_MANY
        elif self._is_too_often():
            code = AssetRefusal.TOO_OFTEN
        return code

    def _is_too_often(self) -> bool:
        full = len(self._begun_s) == MOST_PER_MINUTE
        return full and self._clock.monotonic_s() - self._begun_s[0] < _MINUTE_S

    async def _take(self, stream: AssetStream) -> None:
        try:
            data = await self._read(stream)
            await self._push(_chunk(stream, data))
        except _Refused as refused:
            self._reject(stream, refused.code)
        except ServiceFault as error:
            _log.warning("asset_failed", session=self._status.session_id, error=str(error))
            self._reject(stream, AssetRefusal.SERVICE_FAULT)
        else:
            metrics.asset("accepted")
            self._say(self._status.asset_accepted(stream.stream_id, stream.name, len(data)))
        finally:
            self._under_way -= 1
            stream.close()

    async def _read(self, stream: AssetStream) -> bytes:
        data = bytearray()
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                async for piece in stream.chunks:
                    data += piece
                    if len(data) > MAX_ASSET_BYTES:
                        raise _Refused(AssetRefusal.TOO_LARGE)
        except TimeoutError:
            raise _Refused(AssetRefusal.TOO_SLOW) from None
        except ConnectionError:
            raise _Refused(AssetRefusal.BROKEN_OFF) from None
        if stream.size_bytes is not None and len(data) != stream.size_bytes:
            raise _Refused(AssetRefusal.BROKEN_OFF)
        return bytes(data)

    def _reject(self, stream: AssetStream, code: AssetRefusal) -> None:
        metrics.asset("rejected")
        self._say(
            self._status.asset_rejected(
                stream.stream_id, stream.name[:_NAME_CHARS], code=code, text=_TEXTS[code]
            )
        )


def _chunk(stream: AssetStream, data: bytes) -> Mapping[str, object]:
    """Return what the service gets."""
    attributes = list(stream.attributes.items())[:_MOST_ATTRIBUTES]
    return {
        "type": "asset",
        "stream_id": stream.stream_id,
        "name": stream.name[:_NAME_CHARS],
        "mime_type": stream.mime_type[:_NAME_CHARS],
        "attributes": {name[:_NAME_CHARS]: text[:_ATTRIBUTE_CHARS] for name, text in attributes},
        "data": data,
    }
