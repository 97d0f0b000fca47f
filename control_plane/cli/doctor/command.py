"""How is everything looked at, and how is it told?

All looks run side by side, each bounded; exit status 1 if anything is wrong.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Iterable
from dataclasses import asdict
from typing import Annotated

import typer

from control_plane.cli.doctor.findings import Finding, Level, note
from control_plane.cli.doctor.of_gpus import look_at_gpus
from control_plane.cli.doctor.of_machine import (
    look_at_descriptors,
    look_at_films,
    look_at_folder,
    look_at_proxies,
)
from control_plane.cli.doctor.of_media import look_at_media, media_of, nothing_named
from control_plane.cli.doctor.of_redis import look_at_pool, look_at_redis
from control_plane.cli.doctor.of_replica import look_at_replica
from control_plane.cli.looking import Json, show_json
from control_plane.cli.options import SHARED_FLAGS, Given, takes
from control_plane.cli.registry_access import one_pool, registry_url
from control_plane.cli.settings import OperatorSettings
from control_plane.cli.tables import hanging
from control_plane.cli.words import Tone, sign
from control_plane.operator_words import people
from shared.errors import StartupError
from shared.settings import load

_FIELDS = (
    "data_dir", "redis_url", "pool", "livekit_url", "livekit_public_url", "livekit_api_key",
    "livekit_api_secret",
)  # fmt: skip
_FLAGS = tuple(flag for flag in SHARED_FLAGS if flag.field in _FIELDS)
_SHAPES = {Level.FINE: Tone.LIVE, Level.NOTE: Tone.WAITING, Level.WRONG: Tone.ATTENTION}
_TRY = "Try: "

ApiUrl = Annotated[
    str,
    typer.Option("--api-url", help="A replica, or what stands in front of several, to ask too."),
]
NoPicture = Annotated[
    bool,
    typer.Option("--no-picture", help="Don't join a room of LiveKit to see whether media passes."),
]


@takes(_FLAGS)
def doctor(
    api_url: ApiUrl = "", no_picture: NoPicture = False, as_json: Json = False, *, given: Given
) -> None:
    """Look for what is wrong with this machine, Redis and LiveKit; exit 1 if anything is."""
    own = load(OperatorSettings, **given)
    found = asyncio.run(examine(own, api_url=api_url, with_picture=not no_picture))
    count = sum(one.level is Level.WRONG for one in found)
    if as_json:
        show_json({"wrong": count, "findings": [_json(one) for one in found]})
    else:
        typer.echo("\n".join(_lines(found)))
        typer.echo(f"{people(count, 'thing is', 'things are')} wrong." if count else "All is well.")
    if count:
        raise typer.Exit(1)


async def examine(own: OperatorSettings, *, api_url: str, with_picture: bool) -> list[Finding]:
    """Return what all looks found, in the order of the areas."""
    media = media_of(own)
    looks: list[Awaitable[list[Finding]]] = [
        *_of_registry(own),
        look_at_media(media, with_picture=with_picture) if media else _at_once([nothing_named()]),
        *([look_at_replica(api_url)] if api_url else []),
        _at_once(look_at_proxies(media.url if media else "")),
        look_at_gpus(),
        look_at_films(),
        _at_once(look_at_folder(own.data_dir)),
        _at_once(look_at_descriptors()),
    ]
    return list(itertools.chain.from_iterable(await asyncio.gather(*looks)))


def _of_registry(own: OperatorSettings) -> list[Awaitable[list[Finding]]]:
    try:
        url, pool = registry_url(own), one_pool(own)
    except StartupError as error:
        text = f"{str(error).rstrip('.')}, so no registry was looked at."
        return [_at_once([note("redis", text, error.try_ or "")])]
    return [look_at_redis(url), look_at_pool(url, pool)]


async def _at_once(found: Iterable[Finding]) -> list[Finding]:
    return list(found)


def _lines(found: Iterable[Finding]) -> Iterable[str]:
    for one in found:
        head = sign(_SHAPES[one.level], one.area.ljust(12))
        yield from hanging(head.text, one.text)
        if one.try_:
            yield from hanging(" " * len(head.text) + _TRY, one.try_)


def _json(one: Finding) -> dict[str, str]:
    told = asdict(one)
    told["try"] = told.pop("try_")
    return told
