"""What does a model service get to know of a session?

The client's own ``config``, and beside it what the reference hands over: the session's id, prompt,
image and ``control_idle_timeout``. What names a file of this machine needs care: services open any
path that they are given, so one is looked up below the operator's asset root and nowhere else.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from shared.errors import InvalidConfig
from shared.records import SessionRequest

CONTROL_IDLE_TIMEOUT_S = 10.0
"""Source: reference, CLI default; after it a service may let another session compute."""
MAX_FPS = 120


def session_config(
    session_id: str,
    request: SessionRequest,
    *,
    image: bytes | None,
    asset_root: Path | None,
    control_idle_timeout_s: float = CONTROL_IDLE_TIMEOUT_S,
) -> dict[str, Any]:
    """Return what ``create_session`` is called with; raises `InvalidConfig` for a path outside."""
    config: dict[str, Any] = {
        **request.config,
        "session_id": session_id,
        "control_idle_timeout": control_idle_timeout_s,
    }
    if request.prompt is not None:
        config["prompt"] = request.prompt
    image_path = request.image_path
    if image_path is None:
        image_path = config.get("image_path")
    if image_path is not None:
        config["image_path"] = str(_below(asset_root, image_path))
    if image is not None:
        config["image"] = f"data:image/jpeg;base64,{base64.b64encode(image).decode()}"
    elif isinstance(named := config.get("image"), str) and not named.startswith("data:"):
        config["image"] = str(_below(asset_root, named))
    return config


def frames_per_second(request: SessionRequest, default_fps: int) -> int:
    """Return the frame rate that the client asked for, if it is one."""
    fps = request.config.get("fps")
    if isinstance(fps, int | float) and not isinstance(fps, bool) and 1 <= fps <= MAX_FPS:
        return round(fps)
    return default_fps


def _below(asset_root: Path | None, image_path: object) -> Path:
    if not isinstance(image_path, str):
        raise InvalidConfig("image_path must be a string.")
    if asset_root is None:
        raise InvalidConfig("image_path can't be used: this node offers no files.")
    root = asset_root.resolve()
    try:
        path = (root / image_path).resolve()
        found = path.is_relative_to(root) and path.is_file()
    except (OSError, ValueError, RuntimeError):  # the last: a link that leads to itself
        found = False
    if not found:
        raise InvalidConfig("image_path names no file that this node offers.")
    return path
