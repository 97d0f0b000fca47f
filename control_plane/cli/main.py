"""What can one do with the command ``greenroom``?

``stream-serve`` runs everything on this machine; ``api`` and ``node`` become one replica or one
node of a cluster; the others look into a running system, and ``drain``, ``resume`` and ``cancel``
change it. An operator's mistake ends each of them with exit status 2 and a sentence, never with a
traceback.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from control_plane.cli import (
    auditing,
    checking,
    explaining,
    following,
    key_keeping,
    looking,
    operating,
    proving,
    registry_tour,
    stack,
    topping,
)
from control_plane.cli.doctor.command import doctor
from control_plane.cli.options import NODE_FLAGS, REPLICA_FLAGS, SHARED_FLAGS, Given, takes
from control_plane.cli.registry_access import REGISTRY_FLAGS, one_pool, registry_url, told
from control_plane.cli.settings import OperatorSettings
from control_plane.cli.terminal import Terminal
from shared.embedded.supervisor import ChildFailed
from shared.errors import GreenroomError, StartupError
from shared.logs import set_up_logs
from shared.settings import child_environment, load, variable_of
from shared.store.console import ask

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Control plane for live generative sessions: one fair line, one GPU slot each.",
)

PipePath = Annotated[
    Path | None,
    typer.Argument(
        metavar="[PIPE_PATH]",
        help="Python file with get_service(); left out: the demo world.",
        show_default=False,
    ),
]

RawCommand = Annotated[
    list[str] | None,
    typer.Argument(metavar="[COMMAND...]", help="A raw Redis command.", show_default=False),
]


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"greenroom {version('greenroom')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Tell the version."),
    ] = False,
) -> None:
    """Control plane for live generative sessions: one fair line, one GPU slot each."""


@app.command("stream-serve")
@takes((*SHARED_FLAGS, *REPLICA_FLAGS, *NODE_FLAGS))
def stream_serve(pipe_path: PipePath = None, *, given: Given) -> None:
    """Run everything on this machine: Redis and LiveKit unless named, one replica, one node."""
    terminal = Terminal()
    with stack.planned(given, pipe_path=_existing(pipe_path), say=terminal.say) as planned:
        asyncio.run(stack.run(planned, terminal))


@app.command("api")
@takes((*SHARED_FLAGS, *REPLICA_FLAGS))
def api(*, given: Given) -> None:
    """Run one replica against a given Redis and LiveKit; any number of them form one system."""
    _become("control_plane", child_environment(given))


@app.command("node")
@takes((*SHARED_FLAGS, *NODE_FLAGS))
def node(pipe_path: PipePath = None, *, given: Given) -> None:
    """Run one GPU node against a given Redis and LiveKit; any number of them share the line."""
    path = _existing(pipe_path)
    pipe = {variable_of("pipe_path"): str(path)} if path else {}
    _become("gpu_node", {**child_environment(given), **pipe})


@app.command("check")
def check(
    pipe_path: PipePath = None,
    as_json: checking.AsJson = False,
    validation_level: checking.ValidationLevel = "basic",
    config: checking.Config = "{}",
    patience: checking.Patience = 1.0,
    only: checking.Only = "",
) -> None:
    """Try a service file as a node would use it; exit status 1 if it does something wrong."""
    given = checking.arguments(
        _existing(pipe_path),
        as_json=as_json,
        values={
            "validation-level": validation_level,
            "config": config,
            "patience": patience,
            "only": only,
        },
    )
    _become(checking.MODULE, child_environment({}), *given)


@app.command("redis", context_settings={"ignore_unknown_options": True})
@takes(REGISTRY_FLAGS)
def redis(command: RawCommand = None, *, given: Given) -> None:
    """Look into the registry: a short tour, or one raw COMMAND such as HGETALL with a key."""
    own = load(OperatorSettings, **given)
    url = registry_url(own)
    if command:
        lines = list(registry_tour.reply_lines(ask(url, one_pool(own), tuple(command))))
    else:
        with told():
            lines = asyncio.run(registry_tour.tour(url, one_pool(own)))
    typer.echo("\n".join(lines))


app.command("ps")(looking.ps)
app.command("queue")(looking.queue)
app.command("nodes")(looking.nodes)
app.command("top")(topping.top)
app.command("explain")(explaining.explain)
app.command("events")(following.events)
app.command("drain")(operating.drain)
app.command("resume")(operating.resume)
app.command("cancel")(operating.cancel)
app.command("receipt")(proving.receipt)
app.command("audit")(auditing.audit_command)
app.add_typer(key_keeping.keys, name="keys")
app.command("doctor")(doctor)


def _existing(pipe_path: Path | None) -> Path | None:
    if pipe_path is not None and not pipe_path.is_file():
        raise StartupError(
            f"There is no file {pipe_path}.",
            try_="the path of a Python file with get_service(), or none for the demo world",
        )
    return pipe_path


def _become(module: str, env: Mapping[str, str], *arguments: str) -> NoReturn:
    """Turn this process into the one that runs *module*: signals and exit status are its own."""
    sys.stdout.flush()
    line = [sys.executable, "-m", module, *arguments]
    os.execve(sys.executable, line, dict(env))  # noqa: S606 - our own


def main() -> None:
    """Run the command line; the entry point of ``greenroom``."""
    # What a command answers may go into a file or another program: no line of ours between it.
    set_up_logs(level="warning", to=sys.stderr)
    try:
        app()
    except ChildFailed as failure:
        Terminal().complain(failure)
        sys.exit(1)
    except GreenroomError as mistake:
        Terminal().complain(mistake)
        sys.exit(2)


if __name__ == "__main__":
    main()
