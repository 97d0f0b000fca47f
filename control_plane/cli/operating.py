"""What may an operator change?

``drain`` and ``resume`` close and open a node; ``cancel`` ends a session. Each says what follows
for how many people.
"""

from __future__ import annotations

import typer

from control_plane.cli.looking import Json, show_json
from control_plane.cli.options import Given, takes
from control_plane.cli.registry_access import REGISTRY_FLAGS, asked
from control_plane.cli.words import people
from shared.ids import check_node_id
from shared.records import SessionRecord
from shared.states import Admin, Reason


@takes(REGISTRY_FLAGS)
def drain(node: str, as_json: Json = False, *, given: Given) -> None:
    """Give a node no new sessions, until resume; those that it has play on."""
    held = _set(node, Admin.DRAINING, given)
    if as_json:
        show_json({"node_id": node, "admin": Admin.DRAINING, "sessions": held})
        return
    left = f"{people(held, 'slot is', 'slots are')} still in use there" if held else "it is empty"
    typer.echo(f"{node} is given no new sessions from now on; {left}.")
    typer.echo(f"greenroom resume {node} opens it again.")


@takes(REGISTRY_FLAGS)
def resume(node: str, as_json: Json = False, *, given: Given) -> None:
    """Give a drained node sessions again."""
    held = _set(node, Admin.OPEN, given)
    if as_json:
        show_json({"node_id": node, "admin": Admin.OPEN, "sessions": held})
        return
    typer.echo(f"{node} is given sessions again, as soon as it has room and is well.")


@takes(REGISTRY_FLAGS)
def cancel(session_id: str, as_json: Json = False, *, given: Given) -> None:
    """End a session: a waiting one at once, one on stage as soon as its node has cleaned up."""
    record = asked(
        given,
        lambda registry, _pool: registry.cancel(session_id, Reason.ADMIN),
        session_id=session_id,
    )
    if as_json:
        show_json({"session_id": session_id, "state": record.state, "reason": record.reason})
        return
    typer.echo(_cancelled(record))


def _set(node_id: str, admin: Admin, given: Given) -> int:
    return asked(
        given,
        lambda registry, pool: registry.set_node_admin(pool, check_node_id(node_id), admin),
    )


def _cancelled(record: SessionRecord) -> str:
    if record.reason is not Reason.ADMIN:
        word = "has ended" if record.ended else "is ending"
        return f"{record.session_id} {word} already ({record.reason}); that reason stays."
    if record.ended:
        return f"{record.session_id} has ended; it held no slot."
    return f"{record.session_id} is ending; {record.node_id} cleans up and frees its slot."
