"""Was everybody served in order?

``receipt --since 1h > FILE`` exports who waited and who was admitted in a window; ``receipt
--verify FILE`` recomputes the order from that file alone, without a registry, and names who was
overtaken by whom. Exit 1: somebody was, or the file was changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from control_plane import receipt_text
from control_plane.cli.looking import Json, show_json
from control_plane.cli.moments import moment_ms
from control_plane.cli.options import Given, takes
from control_plane.cli.registry_access import REGISTRY_FLAGS, asked
from control_plane.cli.tables import clock, hanging
from control_plane.cli.terminal import Terminal
from control_plane.cli.words import Tone
from control_plane.operator_words import people
from control_plane.receipts import Receipt, Window, findings, receipt_of
from shared.errors import StartupError
from shared.events import place_of
from shared.store import Registry

_LAST_OF_A_MS = 2**64 - 1
"""The highest second part that an id of a stream can have."""

Since = Annotated[str, typer.Option("--since", help="Begin: 10m, 2h, 14:05, a date with a time.")]
Until = Annotated[str, typer.Option("--until", help="End of the window.")]
Verify = Annotated[
    Path | None, typer.Option("--verify", help="Check this receipt instead; no registry needed.")
]


@takes(REGISTRY_FLAGS)
def receipt(
    since: Since = "1h",
    until: Until = "now",
    verify: Verify = None,
    as_json: Json = False,
    *,
    given: Given,
) -> None:
    """Export who was admitted in which order, or check such an export."""
    if verify is not None:
        _check(verify, as_json)
        return
    exported = asked(given, lambda registry, pool: exported_receipt(registry, pool, since, until))
    typer.echo(receipt_text.written(exported), nl=False)


async def exported_receipt(registry: Registry, pool: str, since: str, until: str) -> Receipt:
    """Read a window of the audit trail, and the line as it stands now."""
    facts = await registry.inspection.look(pool)
    since_ms = moment_ms(since, now_ms=facts.at_ms)
    until_ms = moment_ms(until, now_ms=facts.at_ms)
    if since_ms >= until_ms:
        raise StartupError("This window ends before it begins.", try_="--since 1h --until now")
    latest = await registry.trail.latest(pool, 1)
    read_after = latest[-1].id if latest else "0-0"
    line = {name: ticket async for name, ticket in registry.inspection.line(pool)}
    begin = f"{since_ms}-0"
    events = [event async for event in registry.trail.read(pool, since=begin)]
    # Asked after reading: whatever was trimmed or lost meanwhile is noticed. A trail that begins
    # later tells nothing of the time before: an emptied registry looks like a young one.
    first = await registry.trail.first(pool)
    is_complete = first is not None and first.place <= place_of(begin)
    if first is not None and not is_complete:
        begin = first.id
        events = [event for event in events if event.place >= first.place]
    window = Window(
        pool=pool, since=begin, until=f"{until_ms}-{_LAST_OF_A_MS}", complete=is_complete
    )
    return receipt_of(window, events, line, line_read_after=read_after)


def _check(path: Path, as_json: bool) -> None:
    try:
        checked = receipt_text.read(_text(path))
    except receipt_text.ReceiptChanged as changed:
        Terminal().complain(changed)
        raise typer.Exit(1) from changed
    found = findings(checked)
    if as_json:
        show_json(
            {
                "pool": checked.window.pool,
                "complete": checked.window.complete,
                "admissions": len(checked.admissions),
                "waits": len(checked.waits),
                "findings": [
                    {
                        "rule": one.rule.name.lower(),
                        "session_id": one.session_id,
                        "by": one.by or None,
                        "at": one.at,
                    }
                    for one in found
                ],
            }
        )
    else:
        typer.echo("\n".join(hanging("", _window_words(checked))))
        for one in found:
            typer.echo("\n".join(hanging(f"{Tone.ATTENTION} ", one.sentence())))
        if not found:
            typer.echo("Nobody was overtaken.")
    if found:
        raise typer.Exit(1)


def _window_words(checked: Receipt) -> str:
    begin, end = (
        clock(place_of(place)[0]) for place in (checked.window.since, checked.window.until)
    )
    stepped = people(len(checked.admissions), "admission", "admissions")
    cut = ""
    if not checked.window.complete:
        cut = (
            " The trail began later than asked: what was before, if anything, was trimmed or lost."
        )
    return f"Pool {checked.window.pool}, {begin} to {end}: {stepped}.{cut}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(
            f"The file {path} can't be read.", try_="greenroom receipt --since 1h > FILE"
        ) from error
