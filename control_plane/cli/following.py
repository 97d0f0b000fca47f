"""What is happening now?

``events`` shows the last entries of the audit trail, with ``-f`` also those that come. It follows
on a connection of its own, goes on from where it was when the registry comes back, and ends with
Ctrl-C.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Annotated

import typer

from control_plane.cli.looking import Json
from control_plane.cli.options import Given, takes
from control_plane.cli.registry_access import REGISTRY_FLAGS, asked
from control_plane.cli.tables import clock, hanging
from control_plane.operator_words import event_words
from shared.errors import StoreUnavailable
from shared.events import Event
from shared.store import Registry

Follow = Annotated[bool, typer.Option("-f", "--follow", help="Go on, until Ctrl-C.")]
Count = Annotated[int, typer.Option("-n", "--count", min=0, max=10_000, help="Begin so far back.")]
_AGAIN_S = 0.5


@takes(REGISTRY_FLAGS)
def events(
    follow: Follow = False, count: Count = 20, as_json: Json = False, *, given: Given
) -> None:
    """Show the last changes of sessions and nodes; with --json one JSON object a line."""
    with contextlib.suppress(KeyboardInterrupt):
        asked(given, lambda registry, pool: _show(registry, pool, count, follow, as_json))


async def _show(registry: Registry, pool: str, count: int, follow: bool, as_json: bool) -> None:
    latest = await registry.trail.latest(pool, max(count, 1))
    for event in latest[len(latest) - min(count, len(latest)) :]:
        _tell(event, as_json)
    after = latest[-1].id if latest else "0"
    is_lost = False
    while follow:
        try:
            async for event in registry.trail.follow(pool, after):
                if is_lost:
                    is_lost = False
                    typer.echo("The registry answers again.", err=True)
                _tell(event, as_json)
                after = event.id
        except StoreUnavailable:
            if not is_lost:
                is_lost = True
                typer.echo("The registry doesn't answer; waiting for it.", err=True)
            await asyncio.sleep(_AGAIN_S)


def _tell(event: Event, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(event.as_dict(), ensure_ascii=False))
        return
    words = event_words(
        event.what,
        node=event.node_id,
        epoch=event.epoch,
        why=event.why,
        who=event.who,
        on=event.on,
    )
    head = clock(event.at_ms)
    if event.session_id:  # what happened to a node names it itself
        head += f"  {event.session_id}"
    typer.echo("\n".join(hanging(f"{head}  ", words)))
