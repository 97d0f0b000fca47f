"""How is a world played that vLLM-Omni computes?

Over ``/v1/realtime/video``: JSON in text messages, fragmented MP4 in binary ones. Looked up on
2026-11-30 at https://docs.vllm.ai/projects/vllm-omni/en/latest/serving/streaming_video_output_api
and in vllm-project/vllm-omni, ``vllm_omni/entrypoints/openai/serving_video_output_stream.py``. A
service file of one's own::

    from gpu_node.services.vllm_omni_world import Remote, vllm_omni_world

    def get_service():
        return vllm_omni_world(
            Remote(url="ws://10.0.0.5:8091/v1/realtime/video"),
            start={"width": 640, "height": 384, "fps": 16, "num_frames": 9999},
            phrases={"w": "the camera moves forward", "a": "the camera turns left"},
        )

- The session begins with ``session.start``; ``num_frames`` says how long it lasts.
- The only thing that a player can change is the prompt (``session.interaction``), and there is no
  message for keys. With *phrases* a held key adds its phrase to the prompt; without, keys do
  nothing.
- ``session.stop`` ends a session. There is no reset. ``session.ping`` is sent every 20 s, since a
  server gives a session up that stalls for a minute, and a player who pauses makes it stall.
- An error with an ``event_id`` refused an interaction and is shown to the player as a notice. The
  page doesn't say what other errors mean; the source ends the session then.
- The frame rate is taken from the ``config`` that the server sends back, else from the MP4.
- A sound track isn't described by the page and is left out.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpu_node.services.fragmented_mp4 import FragmentedMp4
from gpu_node.services.remote_link import Message, Remote
from gpu_node.services.remote_start import Start
from gpu_node.services.remote_world import Frame, Heard, RemoteWorld, Wish

DEFAULT_REMOTE = Remote(url="ws://127.0.0.1:8091/v1/realtime/video")
DEFAULT_FPS = 16.0
"""The server's, when nobody says anything."""


def vllm_omni_world(
    remote: Remote = DEFAULT_REMOTE,
    *,
    start: Mapping[str, Any] | None = None,
    phrases: Mapping[str, str] | None = None,
    sessions: int = 1,
    image: Path | None = None,
) -> RemoteWorld:
    """Return the service.

    Args:
        remote: Where the server is.
        start: More fields of the ``session.start`` message.
        phrases: What a control adds to the prompt while it's held; names without "Arrow" and "Key".
        sessions: How many the server plays at once.
        image: The first picture for those who bring none.
    """
    fields = dict(start or {})
    return RemoteWorld(
        replace(remote, name="The vLLM-Omni server"),
        lambda begun: VllmOmniDialect(begun, fields, phrases or {}),
        sessions=sessions,
        image=image,
    )


class VllmOmniDialect:
    """One session's messages."""

    keepalive: Message | None = json.dumps({"type": "session.ping"})
    goodbye: Message | None = json.dumps({"type": "session.stop"})
    ends_by_closing = False

    def __init__(self, start: Start, fields: Mapping[str, Any], phrases: Mapping[str, str]) -> None:
        self._start = {**fields, "type": "session.start", "format": "m4s", "prompt": start.prompt}
        if start.picture is not None:
            data = base64.b64encode(start.picture.raw).decode()
            url = f"data:{start.picture.media_type};base64,{data}"
            self._start["image_reference"] = {"image_url": url}
        if start.fps is not None:
            self._start["fps"] = start.fps
        if start.seed is not None:
            self._start["seed"] = start.seed
        self._phrases = phrases
        self._said = start.prompt
        self._events = 0
        self._video = FragmentedMp4()
        self._fps: float | None = None
        self._told: dict[str, Any] = {}
        """What the server said of the pictures that follow."""

    def hello(self) -> Message:
        """The ``session.start`` message."""
        return json.dumps(self._start)

    def wish(self, wish: Wish) -> list[Message]:
        """An interaction, if the prompt has become another one."""
        names = (name.removeprefix("Arrow").removeprefix("Key").lower() for name in wish.held)
        added = [self._phrases[name] for name in names if name in self._phrases]
        prompt = ", ".join([wish.prompt, *added])
        if prompt == self._said:
            return []
        self._said = prompt
        self._events += 1
        interaction = {"event_id": f"wish-{self._events}", "event": {"prompt": prompt}}
        return [json.dumps({"type": "session.interaction", "interaction": interaction})]

    def read(self, message: Message) -> Heard:
        """Take an event, or decode the pictures of a chunk."""
        if isinstance(message, bytes):
            return self._chunk(message)
        try:
            event = json.loads(message)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            return Heard(fault="sent something that isn't a JSON object")
        match event.get("type"):
            case "video.start":
                self._note_fps(event.get("config"))
            case "video.chunk_metadata":
                names = ("generation_chunk_index", "active_event_ids")
                self._told = {name: event[name] for name in names if name in event}
            case "session.done":
                return self._heard(self._video.flush(), over=True)
            case "error":
                return _error(event)
            case _:
                pass  # acknowledgements
        return Heard()

    def _chunk(self, mp4: bytes) -> Heard:
        try:
            return self._heard(self._video.feed(mp4))
        except ValueError as wrong:
            return Heard(fault=f"sent a video that can't be shown: {wrong}")

    def _heard(self, frames: list[Frame], *, over: bool = False) -> Heard:
        fps = self._fps or self._video.fps or DEFAULT_FPS
        return Heard(frames=frames, fps=fps, told={"remote": self._told}, over=over)

    def _note_fps(self, config: object) -> None:
        fps = config.get("fps") if isinstance(config, dict) else None
        if isinstance(fps, int | float) and not isinstance(fps, bool) and fps > 0:
            self._fps = float(fps)


def _error(event: Mapping[str, Any]) -> Heard:
    words = str(event.get("message") or "an error without words")
    if event.get("event_id") is not None:
        return Heard(notice=f"The vLLM-Omni server didn't take the last control: {words:.200}")
    return Heard(fault=f"says: {words}")


def get_service() -> RemoteWorld:
    """What the loader calls."""
    return vllm_omni_world()
