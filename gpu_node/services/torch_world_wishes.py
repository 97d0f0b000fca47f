"""What does a player of the torch world want?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULT_FPS, MAX_FPS = 16, 30
DEFAULT_PROMPT = "A sea of light"
HELD_KEY_S = 3.0
"""A held key counts this long after it was last named; pages name theirs once a second."""
CONFIG_KEYS = ("control_idle_timeout", "delivery_mode", "fps", "prompt", "session_id")
MOVES = {
    name: move
    for names, move in (
        (("ArrowLeft", "KeyA", "a", "left", "KeyJ", "j"), (-1.0, 0.0)),
        (("ArrowRight", "KeyD", "d", "right", "KeyL", "l"), (1.0, 0.0)),
        (("ArrowUp", "KeyW", "w", "up", "forward", "KeyI", "i"), (0.0, -1.0)),
        (("ArrowDown", "KeyS", "s", "down", "backward", "KeyK", "k"), (0.0, 1.0)),
    )
    for name in names
}


def read_config(config: Mapping[str, Any]) -> tuple[str, float]:
    """Return prompt and frame rate; a ``ValueError`` is shown to the user."""
    _check_keys(config)
    return _prompt(config), _fps(config)


def pressed(keys: Mapping[str, float], chunk: Mapping[str, Any], now_s: float) -> dict[str, float]:
    """Return until when each key counts after one message."""
    if chunk.get("type") == "control_state":
        return {str(name): now_s + HELD_KEY_S for name in chunk.get("controls") or ()}
    name = str(chunk.get("control") or chunk.get("key"))
    match str(chunk.get("event") or chunk.get("action")):
        case "press":
            return {**keys, name: now_s + HELD_KEY_S}
        case "release" | "keyup" | "end":
            return {other: until_s for other, until_s in keys.items() if other != name}
        case _:
            return dict(keys)


def held(keys: Mapping[str, float], now_s: float) -> list[str]:
    """Return the keys that count now."""
    return sorted(name for name, until_s in keys.items() if until_s > now_s)


def direction(keys: list[str]) -> tuple[float, float]:
    """Return where *keys* move the view: right and down, each from -1 to 1."""
    moves = [MOVES[name] for name in keys if name in MOVES]
    right, down = sum(move[0] for move in moves), sum(move[1] for move in moves)
    return max(-1.0, min(1.0, right)), max(-1.0, min(1.0, down))


def _check_keys(config: Mapping[str, Any]) -> None:
    unknown = sorted(set(config) - set(CONFIG_KEYS))
    if unknown:
        raise ValueError(
            f"unknown config key {', '.join(unknown)}; known are {', '.join(CONFIG_KEYS)}"
        )


def _prompt(config: Mapping[str, Any]) -> str:
    prompt = config.get("prompt") or DEFAULT_PROMPT
    if isinstance(prompt, str):
        return prompt
    raise ValueError(f"prompt must be text, not {type(prompt).__name__}")


def _fps(config: Mapping[str, Any]) -> float:
    fps = config.get("fps", DEFAULT_FPS)
    if not isinstance(fps, int | float) or isinstance(fps, bool) or not 1 <= fps <= MAX_FPS:
        raise ValueError(f"fps must be a number from 1 to {MAX_FPS}, not {fps!r:.40}")
    return float(fps)
