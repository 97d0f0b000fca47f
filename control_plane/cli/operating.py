"""What may an operator change?

``drain`` and ``resume`` close and open a node; ``cancel`` ends a session. Each says what follows
for how many people. How sessions are moved off a node is in `draining`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from control_plane.cli import draining
from control_plane.cli.looking import Json, show_json
from control_plane.cli.options import Given, takes
from control_plane.cli.ordering import ordered
from control_plane.cli.registry_access import REGISTRY_FLAGS, asked
from control_plane.node_views import LONGEST_COUNTDOWN_S, look_at, order_of
from control_plane.operator_words import people
from control_plane.stories import moves_in_s
from shared.facts import NodeFacts
from shared.records import SessionRecord
from shared.states import Admin, Reason

In = Annotated[
    float | None,
    typer.Option(
        "--in",
        min=0,
        max=LONGEST_COUNTDOWN_S,
        metavar="SECONDS",
        help="Move its sessions elsewhere after so many seconds; their pages count down.",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Move them without asking.")]


@takes(REGISTRY_FLAGS)
def drain(
    node: str, in_s: In = None, yes: Yes = False, as_json: Json = False, *, given: Given
) -> None:
    """Give a node no new sessions, until resume; those that it has play on, or move --in a while.

    Moved sessions keep their places and their rooms. With --json and --in, nothing is done
    without --yes.
    """
    if in_s is not None:
        draining.live(node, in_s, yes=yes, as_json=as_json, given=given)
        return
    held, _ = _set(node, Admin.DRAINING, given)
    if as_json:
        show_json({"node_id": node, "admin": Admin.DRAINING, "sessions": held})
        return
    left = f"{people(held, 'slot is', 'slots are')} still in use there" if held else "it is empty"
    typer.echo(f"{node} is given no new sessions from now on; {left}.")
    typer.echo(f"greenroom resume {node} opens it again.")


@takes(REGISTRY_FLAGS)
def resume(node: str, as_json: Json = False, *, given: Given) -> None:
    """Give a drained node sessions again; a countdown that runs there is called off."""
    held, called_off = _set(node, Admin.OPEN, given)
    if as_json:
        show_json(
            {"node_id": node, "admin": Admin.OPEN, "sessions": held, "called_off": called_off}
        )
        return
    typer.echo(f"{node} is given sessions again, as soon as it has room and is well.")
    if called_off:
        typer.echo("Its countdown is called off: who is on it stays.")


@takes(REGISTRY_FLAGS)
def cancel(session_id: str, as_json: Json = False, *, given: Given) -> None:
    """End a session: a waiting one at once, one on stage as soon as its node has cleaned up."""
    record = ordered(
        given,
        "cancel",
        session_id,
        lambda registry, _pool: registry.cancel(session_id, Reason.ADMIN),
        session_id=session_id,
    )
    if as_json:
        show_json({"session_id": session_id, "state": record.state, "reason": record.reason})
        return
    typer.echo(_cancelled(record))


def _set(node_id: str, admin: Admin, given: Given) -> tuple[int, bool]:
    """Give the order; returns how many slots are in use, and whether a countdown is called off."""
    view = asked(given, lambda registry, pool: look_at(registry, pool, node_id))
    held = ordered(
        given,
        "drain" if admin is Admin.DRAINING else "resume",
        node_id,
        lambda registry, pool: registry.set_node_admin(
            pool, node_id, admin, replaces=order_of(view.node)
        ),
    )
    return held, _counts_down(view.node, view.facts.registry_ms)


def _counts_down(node: NodeFacts, registry_ms: int) -> bool:
    return bool(moves_in_s(node, registry_ms))


def _cancelled(record: SessionRecord) -> str:
    if record.reason is not Reason.ADMIN:
        word = "has ended" if record.ended else "is ending"
        return f"{record.session_id} {word} already ({record.reason}); that reason stays."
    if record.ended:
        return f"{record.session_id} has ended; it held no slot."
    return f"{record.session_id} is ending; {record.node_id} cleans up and frees its slot."
