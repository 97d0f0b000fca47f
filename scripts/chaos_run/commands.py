"""What do the commands tell that an operator gives after such a night?

``greenroom explain`` of the session that had the most to tell, and ``greenroom receipt``, exported
and verified: as processes, against the registry as the seed left it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from control_plane.operator_words import RETURNED_BECAUSE, reason_words
from control_plane.stories import story_of
from scripts.chaos_run.processes import ROOT, environment
from shared.events import Event

_GREENROOM = Path(sys.executable).with_name("greenroom")
_SINCE = "2h"
_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    command: str
    status: int
    out: str
    err: str


async def lies(redis_url: str, events: Sequence[Event], folder: Path) -> list[str]:
    """Give the commands; returns what is wrong with what they tell.

    Args:
        redis_url: Where the registry is.
        events: The trail of the seed just played.
        folder: Where the receipt is put.
    """
    counts = Counter(event.session_id for event in events if event.session_id)
    if not counts:
        return []
    session_id, _ = counts.most_common(1)[0]
    file = folder / "receipt.txt"
    told = await _greenroom(redis_url, "explain", session_id)
    in_json = await _greenroom(redis_url, "explain", session_id, "--json")
    exported = await _greenroom(redis_url, "receipt", "--since", _SINCE)
    file.write_text(exported.out)
    verified = await _greenroom(redis_url, "receipt", "--verify", str(file))
    return [
        *(
            f"{said.command} ended with {said.status}: {said.err or said.out}"
            for said in (told, in_json, exported, verified)
            if said.status
        ),
        *_words(told, session_id, events),
        *_steps(in_json, session_id, events),
        *_receipt(verified, exported, events),
    ]


def _words(told: _Said, session_id: str, events: Sequence[Event]) -> Iterator[str]:
    """Find what happened to the session and isn't said to people."""
    said = " ".join(told.out.split())
    for event in events:
        if event.session_id != session_id or not event.why:
            continue
        words = RETURNED_BECAUSE.get(event.why) if event.what == "returned" else None
        if event.what == "ended":
            words = reason_words(event.why)
        if words is not None and words not in said:
            yield f"{told.command} doesn't say {words!r}: {told.out}"


def _steps(told: _Said, session_id: str, events: Sequence[Event]) -> Iterator[str]:
    """Find steps that programs aren't told."""
    if told.status:
        return
    steps = json.loads(told.out)["steps"]
    story = story_of(session_id, events, now_ms=events[-1].at_ms)
    wanted = [(step.what, step.node_id or None, step.epoch) for step in story.steps]
    if [(step["what"], step["node_id"], step["epoch"]) for step in steps] != wanted:
        yield f"{told.command} tells {steps}, it was {wanted}"


def _receipt(verified: _Said, exported: _Said, events: Sequence[Event]) -> Iterator[str]:
    """Find admissions that the receipt leaves out."""
    if verified.status == 0 and "Nobody was overtaken." not in verified.out:
        yield f"{verified.command} doesn't say that nobody was overtaken: {verified.out}"
    for event in events:
        if event.what == "assigned" and event.id not in exported.out:
            yield f"the receipt leaves out that {event.session_id} was admitted at {event.id}"


async def _greenroom(redis_url: str, *arguments: str) -> _Said:
    process = await asyncio.create_subprocess_exec(
        _GREENROOM,
        *arguments,
        cwd=ROOT,
        env=environment({"redis_url": redis_url}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(_WITHIN_S):
        out, err = await process.communicate()
    return _Said(
        command=f"greenroom {' '.join(arguments)}",
        status=process.returncode or 0,
        out=out.decode(),
        err=err.decode(),
    )
