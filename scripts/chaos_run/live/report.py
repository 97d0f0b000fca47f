"""How is the run with real rooms told to a person and to a program?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from scripts.chaos_run.figures import percentiles_s
from scripts.chaos_run.live.play import LivePlayed
from scripts.chaos_run.live.takeovers import PARTS, Takeover
from scripts.chaos_run.schedule import Kind

_COLUMNS = (
    ("seed", 5),
    ("fault", 14),
    ("node", 8),
    ("for", 8),
    ("takeovers", 10),
    *((part, 11) for part in PARTS),
    ("to first frame", 16),
    ("lost", 6),
    ("ghosts", 8),
    ("leaked", 8),
    ("other", 7),
    ("s", 6),
)
_FIRST_FRAME = "→ the new worker's first real frame"


def header() -> str:
    """Return the head of the table; times are the longest of each seed's takeovers."""
    return "".join(f"{name:>{width}}" for name, width in _COLUMNS)


def row(played: LivePlayed) -> str:
    """Return one seed's line."""
    plan, changed = played.plan, played.takeovers
    values = (
        plan.seed,
        plan.turn,
        plan.fault.target,
        f"{plan.fault.for_s:.1f} s",
        len(changed),
        *(_longest(one.parts_ms.get(part) for one in changed) for part in PARTS),
        _longest(one.total_ms for one in changed),
        *(len(told) for told in played.verdict.as_dict().values()),
        f"{played.seconds:.0f}",
    )
    cells = zip(_COLUMNS, values, strict=True)
    return "".join(f"{value!s:>{width}}" for (_, width), value in cells)


def findings(played: LivePlayed) -> Iterator[str]:
    """Yield what is wrong with a seed, and how to play it again."""
    for kind, told in played.verdict.as_dict().items():
        for sentence in told:
            yield f"  seed {played.plan.seed}, {kind}: {sentence}"
    yield f"  again: scripts/chaos --live --first-seed {played.plan.seed} --seeds 1"


def summary(played: Sequence[LivePlayed]) -> Iterator[str]:
    """Yield the figures of the whole run, one line each."""
    for kind, begin in (
        (Kind.KILL, "kill -9 of a node"),
        (Kind.FREEZE, "SIGSTOP of a node"),
        (Kind.TERM, "SIGTERM of a node"),
    ):
        changed = _of_kind(played, kind)
        if not changed:
            continue
        yield f"{begin} {_FIRST_FRAME}: {_spread(one.total_ms for one in changed)}"
        for part in PARTS:
            told = [one.parts_ms[part] for one in changed if part in one.parts_ms]
            yield f"    {part:<10} {_spread(told)}"
        yield f"    the stage was dark for {_spread(one.dark_ms for one in changed)}"
    counts = {name: sum(len(one.verdict.as_dict()[name]) for one in played) for name in _kinds()}
    yield (
        f"{sum(one.sessions for one in played)} sessions: {counts['lost']} lost; "
        f"{sum(one.frames for one in played)} frames: {counts['ghosts']} workers were seen again "
        f"after their successor; {counts['leaked']} leaked, {counts['other']} other findings"
    )


def as_dict(played: LivePlayed) -> dict[str, object]:
    """Return one seed as JSON takes it."""
    return {
        "seed": played.plan.seed,
        "plan": asdict(played.plan),
        "holds": played.verdict.holds,
        "findings": played.verdict.as_dict(),
        "takeovers": [asdict(one) for one in played.takeovers],
        "sessions": played.sessions,
        "frames": played.frames,
        "events": [event.as_dict() for event in played.events],
        "seconds": played.seconds,
    }


def sum_as_dict(played: Sequence[LivePlayed]) -> dict[str, object]:
    """Return the whole run's figures as JSON takes them."""
    return {
        "seeds": len(played),
        "failed": [one.plan.seed for one in played if not one.verdict.holds],
        "sessions": sum(one.sessions for one in played),
        "to_first_frame_s": {
            str(kind): percentiles_s([one.total_ms for one in _of_kind(played, kind)])
            for kind in (Kind.KILL, Kind.FREEZE, Kind.TERM)
        },
    }


def _of_kind(played: Iterable[LivePlayed], kind: Kind) -> list[Takeover]:
    return [one for each in played if each.plan.fault.kind is kind for one in each.takeovers]


def _kinds() -> tuple[str, ...]:
    return ("lost", "ghosts", "leaked", "other")


def _longest(values_ms: Iterable[int | None]) -> str:
    known = [value for value in values_ms if value is not None]
    return f"{max(known) / 1000:.2f} s" if known else "–"


def _spread(values_ms: Iterable[int]) -> str:
    share = percentiles_s(list(values_ms))
    if share is None:
        return "–"
    return f"p50 {share['p50']:.2f} s, p99 {share['p99']:.2f} s ({share['count']} times)"
