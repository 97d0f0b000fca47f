"""Which checks are there, in which order, and how is one of them run?"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpu_node.conformance import ending, hooks, playing
from gpu_node.conformance.bench import Bench, Ended, Failed, Skipped, now_s
from gpu_node.conformance.results import Outcome, Result
from shared.errors import ServiceFault

_SLACK_S = 30.0
_HERE = Path(__file__).resolve()
_OURS = tuple(
    f"{_HERE.parents[2]}/{place}"
    for place in (
        "shared/",
        "gpu_node/conformance/",
        "gpu_node/services/host",
        "gpu_node/services/loader",
        "gpu_node/services/stream",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that is asked of a service."""

    name: str
    title: str
    within_s: float
    """For a patience of one; the child is killed when it hangs longer."""


FIRST = (
    Check(name="validation", title="The file has no mistakes that show in its text", within_s=30),
    Check(name="load", title="It can be loaded", within_s=1800),
    Check(name="start", title="It starts", within_s=1800),
    Check(name="capacity", title="It says how many sessions it keeps", within_s=120),
)
"""Without these there's nothing to check."""
PLAYED = (
    Check(name="first_frame", title="A session makes a frame", within_s=300),
    Check(name="chunks", title="Its chunks can be played", within_s=600),
    Check(name="speed", title="It makes chunks as fast as they play", within_s=600),
    Check(name="controls", title="It takes every control", within_s=300),
    Check(name="isolation", title="Sessions don't get in each other's way", within_s=600),
    Check(name="shared_loop", title="A chunk doesn't stop other sessions", within_s=300),
    Check(name="late_messages", title="Late and unknown ids do no harm", within_s=300),
    Check(name="quick_calls", title="create_session() and push_chunk() are quick", within_s=300),
    Check(name="close", title="It can be closed in the middle of a chunk", within_s=600),
    Check(name="hooks", title="Its optional hooks answer as they must", within_s=300),
    Check(name="memory", title="Many sessions leave nothing behind", within_s=1800),
    Check(name="stop", title="It stops", within_s=60),
)
LAST = (Check(name="resume", title="A fresh process goes on where one was killed", within_s=1800),)
ALL: Mapping[str, Check] = MappingProxyType({c.name: c for c in (*FIRST, *PLAYED, *LAST)})


def runs(bench: Bench, service: Any) -> dict[str, Callable[[], Awaitable[str]]]:
    """Return what each check of a loaded service does; it returns what it saw."""
    return {
        "first_frame": lambda: playing.makes_a_first_frame(bench),
        "chunks": lambda: playing.makes_valid_chunks(bench),
        "speed": lambda: playing.keeps_up(bench),
        "controls": lambda: playing.takes_every_control(bench),
        "isolation": lambda: playing.keeps_sessions_apart(bench),
        "shared_loop": lambda: playing.lets_others_run(bench),
        "late_messages": lambda: ending.tolerates_late_messages(bench),
        "quick_calls": lambda: ending.calls_are_quick(bench),
        "close": lambda: ending.closes_in_the_middle(bench),
        "hooks": lambda: hooks.answer_as_they_must(bench, service),
        "memory": lambda: ending.gives_everything_back(bench),
        "stop": lambda: ending.stops(bench.host, bench),
    }


def limit_s(check: Check, patience: float) -> float:
    """Return after how long the whole check counts as hanging."""
    return check.within_s * patience + _SLACK_S


async def tried(check: Check, run: Callable[[], Awaitable[str]], bench: Bench | None) -> Result:
    """Run one check and say how it ended."""
    began_s = now_s()
    if bench is not None:
        bench.remarks.clear()
    advice = where = ""
    try:
        text = await run()
    except Failed as failure:
        outcome, text, advice = Outcome.FAILED, failure.text, failure.advice
    except Skipped as why:
        outcome, text = Outcome.SKIPPED, str(why)
    except Ended:
        outcome, text = Outcome.FAILED, "A session ended before it was over."
    except ServiceFault as error:
        outcome, text, where = Outcome.FAILED, str(error), _where(error)
    else:
        outcome = Outcome.PASSED
        if bench is not None and bench.remarks:
            outcome, advice = Outcome.REMARKED, "; ".join(bench.remarks)
    return Result(
        check=check.name,
        title=check.title,
        outcome=outcome,
        text=text,
        advice=advice,
        where=where,
        seconds=round(now_s() - began_s, 3),
    )


def _where(error: ServiceFault) -> str:
    """Return where the service's own code raised, the innermost place last."""
    cause = error.__cause__
    if cause is None:
        return ""
    places = [
        f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(cause.__traceback__)
        if not frame.filename.startswith((*_OURS, "<"))
    ]
    return f"Raised at {', '.join(places[-3:])}." if places else ""
