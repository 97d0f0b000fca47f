"""Do ledger, nodes, rooms and keys tell the same story?

``audit`` prints what differs, changes nothing, and exits with 1 if anything does.
"""

from __future__ import annotations

from typing import Annotated

import typer

from control_plane.cli.looking import Json, show_json, show_table
from control_plane.cli.options import SHARED_FLAGS, Given, takes
from control_plane.cli.registry_access import REGISTRY_FLAGS, asked
from control_plane.cli.settings import OperatorSettings
from control_plane.cli.tables import Cell, Column
from control_plane.cli.words import Tone, sign
from control_plane.evidence import LOOK_AGAIN_AFTER_S, Audited, audit
from control_plane.operator_words import people
from shared.embedded.data_dir import usable
from shared.embedded.livekit_server import running_livekit
from shared.errors import RoomsUnavailable, StartupError
from shared.rooms.admin import RoomAdmin
from shared.settings import load, read_kept
from shared.store import Registry

_ROOM_FIELDS = {"livekit_url", "livekit_api_key", "livekit_api_secret", "deployment_id"}
_FLAGS = (*REGISTRY_FLAGS, *(flag for flag in SHARED_FLAGS if flag.field in _ROOM_FIELDS))
_COLUMNS = (Column(title="PART"), Column(title="WHO"), Column(title="WHAT DIFFERS"))

Again = Annotated[
    float,
    typer.Option("--again-after", min=0, help="Seconds between two looks; what passes isn't told."),
]


@takes(_FLAGS)
def audit_command(
    as_json: Json = False, again_after: Again = LOOK_AGAIN_AFTER_S, *, given: Given
) -> None:
    """Compare ledger, nodes' reports, rooms and keys; exit 1 if anything differs."""
    own = load(OperatorSettings, **given)
    audited = asked(given, lambda registry, pool: _audit(registry, pool, own, again_after))
    if as_json:
        show_json(_json(audited))
    else:
        _show(audited, own)
    if audited.differences:
        raise typer.Exit(1)


async def _audit(
    registry: Registry, pool: str, own: OperatorSettings, again_after_s: float
) -> Audited:
    with usable(own.data_dir):
        rooms = _rooms(own)
    try:
        return await audit(registry, pool, rooms=rooms, again_after_s=again_after_s)
    except RoomsUnavailable as error:
        raise StartupError(
            str(error).replace("; try again", ""),
            try_="--livekit-url with its --livekit-api-key and --livekit-api-secret",
        ) from error
    finally:
        if rooms is not None:
            await rooms.aclose()


def _rooms(own: OperatorSettings) -> RoomAdmin | None:
    """Return the way to the rooms: what was named, else what runs with the data folder."""
    if not (deployment_id := _deployment_id(own)):
        return None
    if own.livekit_url:
        secret = own.livekit_api_secret.get_secret_value()
        return RoomAdmin(own.livekit_url, own.livekit_api_key, secret, deployment_id)
    running = running_livekit(own.data_dir)
    if running is None:
        return None
    return RoomAdmin(running.url, running.api_key, running.api_secret, deployment_id)


def _deployment_id(own: OperatorSettings) -> str:
    kept = own.data_dir / "deployment-id"
    return own.deployment_id or (read_kept(kept) if kept.is_file() else "")


def _wanting(own: OperatorSettings) -> str:
    """Return what must be named so that rooms can be compared."""
    wanting = []
    if not (own.livekit_url or running_livekit(own.data_dir)):
        wanting.append("the media server with --livekit-url")
    if not _deployment_id(own):
        wanting.append("whose rooms are meant with --deployment-id")
    return " and ".join(wanting)


def _show(audited: Audited, own: OperatorSettings) -> None:
    compared = [
        people(audited.sessions, "live session", "live sessions"),
        people(audited.nodes, "node", "nodes"),
        people(audited.keys or 0, "key", "keys"),
    ]
    if audited.rooms is not None:
        compared.append(people(audited.rooms, "room", "rooms"))
    typer.echo(f"Pool {audited.pool}: compared {', '.join(compared)}")
    if audited.rooms is None:
        typer.echo(f"Rooms weren't compared: name {_wanting(own)}.")
    if not audited.differences:
        typer.echo("Nothing differs.")
        return
    show_table(
        _COLUMNS,
        [
            [sign(Tone.ATTENTION, one.part), Cell(one.subject), Cell(one.text)]
            for one in audited.differences
        ],
    )


def _json(audited: Audited) -> dict[str, object]:
    return {
        "pool": audited.pool,
        "sessions": audited.sessions,
        "nodes": audited.nodes,
        "keys": audited.keys,
        "rooms": audited.rooms,
        "differences": [
            {"part": one.part, "subject": one.subject, "text": one.text}
            for one in audited.differences
        ],
    }
