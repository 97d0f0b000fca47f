"""What does a person see in the terminal while everything runs?

Progress in plain words, and the log lines of replica and node. On a terminal a JSON line becomes a
short readable one; in a pipe or a service's journal it stays JSON, behind the name of its process.
"""

from __future__ import annotations

import json
import sys

import typer

from shared.errors import GreenroomError, StartupError

_LEFT_OUT = frozenset({"event", "level", "timestamp", "logger"})
_COLOURS = {"warning": typer.colors.YELLOW, "error": typer.colors.RED}


class Terminal:
    """Writes progress and log lines to standard out."""

    def __init__(self) -> None:
        self._readable = sys.stdout.isatty()
        self.stopping = False
        """From then on only log lines are shown: a trace that Ctrl-C left says nothing."""

    def say(self, text: str) -> None:
        """Show one line of progress."""
        typer.echo(text)

    def show(self, name: str, line: str) -> None:
        """Show one output line of a child process."""
        if self.stopping and _parsed(line) is None:
            return
        if not self._readable:
            typer.echo(f"{name} | {line}")
            return
        typer.secho(f"{name:8} {_short(line)}", fg=_COLOURS.get(_level(line)), dim=True)

    def complain(self, mistake: GreenroomError) -> None:
        """Show an operator's mistake: one sentence, and what to try."""
        typer.echo(str(mistake), err=True)
        if isinstance(mistake, StartupError) and mistake.try_:
            typer.echo(f"Try: {mistake.try_}", err=True)


def _parsed(line: str) -> dict[str, object] | None:
    if not line.startswith("{"):
        return None
    try:
        parsed = json.loads(line)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _level(line: str) -> str:
    parsed = _parsed(line)
    return str(parsed.get("level", "")) if parsed else ""


def _short(line: str) -> str:
    """Return ``12:00:01 session_running epoch=3`` for a JSON line, other lines as they are."""
    parsed = _parsed(line)
    if parsed is None:
        return line
    time = str(parsed.get("timestamp", ""))[11:19]
    data = " ".join(f"{key}={value}" for key, value in parsed.items() if key not in _LEFT_OUT)
    return f"{time} {parsed.get('event', '')} {data}".rstrip()
