"""Which options has ``greenroom check``, and how do they reach the program that checks?

That program belongs to the node's side and runs a service; it's started as a process of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MODULE = "gpu_node.conformance"

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
ValidationLevel = Annotated[
    str,
    typer.Option(help="How strictly the file's text is looked at: none, basic or strict."),
]
Config = Annotated[
    str,
    typer.Option(help="JSON object: what a session of this service needs, such as an image."),
]
Patience = Annotated[float, typer.Option(help="Factor of all time limits, for slow machines.")]
Only = Annotated[str, typer.Option(help="Names of the checks to run, with commas; empty: all.")]


def arguments(path: Path | None, *, as_json: bool, values: dict[str, object]) -> list[str]:
    """Return the checking program's arguments."""
    given = [str(path)] if path else []
    if as_json:
        given.append("--json")
    for name, value in values.items():
        given += [f"--{name}", str(value)]
    return given
