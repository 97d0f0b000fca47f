"""Who may use the system: which API keys are there, and how is one made and taken away?

A key is shown once, when it is made; nothing that is kept could be used in its place. Keys belong
to the whole system, not to a pool.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from control_plane.cli.looking import Json, show_json, show_table
from control_plane.cli.options import Given, takes
from control_plane.cli.ordering import who
from control_plane.cli.registry_access import REGISTRY_FLAGS, asked
from control_plane.cli.tables import Cell, Column
from shared.access_errors import TooManyKeys, UnknownKey
from shared.access_keys import (
    ApiKey,
    Scope,
    check_key_name,
    digest_of,
    id_of,
    named_id,
    new_key,
    scopes_of,
)
from shared.errors import InvalidName, StartupError

_FLAGS = tuple(flag for flag in REGISTRY_FLAGS if flag.field != "pool")
_COLUMNS = (
    Column(title="ID"),
    Column(title="NAME"),
    Column(title="MAY"),
    Column(title="SINCE"),
)

keys = typer.Typer(
    invoke_without_command=True,
    no_args_is_help=False,
    rich_markup_mode=None,
    help="List the API keys; add one, revoke one.",
)

Scopes = Annotated[
    list[str] | None,
    typer.Option(
        "--scope", help=f"What it may do: {', '.join(Scope)}; may be repeated.", show_default=False
    ),
]


@keys.callback()
@takes(_FLAGS)
def list_keys(context: typer.Context, as_json: Json = False, *, given: Given) -> None:
    """List the API keys; add one, revoke one."""
    if context.invoked_subcommand is not None:
        context.obj = given
        return
    found = asked(given, lambda registry, _pool: registry.access.keys())
    kept = sorted(found.values(), key=lambda key: (key.created_at_ms, key.key_id))
    if as_json:
        show_json({"keys": [_json(key) for key in kept]})
        return
    if not kept:
        typer.echo("There are no API keys. greenroom keys add NAME --scope create makes one.")
        return
    show_table(_COLUMNS, [_row(key) for key in kept])


@keys.command("add")
@takes(_FLAGS)
def add(
    context: typer.Context, name: str, scope: Scopes = None, as_json: Json = False, *, given: Given
) -> None:
    """Make an API key called NAME, and show it this once."""
    key = new_key()
    kept = _record(key, name, scope or [])
    try:
        asked(_both(context, given), lambda registry, _pool: registry.access.add(kept, who=who()))
    except TooManyKeys as full:
        raise StartupError(str(full), try_="greenroom keys") from full
    if as_json:
        show_json({**_json(kept), "key": key})
        return
    typer.echo(f"{kept.name} may {_scopes(kept)}. This is its key; it is shown only now:")
    typer.echo(key)
    typer.echo(f"greenroom keys revoke {kept.key_id} takes it away.")


@keys.command("revoke")
@takes(_FLAGS)
def revoke(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY_ID", help="Its id, or the whole key.")],
    as_json: Json = False,
    *,
    given: Given,
) -> None:
    """Take an API key away for good; within seconds no replica takes it any more."""
    key_id = named_id(key)
    if key_id is None:  # not repeated: it may be the secret of a key
        raise StartupError("This is no id of an API key.", try_="greenroom keys")
    try:
        asked(
            _both(context, given),
            lambda registry, _pool: registry.access.revoke(key_id, who=who()),
        )
    except UnknownKey as unknown:
        raise StartupError(str(unknown), try_="greenroom keys") from unknown
    if as_json:
        show_json({"key_id": key_id, "revoked": True})
        return
    typer.echo(f"The key {key_id} is revoked; within seconds no replica takes it any more.")


def _both(context: typer.Context, given: Given) -> Given:
    """Return the flags before the word and those after it; the later ones count."""
    return {**(context.obj or {}), **given}


def _record(key: str, name: str, scopes: list[str]) -> ApiKey:
    try:
        return ApiKey(
            key_id=id_of(key) or "",
            name=check_key_name(name),
            scopes=scopes_of(scopes),
            digest=digest_of(key),
            created_at_ms=time.time_ns() // 1_000_000,
        )
    except InvalidName as wrong:
        raise StartupError(
            str(wrong), try_="greenroom keys add backend --scope create --scope read"
        ) from wrong


def _scopes(key: ApiKey) -> str:
    return ", ".join(scope for scope in Scope if scope in key.scopes)


def _row(key: ApiKey) -> list[Cell]:
    since = datetime.fromtimestamp(key.created_at_ms / 1000, tz=UTC).astimezone()
    return [
        Cell(key.key_id),
        Cell(key.name),
        Cell(_scopes(key)),
        Cell(since.strftime("%Y-%m-%d %H:%M")),
    ]


def _json(key: ApiKey) -> dict[str, object]:
    return {
        "key_id": key.key_id,
        "name": key.name,
        "scopes": [scope for scope in Scope if scope in key.scopes],
        "created_at": key.created_at_ms / 1000,
    }
