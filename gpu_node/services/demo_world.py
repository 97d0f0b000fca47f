"""What does a world look like as a service file?

This is the demo, and an example to copy: a *bidirectional* service in plain Python that imports
nothing of the project and is loaded by its path. `get_service` at the end returns a `DemoWorld`,
whose methods are the whole contract:

=====================  ============================================================================
``start``, ``stop``     called once each, in a worker thread; may take their time
``create_session``      one user comes; quick; a ``ValueError`` is shown to that user
``push_chunk``          a control came; must not block; late ones for closed sessions are ignored
``pull_chunks``         yields chunks of frames; when it ends, the session is complete
``close_session``       the user is gone
=====================  ============================================================================

``has_session`` and ``configure_session_capacity`` are optional. All sessions share one event loop,
so drawing goes to a thread. They share one brush as well: ``execution_lease`` asks the node to let
one of them draw at a time, and ``execution_lease_max_chunks`` to hand the brush on after each
chunk, so that all players move. A chunk is asked for shortly before it is due; so the newest
controls are in it. The world itself is in the files beside this one: ``demo_world_town.py`` makes a
place from a prompt, ``demo_world_walk.py`` moves a player in it, ``demo_world_view.py`` draws it,
``demo_world_sound.py`` lets it be heard.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import importlib.util
import io
import math
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from PIL import Image, ImageOps

CHUNK_FRAMES = 4
DEFAULT_FPS, MAX_FPS = 16, 30
DEFAULT_CAPACITY = 4
DEFAULT_PROMPT = "A town at dusk"
HELD_KEY_S = 3.0
"""A held key counts this long after it was last named; pages name theirs once a second."""
PLACES_KEPT = 8

MAX_IMAGE_BYTES = 10 * 2**20
MAX_IMAGE_PIXELS = 40_000_000
PICTURE_SIZE = 256
DATA_URLS = ("data:image/png;base64", "data:image/jpeg;base64", "data:image/jpg;base64")
CONFIG_KEYS = (
    "control_idle_timeout",
    "delivery_mode",
    "fps",
    "image",
    "image_path",
    "prompt",
    "session_id",
)


def _beside(name: str) -> ModuleType:
    """Load a file that lies beside this one, under whatever name this one was loaded."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} can't be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


town, walk, view, sound = (
    _beside(f"demo_world_{part}") for part in ("town", "walk", "view", "sound")
)


@dataclass(slots=True)
class Session:
    """What one user wants. Only the service loop writes it, except ``stopped``."""

    prompt: str
    picture: bytes | None
    fps: float
    held: Mapping[str, float] = field(default_factory=dict)
    """Until when each control counts. Replaced as a whole: the drawing thread reads it."""
    reset_wanted: bool = False
    stopped: bool = False
    """Set on any thread, never cleared."""

    def take(self, chunk: Mapping[str, Any], now_s: float) -> None:
        """Apply one control message; what isn't known is ignored."""
        match chunk.get("type"):
            case "control_state":
                self.held = {str(name): now_s + HELD_KEY_S for name in chunk.get("controls") or ()}
            case "control":
                event = str(chunk.get("event") or chunk.get("action"))
                self._key(str(chunk.get("control") or chunk.get("key")), event, now_s)
            case "prompt":
                self.prompt = str(chunk.get("prompt") or DEFAULT_PROMPT)
            case "reset":
                self.reset_wanted = True
            case "stop":
                self.stopped = True
            case _:
                pass

    def held_at(self, now_s: float) -> list[str]:
        """The controls that count now, by the names that the client gave them."""
        return sorted(name for name, until_s in self.held.items() if until_s > now_s)

    def _key(self, name: str, event: str, now_s: float) -> None:
        if event == "press":
            self.held = {**self.held, name: now_s + HELD_KEY_S}
        elif event in ("release", "keyup", "end"):
            self.held = {other: until_s for other, until_s in self.held.items() if other != name}
        elif event in ("reset", "reset_pose"):
            self.reset_wanted = True


class DemoWorld:
    """The service: any number of prompts, a few players, one brush."""

    execution_lease = "node"
    execution_lease_max_chunks = 1

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._capacity = DEFAULT_CAPACITY
        self._sessions: dict[str, Session] = {}
        self._brush = threading.Lock()
        self._painter = view.Painter()
        self._place = functools.lru_cache(maxsize=PLACES_KEPT)(_make_place)

    def start(self) -> None:
        """Warm up, so that the first user doesn't wait for it."""
        with self._brush:
            self._painter.paint(_look(walk.Walker(self._place(DEFAULT_PROMPT, None))))

    def stop(self) -> None:
        """End what still runs."""
        for session_id in list(self._sessions):
            self.close_session(session_id)

    def configure_session_capacity(self, max_sessions: int | None) -> dict[str, Any]:
        """Take at most *max_sessions*; more than four together are too much for a small machine."""
        self._capacity = min(max_sessions or DEFAULT_CAPACITY, DEFAULT_CAPACITY)
        return {"effective_capacity": self._capacity}

    def create_session(self, config: dict[str, Any]) -> str:
        """Check *config* and make a session; the place itself is made by ``pull_chunks``."""
        unknown = sorted(set(config) - set(CONFIG_KEYS))
        if unknown:
            raise ValueError(
                f"unknown config key {', '.join(unknown)}; known are {', '.join(CONFIG_KEYS)}"
            )
        if len(self._sessions) >= self._capacity:
            raise RuntimeError(f"all {self._capacity} places of this world are taken")
        session = Session(prompt=_prompt(config), picture=_picture(config), fps=_fps(config))
        session_id = f"demo-{uuid.uuid4().hex}"
        self._sessions[session_id] = session
        return session_id

    def has_session(self, session_id: str) -> bool:
        """Whether controls for this id still have an effect."""
        return session_id in self._sessions

    def push_chunk(self, session_id: str, chunk: dict[str, Any]) -> None:
        """Take one control message."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.take(chunk, self._clock())

    def close_session(self, session_id: str) -> None:
        """Forget a session; its ``pull_chunks`` ends by itself."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.stopped = True

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        """Yield four frames each time it's asked, with what is held by then, until the stop."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        index, chunk_s = 0, CHUNK_FRAMES / session.fps
        prompt, walker, heard = "", None, None
        while not session.stopped:
            if walker is None or prompt != session.prompt:
                prompt = session.prompt
                walker = walk.Walker(await asyncio.to_thread(self._place, prompt, session.picture))
                heard = sound.Sound(prompt)
            elif session.reset_wanted:
                walker = walk.Walker(walker.place)
            session.reset_wanted = False
            chunk = await asyncio.to_thread(self._draw, session, walker, index)
            yield chunk | _heard(heard, walker, chunk_s)
            index += 1
        yield {"type": "done", "index": index, "timestamp": time.time()}

    def _draw(self, session: Session, walker: Any, index: int) -> dict[str, Any]:
        """Draw one chunk, in a thread. The lock is for hosts that don't know the lease."""
        frames, controls = [], []
        with self._brush:
            for _ in range(CHUNK_FRAMES):
                controls = session.held_at(self._clock())
                walker.step(controls, 1 / session.fps)
                frames.append(self._painter.paint(_look(walker)))
        return {
            "type": "chunk",
            "index": index,
            "fps": session.fps,
            "frames": frames,
            "num_frames": len(frames),
            "resolution": f"{view.WIDTH}x{view.HEIGHT}",
            "applied_controls": controls,
            "timestamp": time.time(),
        }


def get_service() -> DemoWorld:
    """What the loader calls."""
    return DemoWorld()


def _make_place(prompt: str, picture: bytes | None) -> Any:
    shape = (PICTURE_SIZE, PICTURE_SIZE, 3)
    pixels = None if picture is None else np.frombuffer(picture, np.uint8).reshape(shape) / 255
    return view.World(**town.bake(prompt, pixels))


def _heard(heard: Any, walker: Any, duration_s: float) -> dict[str, Any]:
    forward, sideways, turn, _ = (float(pace) for pace in walker.pace)
    motion = sound.Motion(math.hypot(forward, sideways), turn, walker.walked_cells)
    return {
        "audio_b64": base64.b64encode(heard.next(duration_s, motion)).decode(),
        "audio_sample_rate": sound.RATE_HZ,
        "audio_channels": sound.CHANNELS,
    }


def _look(walker: Any) -> Any:
    return view.Shot(world=walker.place, **walker.look())


# --- reading the config --------------------------------------------------------------------------


def _prompt(config: Mapping[str, Any]) -> str:
    prompt = config.get("prompt") or DEFAULT_PROMPT
    if isinstance(prompt, str):
        return prompt
    raise ValueError(f"prompt must be text, not {type(prompt).__name__}")


def _fps(config: Mapping[str, Any]) -> float:
    fps = config.get("fps", DEFAULT_FPS)
    if not isinstance(fps, int | float) or isinstance(fps, bool) or not 1 <= fps <= MAX_FPS:
        raise ValueError(f"fps must be a number from 1 to {MAX_FPS}, not {fps!r:.40}")
    return fps


def _picture(config: Mapping[str, Any]) -> bytes | None:
    """The picture for the walls as RGB bytes, or None without one."""
    if config.get("image") is not None:
        return _scaled("image", _decoded(config["image"]))
    if config.get("image_path") is not None:
        try:
            with Path(config["image_path"]).open("rb") as file:
                return _scaled("image_path", file.read(MAX_IMAGE_BYTES + 1))
        except (OSError, TypeError) as error:
            raise ValueError(f"image_path can't be read: {error}") from error
    return None


def _decoded(data_url: object) -> bytes:
    """The bytes of a data URL."""
    head, comma, body = data_url.partition(",") if isinstance(data_url, str) else ("", "", "")
    if not comma or head.lower() not in DATA_URLS:
        raise ValueError(f"image must be a data URL that begins with one of {', '.join(DATA_URLS)}")
    if len(body) > MAX_IMAGE_BYTES * 4 / 3 + 4:
        raise ValueError(f"image is larger than {MAX_IMAGE_BYTES // 2**20} MiB")
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise ValueError("image is a data URL whose base64 is broken") from error


def _scaled(key: str, raw: bytes) -> bytes:
    """A PNG or JPEG as 256 x 256 RGB bytes, cut to the shape of a wall."""
    if len(raw) > MAX_IMAGE_BYTES:
        raise ValueError(f"{key} is larger than {MAX_IMAGE_BYTES // 2**20} MiB")
    try:
        image = Image.open(io.BytesIO(raw), formats=("PNG", "JPEG"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"{key} isn't a PNG or JPEG picture") from error
    if image.width * image.height > MAX_IMAGE_PIXELS:
        raise ValueError(f"{key} has {image.width} x {image.height} pixels, which is too many")
    image.draft("RGB", (2 * PICTURE_SIZE, 2 * PICTURE_SIZE))
    try:
        upright = ImageOps.exif_transpose(image).convert("RGB")
    except (OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"{key} is a broken picture: {error}") from error
    wall = ImageOps.fit(upright, (PICTURE_SIZE * 4 // 5, PICTURE_SIZE))
    return wall.resize((PICTURE_SIZE, PICTURE_SIZE)).tobytes()
