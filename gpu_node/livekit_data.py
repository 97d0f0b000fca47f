"""How do words and files cross a LiveKit room, besides media and controls?

What the SDK forces on us: a publish waits as long as the SDK reconnects, so it's bounded here and
goes on by itself; a byte stream that nobody reads to its end must be closed, or its subscription
lives as long as the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import structlog
from livekit import rtc
from livekit.rtc.participant import PublishDataError

from gpu_node.room import AssetStream
from shared.room_protocol import ASSET_TOPIC
from shared.room_status import METRICS_TOPIC, STATUS_TOPIC, encode_status
from shared.rooms.tokens import redact

SEND_TIMEOUT_S = 2.0

_log = structlog.get_logger()


class LiveKitData:
    """What one worker says on the data topics, and the files that it's sent."""

    def __init__(
        self,
        room: rtc.Room,
        *,
        plays: Callable[[], bool],
        keep: Callable[[Coroutine[Any, Any, object]], asyncio.Task[Any]],
        on_asset: Callable[[str, AssetStream], None],
    ) -> None:
        self._room = room
        self._plays = plays
        self._keep = keep
        self._on_asset = on_asset
        room.register_byte_stream_handler(ASSET_TOPIC, self._on_stream)

    async def send_status(self, body: Mapping[str, object]) -> None:
        """Say *body* on ``tf.status``, reliably."""
        await self._send(body, STATUS_TOPIC, reliable=True)

    async def send_metrics(self, body: Mapping[str, object]) -> None:
        """Say *body* on ``tf.metrics``, once."""
        await self._send(body, METRICS_TOPIC, reliable=False)

    async def _send(self, body: Mapping[str, object], topic: str, *, reliable: bool) -> None:
        if not self._plays():
            return
        sending = self._keep(self._publish(encode_status(body), topic, reliable=reliable))
        await asyncio.wait({sending}, timeout=SEND_TIMEOUT_S)

    async def _publish(self, payload: bytes, topic: str, *, reliable: bool) -> None:
        try:
            await self._room.local_participant.publish_data(payload, reliable=reliable, topic=topic)
        except PublishDataError as fault:
            _log.debug("data_not_sent", topic=topic, why=redact(fault.message))

    def _on_stream(self, reader: rtc.ByteStreamReader, sender: str) -> None:
        info = reader.info
        self._on_asset(
            sender,
            AssetStream(
                stream_id=info.stream_id,
                name=info.name,
                mime_type=info.mime_type,
                size_bytes=info.size or None,
                attributes=dict(info.attributes or {}),
                chunks=reader,
                close=reader.close,
            ),
        )
