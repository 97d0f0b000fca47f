"""How does a node say that it plays? Pure.

A few numbers of the last half minute, kept in the node's record for whoever looks; nothing is
decided by them. Names are as short as the record is read often; None stands for what wasn't
observed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayFacts:
    """What one node played lately."""

    playing: int = 0
    """Sessions of which a frame left."""
    fps: float | None = None
    """Frames per second of a session, on average."""
    fps_min: float | None = None
    """Of the slowest one."""
    chunk_p95_s: float | None = None
    """How long 95 % of the chunks took at most."""
    in_time: float | None = None
    """Share of the chunks that were made within the time that they play."""
    late_p95_s: float | None = None
    """How late 95 % of the frames left at most."""
    lease_waiting: int | None = None
    """Sessions that wait for their turn on the shared model; None: they don't take turns."""


def play_text(facts: PlayFacts) -> str:
    """Return *facts* as ``n:<nid>`` keeps them; nothing for a node that didn't play."""
    told = {name: value for name, value in asdict(facts).items() if value is not None}
    return json.dumps(told, separators=(",", ":")) if facts.playing else ""


def read_play(text: str) -> PlayFacts | None:
    """Decode what a node told, perhaps of another release; None for nothing or nonsense."""
    try:
        told = json.loads(text or "null")
        return PlayFacts(
            playing=int(told["playing"]),
            lease_waiting=None if (line := told.get("lease_waiting")) is None else int(line),
            **{name: float(told[name]) for name in _SHARES if told.get(name) is not None},
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


_SHARES = ("fps", "fps_min", "chunk_p95_s", "in_time", "late_p95_s")
