"""Where does the demo's player stand after the next frame?

Held controls ask for a pace; the real pace follows them with a little inertia. A body has a width
and slides along walls. A portal is stepped into like a free cell and left at the next one. Time is
what the caller says, so nothing here waits. `demo_world.py` loads this file.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

WALK_CELLS_PER_S, TURN_PER_S, TILT_PX_PER_S, MAX_TILT_PX = 2.3, 1.8, 170.0, 130.0
EASE_PER_S = 10.0
PHYSICS_STEP_S = 1 / 16
EYE_CELLS, BODY_CELLS = 0.5, 0.24
HORIZON_PX = 180
CONTROLS = {
    "forward": ("w", "forward"),
    "backward": ("s", "backward"),
    "step_left": ("a",),
    "step_right": ("d",),
    "turn_left": ("left", "j"),
    "turn_right": ("right", "l"),
    "look_up": ("up", "i"),
    "look_down": ("down", "k"),
}
ACTIONS = {control: action for action, controls in CONTROLS.items() for control in controls}


def action_of(control: str) -> str:
    """What a control does ("KeyW", "w" and "forward" do the same), or an empty text."""
    return ACTIONS.get(control.removeprefix("Arrow").removeprefix("Key").lower(), "")


class Walker:
    """One player in one place: where, looking whereto, how fast."""

    def __init__(self, place: Any) -> None:
        self.place = place
        self.x, self.y, self.angle = place.spawn
        self.tilt_px = 0.0
        self.pace = np.zeros(4)
        """Forward and sideways in cells/s, turning in rad/s, tilting in pixels/s."""
        self.walked_cells = 0.0
        self.time_s = 0.0

    def step(self, controls: Iterable[str], duration_s: float) -> None:
        """Move for one frame, in small steps: nobody gets through a wall at a low frame rate."""
        actions = {action_of(control) for control in controls}
        parts = math.ceil(duration_s / PHYSICS_STEP_S)
        for _ in range(parts):
            self._step(actions, duration_s / parts)

    def look(self) -> dict[str, float]:
        """Where the eye is and where it looks, as fields of a Shot. Who stands still breathes."""
        t, speed = self.time_s, min(1.0, float(np.hypot(*self.pace[:2])))
        stride = 0.018 * speed * math.sin(7 * self.walked_cells)
        return {
            "x": self.x,
            "y": self.y,
            "angle": self.angle + 0.005 * math.sin(0.9 * t),
            "horizon": HORIZON_PX + self.tilt_px + 1.5 * math.sin(1.1 * t),
            "eye": EYE_CELLS + 0.012 * math.sin(1.7 * t) + stride,
            "time_s": t,
        }

    def _step(self, actions: set[str], duration_s: float) -> None:
        def axis(more: str, less: str) -> int:
            return (more in actions) - (less in actions)

        wanted = np.array(
            [
                axis("forward", "backward") * WALK_CELLS_PER_S,
                axis("step_right", "step_left") * WALK_CELLS_PER_S,
                axis("turn_right", "turn_left") * TURN_PER_S,
                axis("look_up", "look_down") * TILT_PX_PER_S,
            ]
        )
        self.pace += (wanted - self.pace) * (1 - math.exp(-EASE_PER_S * duration_s))
        forward, sideways, turn, tilt = (float(pace) * duration_s for pace in self.pace)
        self.time_s += duration_s
        self.angle = (self.angle + turn) % math.tau
        self.tilt_px = max(-MAX_TILT_PX, min(MAX_TILT_PX, self.tilt_px + tilt))
        cos, sin = math.cos(self.angle), math.sin(self.angle)
        self._walk(forward * cos - sideways * sin, forward * sin + sideways * cos)

    def _walk(self, dx: float, dy: float) -> None:
        """Walk, slide along walls, step through portals."""
        met = self._walls_at(self.x + dx, self.y + dy)
        if any(self.place.flows[kind] for kind in met):
            self._leave_next_portal()
            return
        if not self._walls_at(self.x + dx, self.y):
            self.x += dx
            self.walked_cells += abs(dx)
        if not self._walls_at(self.x, self.y + dy):
            self.y += dy
            self.walked_cells += abs(dy)

    def _walls_at(self, x: float, y: float) -> set[int]:
        """The kinds of wall that a body at this place would be in."""
        reach = (-BODY_CELLS, BODY_CELLS)
        return {int(self.place.grid[int(y + b), int(x + a)]) for a in reach for b in reach} - {0}

    def _leave_next_portal(self) -> None:
        exits = self.place.exits
        nearest = int(np.argmin(np.hypot(exits[:, 0] - self.x, exits[:, 1] - self.y)))
        self.x, self.y, self.angle = (float(v) for v in exits[(nearest + 1) % len(exits)])
