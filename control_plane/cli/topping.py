"""How does it do right now, and how has it done in the last minutes?

``top`` looks into the registry itself every few seconds, so it works while no replica runs. On a
terminal each look replaces the one before; elsewhere they follow each other. When the registry
doesn't answer, what was seen last stays, and the page says how old it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
import time
from collections import deque
from typing import Annotated

import typer

from control_plane.cli.looking import Json, show_json
from control_plane.cli.options import Given, takes
from control_plane.cli.registry_access import REGISTRY_FLAGS, asked
from control_plane.cli.top_page import Look, page, page_json
from control_plane.numbers import numbers_of
from control_plane.operator_words import spell
from shared.errors import StoreUnavailable
from shared.store import Registry

WINDOW_S = 300.0
"""What counts as lately."""
_LEAST_LINES = 8
_HOME, _REST_OF_LINE, _REST_OF_PAGE = "\x1b[H", "\x1b[K", "\x1b[J"
_CLEAR = "\x1b[2J"

Interval = Annotated[
    float, typer.Option("--interval", min=0.2, max=3600, help="Seconds between two looks.")
]
Once = Annotated[bool, typer.Option("--once", help="Look once and end.")]
Limit = Annotated[
    int, typer.Option("--limit", min=0, max=10_000, help="Show at most so many nodes.")
]


@takes(REGISTRY_FLAGS)
def top(
    interval: Interval = 2.0,
    once: Once = False,
    limit: Limit = 20,
    as_json: Json = False,
    *,
    given: Given,
) -> None:
    """Show line, slots, nodes and waits, live until Ctrl-C; with --json one object a line."""
    screen = Screen(as_json=as_json, live=sys.stdout.isatty() and not (once or as_json))
    with contextlib.suppress(KeyboardInterrupt):
        if once:
            screen.show(asked(given, lambda registry, pool: _look(registry, pool, limit)))
        else:
            asked(given, lambda registry, pool: _watch(registry, pool, limit, interval, screen))


class Screen:
    """Where looks are shown, and which of them lately is counted from."""

    def __init__(self, *, as_json: bool, live: bool) -> None:
        self._as_json = as_json
        self._live = live
        self._looks: deque[Look] = deque()
        self._has_shown = False

    def show(self, look: Look) -> None:
        """Show the page of this look."""
        self._looks.append(look)
        while look.at_s - self._looks[0].at_s > WINDOW_S:
            self._looks.popleft()
        before = self._looks[0] if len(self._looks) > 1 else None
        if self._as_json:
            show_json(page_json(look, before))
        else:
            self._write(list(page(look, before, coloured=sys.stdout.isatty())))

    def wait(self, why: str) -> None:
        """Say that the registry doesn't answer; what was seen last stays."""
        if self._as_json:
            typer.echo(json.dumps({"unavailable": why}, ensure_ascii=False), err=True)
            return
        text = f"{why} Waiting for it."
        if self._looks:
            text += f" Last update {spell(time.monotonic() - self._looks[-1].at_s)} ago."
        if self._live and self._looks:
            look = self._looks[-1]
            self._write([*page(look, None, coloured=True), "", text])
        else:
            typer.echo(text, err=True)

    def _write(self, lines: list[str]) -> None:
        if not self._live:
            typer.echo("\n".join([*[""] * self._has_shown, *lines]))
            self._has_shown = True
            return
        height = max(shutil.get_terminal_size().lines - 1, _LEAST_LINES)
        shown = "".join(f"{line}{_REST_OF_LINE}\n" for line in lines[:height])
        clear, self._has_shown = ("" if self._has_shown else _CLEAR), True
        typer.echo(f"{clear}{_HOME}{shown}{_REST_OF_PAGE}", nl=False)


async def _watch(
    registry: Registry, pool: str, limit: int, interval_s: float, screen: Screen
) -> None:
    while True:
        try:
            screen.show(await _look(registry, pool, limit))
        except StoreUnavailable as error:
            screen.wait(str(error).replace("; try again", ""))
        await asyncio.sleep(interval_s)


async def _look(registry: Registry, pool: str, limit: int) -> Look:
    numbers = numbers_of(await registry.snapshot(pool))
    names = sorted(await registry.inspection.node_ids(pool))
    facts = await registry.inspection.look(pool, nodes=names[:limit])
    return Look(
        at_s=time.monotonic(),
        numbers=numbers,
        facts=facts,
        more_nodes=max(len(names) - limit, 0),
    )
