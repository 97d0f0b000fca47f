"""How is a service file checked by hand? ``greenroom check PIPE_PATH`` starts this.

Exit status 0: it keeps the contract; 1: something failed; 2: the call itself was a mistake.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from gpu_node.conformance.bench import now_s
from gpu_node.conformance.examination import Examination, Wishes
from gpu_node.conformance.report import has_failed, json_of, lines_of, summary_of
from gpu_node.conformance.results import Result
from gpu_node.conformance.suite import ALL
from gpu_node.services.loader import find_service_file
from gpu_node.services.validation import Level
from shared.errors import StartupError


def main(arguments: Sequence[str] | None = None) -> int:
    """Check one file and print what was found."""
    try:
        wishes, as_json = _read(arguments)
    except StartupError as error:
        sys.stderr.write(f"greenroom check: {error}\n")
        return 2
    began_s = now_s()
    results = asyncio.run(Examination(wishes, _silent if as_json else _show).run())
    seconds = now_s() - began_s
    if as_json:
        _write(json.dumps(json_of(str(wishes.path), results, seconds), indent=2))
    else:
        _write("", summary_of(results, seconds))
    return 1 if has_failed(results) else 0


def _read(arguments: Sequence[str] | None) -> tuple[Wishes, bool]:
    parser = argparse.ArgumentParser(prog="greenroom check")
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--validation-level", choices=[str(level) for level in Level])
    parser.add_argument("--skip-validation", action="store_true")
    parser.add_argument("--config", default="{}")
    parser.add_argument("--patience", type=float, default=1.0)
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--only", default="")
    given = parser.parse_args(arguments)
    try:
        config = json.loads(given.config)
    except ValueError:
        config = None
    if not isinstance(config, dict):
        raise StartupError('--config must be a JSON object, like \'{"image": "…"}\'.')
    only = tuple(name for name in given.only.split(",") if name)
    if unknown := [name for name in only if name not in ALL]:
        raise StartupError(f"There is no check {unknown[0]!r}; there are {', '.join(ALL)}.")
    level = Level.NONE if given.skip_validation else Level(given.validation_level or Level.BASIC)
    wishes = Wishes(
        path=find_service_file(given.path),
        level=level,
        config=config,
        patience=max(given.patience, 0.01),
        cycles=max(given.cycles, 5),
        only=only,
    )
    return wishes, given.json


def _show(result: Result) -> None:
    _write(*lines_of(result, coloured=sys.stdout.isatty()))


def _silent(_result: Result) -> None:
    """A program reads the whole at the end."""


def _write(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        code = main()
    except BrokenPipeError:  # whoever read the report has seen enough
        code = 1
        sys.stdout = None
    sys.exit(code)
