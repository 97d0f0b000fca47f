"""What does a user ask of a remote world at the start?

Only values go to the other server, never an address or a path: a picture is read here and sent as
bytes, for a server that got a text from a user might fetch it.
"""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

MAX_FPS = 60
MAX_IMAGE_BYTES = 2 * 2**20
"""vLLM-Omni takes a first message of 4 MiB, in base64."""
CONFIG_KEYS = (
    "control_idle_timeout",
    "delivery_mode",
    "fps",
    "image",
    "image_path",
    "prompt",
    "seed",
    "session_id",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A first picture, as it goes to the other server."""

    raw: bytes
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One session's wishes; None: the other server's default."""

    prompt: str
    picture: Picture | None = None
    fps: float | None = None
    seed: int | None = None


def read_start(config: Mapping[str, Any], *, prompt: str, picture: Picture | None) -> Start:
    """Return what *config* asks for; *prompt* and *picture* are used where it says nothing.

    Raises:
        ValueError: A sentence that is shown to the user.
    """
    unknown = sorted(set(config) - set(CONFIG_KEYS))
    if unknown:
        raise ValueError(
            f"unknown config key {', '.join(unknown)}; known are {', '.join(CONFIG_KEYS)}"
        )
    wanted = config.get("prompt") or prompt
    if not isinstance(wanted, str):
        raise ValueError(  # noqa: TRY004 (what the contract calls a bad config)
            f"prompt must be text, not {type(wanted).__name__}"
        )
    return Start(
        prompt=wanted, picture=_picture(config) or picture, fps=_fps(config), seed=_seed(config)
    )


def picture_file(path: Path) -> Picture:
    """Return a picture of the operator's; raises ValueError."""
    return _from_file("image", path)


def _fps(config: Mapping[str, Any]) -> float | None:
    fps = config.get("fps")
    if fps is None:
        return None
    if not isinstance(fps, int | float) or isinstance(fps, bool) or not 1 <= fps <= MAX_FPS:
        raise ValueError(f"fps must be a number from 1 to {MAX_FPS}, not {fps!r:.40}")
    return fps


def _seed(config: Mapping[str, Any]) -> int | None:
    seed = config.get("seed")
    if seed is None:
        return None
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**31:
        raise ValueError(f"seed must be a whole number from 0 to {2**31 - 1}, not {seed!r:.40}")
    return seed


def _picture(config: Mapping[str, Any]) -> Picture | None:
    if config.get("image") is not None:
        return _looked_at("image", _decoded(config["image"]))
    path = config.get("image_path")
    if path is None:
        return None
    if not isinstance(path, str):
        raise ValueError(  # noqa: TRY004 (as above)
            f"image_path must be text, not {type(path).__name__}"
        )
    return _from_file("image_path", Path(path))


def _decoded(data_url: object) -> bytes:
    head, comma, body = data_url.partition(",") if isinstance(data_url, str) else ("", "", "")
    if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
        raise ValueError("image must be a data URL of a picture in base64")
    if len(body) > MAX_IMAGE_BYTES * 4 / 3 + 4:
        raise _too_large("image")
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise ValueError("image is a data URL whose base64 is broken") from error


def _from_file(key: str, path: Path) -> Picture:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_IMAGE_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{key} can't be read: {error.strerror}") from error
    return _looked_at(key, raw)


def _looked_at(key: str, raw: bytes) -> Picture:
    if len(raw) > MAX_IMAGE_BYTES:
        raise _too_large(key)
    try:
        with Image.open(io.BytesIO(raw), formats=("PNG", "JPEG")) as image:
            return Picture(raw=raw, media_type=f"image/{str(image.format).lower()}")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"{key} isn't a PNG or JPEG picture") from error


def _too_large(key: str) -> ValueError:
    return ValueError(f"{key} is larger than {MAX_IMAGE_BYTES // 2**20} MiB")
