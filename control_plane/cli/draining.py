"""How are the sessions of a node moved while people play on it?

A live drain shows first whom it touches and where there's room for them, and is confirmed by a
person at a terminal or by ``--yes``. Then the registry has a time; until then the pages count down,
and at the end each session goes back to the line with its ticket, and from there to another node.
An order counts only if nobody else has given one since the node was looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import typer

from control_plane.cli import rows
from control_plane.cli.looking import show_json, show_table
from control_plane.cli.options import Given
from control_plane.cli.ordering import ordered
from control_plane.cli.registry_access import asked
from control_plane.cli.tables import Cell, Column
from control_plane.cli.words import session_sign
from control_plane.node_views import View, look_at, order_of
from control_plane.operator_words import people, room_words, spell
from control_plane.stories import room_of
from shared.errors import StartupError
from shared.facts import PoolFacts, SessionFacts
from shared.states import Admin

_COLUMNS = (
    Column(title="SESSION"),
    Column(title="STATE"),
    Column(title="FOR", numeric=True),
    Column(title="ROOM", may_shrink=True),
    Column(title="TIME LEFT", numeric=True),
)


def live(node_id: str, in_s: float, *, yes: bool, as_json: bool, given: Given) -> None:
    """Show whom it touches, have it confirmed, and begin the countdown."""
    view = asked(given, lambda registry, pool: look_at(registry, pool, node_id))
    if as_json:
        if yes:
            _order(view, in_s, given)
        show_json(_json(view, in_s, done=yes))
        return
    touched = len(view.touched)
    if touched:
        typer.echo("\n".join(_preview(view, in_s)))
        show_table(_COLUMNS, [_row(view.facts, one) for one in view.touched])
        if not yes and not _confirmed(node_id, touched):
            typer.echo("Nothing was changed.")
            return
    _order(view, in_s, given)
    typer.echo("\n".join(_done(node_id, in_s, touched)))


def _confirmed(node_id: str, touched: int) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise StartupError(
            f"This moves {people(touched, 'session', 'sessions')} off {node_id}, and nobody is "
            "here to confirm it.",
            try_="the same with --yes",
        )
    return typer.confirm("Move them?")


def _order(view: View, in_s: float, given: Given) -> None:
    node_id, replaces = view.node.node_id, order_of(view.node)
    ordered(
        given,
        "drain",
        node_id,
        lambda registry, pool: registry.set_node_admin(
            pool, node_id, Admin.DRAINING, replaces=replaces, move_in_s=in_s
        ),
    )


def _preview(view: View, in_s: float) -> Iterator[str]:
    count = people(len(view.touched), "session", "sessions")
    when = f"in {spell(in_s)}" if in_s else "now"
    yield f"{count} of {view.node.node_id} would leave it {when}, with their places and rooms."
    free = people(view.free_elsewhere, "slot is", "slots are")
    wait = people(view.waiting, "session waits", "sessions wait")
    yield f"Elsewhere {free} free; {wait}."


def _row(facts: PoolFacts, session: SessionFacts) -> list[Cell]:
    limit_in_s = rows.limit_in_s(facts, session)
    return [
        Cell(session.session_id),
        session_sign(session),
        Cell(spell(rows.state_s(facts, session))),
        Cell(room_words(*room_of(session, facts.registry_ms))),
        Cell("" if limit_in_s is None else spell(limit_in_s)),
    ]


def _done(node_id: str, in_s: float, touched: int) -> Iterator[str]:
    yield f"{node_id} is given no new sessions from now on."
    if touched and in_s:
        yield (
            f"Its {people(touched, 'session', 'sessions')} will move in {spell(in_s)}; "
            "the pages count down."
        )
    elif touched:
        yield f"Its {people(touched, 'session moves', 'sessions move')} now."
    yield f"greenroom resume {node_id} opens it again{' and calls it off' if in_s else ''}."


def _json(view: View, in_s: float, *, done: bool) -> dict[str, object]:
    return {
        "node_id": view.node.node_id,
        "admin": Admin.DRAINING if done else view.node.record.get("admin", Admin.OPEN),
        "in_s": in_s,
        "done": done,
        "sessions": [rows.session_json(view.facts, one) for one in view.touched],
        "free_elsewhere": view.free_elsewhere,
        "waiting": view.waiting,
    }
