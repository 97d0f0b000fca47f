"""How is a world played that SGLang computes?

Over ``/v1/realtime_video/generate``, MessagePack in both directions. Looked up on 2026-11-30 at
https://docs.sglang.io/cookbook/diffusion/LingBot-World/LingBot-World-2.0 and in sgl-project/sglang,
``python/sglang/multimodal_gen/runtime/entrypoints/openai/realtime``. A service file of one's own::

    from gpu_node.services.sglang_world import Remote, sglang_world

    def get_service():
        return sglang_world(Remote(url="ws://10.0.0.5:30000/v1/realtime_video/generate"))

- The session begins with ``init``: prompt, first picture, size, fps, frames per chunk.
- What is held goes out as ``camera_actions`` in its *state* form, a new prompt as ``prompt``.
- Pictures come as ``frame_batch``, or as ``frame_batch_header`` and a second message with the
  bytes: the page has the first, the source both. WebP, JPEG and raw RGB are read. The lossless form
  for which the page says to leave ``realtime_output_format`` out isn't described and is refused.
- The page says of errors that they are maps. The source has the words in ``content``, plays on
  after ``invalid event`` (shown to the player as a notice) and is at its end after any other.
- There is no message for the end or for a reset: a session is ended by closing, a reset does
  nothing. A server that closes by itself has failed, unless ``max_chunks`` was asked for.
- ``realtime_output_pacing`` stands in the source alone: a server that is quicker than its film then
  waits, instead of filling the network with pictures from before the newest control.
- Some states of the source end a session whose client says nothing for long, and know a
  ``heartbeat``. The page has neither, and other states answer it with an error: none is sent.
- Sound isn't part of it.
"""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gpu_node.services.remote_link import Message, Remote
from gpu_node.services.remote_start import Start
from gpu_node.services.remote_world import Frame, Heard, RemoteWorld, Wish

try:
    import msgpack
except ImportError as error:
    raise ImportError(
        "it needs msgpack; install it with: pip install 'greenroom[remote]'"
    ) from error

DEFAULT_REMOTE = Remote(url="ws://127.0.0.1:30000/v1/realtime_video/generate")
DEFAULT_INIT: Mapping[str, Any] = {
    "size": "832x480",
    "fps": 16,
    "num_frames": 9,
    "realtime_output_format": "jpeg",
    "output_compression": 90,
    "realtime_output_pacing": True,
}
ACTIONS: Mapping[str, str] = {
    "w": "w", "forward": "w", "s": "s", "backward": "s", "a": "a", "d": "d",
    "up": "i", "i": "i", "down": "k", "k": "k",
    "left": "j", "j": "j", "right": "l", "l": "l",
}  # fmt: skip
"""Names of controls, without "Arrow" and "Key": move with wasd, look around with ijkl."""
RAW, ENCODED = "application/x-raw-rgb", ("image/webp", "image/jpeg")
PLAYS_ON = "invalid event"
_BROKEN = (LookupError, OSError, SyntaxError, TypeError, ValueError)
"""What comes of pictures that aren't what their header says."""


def sglang_world(
    remote: Remote = DEFAULT_REMOTE,
    *,
    init: Mapping[str, Any] | None = None,
    actions: Mapping[str, str] = ACTIONS,
    sessions: int = 1,
    image: Path | None = None,
) -> RemoteWorld:
    """Return the service.

    Args:
        remote: Where the server is.
        init: Fields of the ``init`` message beside or instead of `DEFAULT_INIT`.
        actions: What each control does.
        sessions: How many the server plays at once.
        image: The first picture for those who bring none; LingBot World can't do without.
    """
    fields = {**DEFAULT_INIT, **(init or {})}
    return RemoteWorld(
        replace(remote, name="The SGLang server"),
        lambda start: SGLangDialect(start, fields, actions),
        sessions=sessions,
        image=image,
    )


class SGLangDialect:
    """One session's messages."""

    keepalive: Message | None = None
    goodbye: Message | None = None

    def __init__(self, start: Start, fields: Mapping[str, Any], actions: Mapping[str, str]) -> None:
        self._init = {**fields, "type": "init", "prompt": start.prompt}
        if start.picture is not None:
            self._init["first_frame"] = start.picture.raw
        if start.fps is not None:
            self._init["fps"] = start.fps
        if start.seed is not None:
            self._init["seed"] = start.seed
        self._actions = actions
        self._said = Wish(prompt=start.prompt)
        self._done: list[str] = []
        self._events = 0
        self._header: dict[str, Any] | None = None
        """Came without its pictures: they are the next message."""
        self.ends_by_closing = self._init.get("max_chunks") is not None

    def hello(self) -> Message:
        """The ``init`` message."""
        return _packed(self._init)

    def wish(self, wish: Wish) -> list[Message]:
        """An event for what has changed."""
        events: list[Message] = []
        names = (name.removeprefix("Arrow").removeprefix("Key").lower() for name in wish.held)
        actions = sorted({self._actions[name] for name in names if name in self._actions})
        if actions != self._done:
            self._done = actions
            now = {"actions": actions, "client_ts_ms": int(time.monotonic() * 1000)}
            events.append(self._event("camera_actions", {"mode": "state", "transitions": [now]}))
        if wish.prompt != self._said.prompt:
            events.append(self._event("prompt", wish.prompt))
        self._said = wish
        return events

    def read(self, message: Message) -> Heard:
        """Take a map, or the pictures that a map before announced."""
        if self._header is not None and isinstance(message, bytes):
            header, self._header = self._header, None
            return self._frames(header, message)
        try:
            body = msgpack.unpackb(message)
        except (ValueError, TypeError, msgpack.UnpackException):
            body = None
        if not isinstance(body, dict):
            return Heard(fault="sent something that isn't a MessagePack map")
        match body.get("type"):
            case "frame_batch_header":
                self._header = body
            case "frame_batch":
                return self._frames(body, body.get("payload"))
            case "error":
                return _error(body)
            case _:
                pass  # figures about its own work
        return Heard()

    def _event(self, kind: str, payload: object) -> Message:
        self._events += 1
        event = {"type": "event", "kind": kind, "payload": payload, "event_id": self._events}
        return _packed(event)

    def _frames(self, header: Mapping[str, Any], payload: Any) -> Heard:
        kind = header.get("content_type")
        if kind != RAW and kind not in ENCODED:
            return Heard(
                fault=f"sends pictures as {kind!r:.60}, which is neither asked for nor read"
            )
        try:
            frames = (_raw if kind == RAW else _encoded)(header, memoryview(payload))
        except (*_BROKEN, Image.DecompressionBombError):
            return Heard(fault="sent pictures that don't fit to their description")
        told = {name: header[name] for name in ("chunk_index", "event_id") if name in header}
        return Heard(frames=frames, fps=self._fps(), told={"remote": told})

    def _fps(self) -> float:
        fps = float(self._init["fps"])
        if self._init.get("enable_frame_interpolation"):
            fps *= 2 ** int(self._init.get("frame_interpolation_exp") or 1)
        return fps


def _error(body: Mapping[str, Any]) -> Heard:
    words = str(body.get("content") or body.get("message") or "an error without words")
    if words == PLAYS_ON:
        return Heard(notice="The SGLang server didn't take the last control.")
    return Heard(fault=f"says: {words}")


def _raw(header: Mapping[str, Any], payload: memoryview) -> list[Frame]:
    shape = (int(header["num_frames"]), int(header["height"]), int(header["width"]), 3)
    return list(np.frombuffer(payload, np.uint8).reshape(shape))


def _encoded(header: Mapping[str, Any], payload: memoryview) -> list[Frame]:
    frames, at = [], 0
    for length in header["payload_lengths"]:
        picture = io.BytesIO(payload[at : at + length])
        at += length
        with Image.open(picture, formats=("WEBP", "JPEG")) as image:
            frames.append(np.asarray(image.convert("RGB")))
    return frames


def _packed(body: Mapping[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(body)
    return packed


def get_service() -> RemoteWorld:
    """What the loader calls."""
    return sglang_world()
