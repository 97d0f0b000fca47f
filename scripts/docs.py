"""Which parts of the documents does a machine write?

State diagrams come from the tables in ``shared/states.py``, the key table from
``shared/store/keys.py``, the settings table from the settings classes, the tables of numbers from
the instruments. Each stands between two marker comments; the rest of a document is nobody's but its
author's. ``--check`` changes nothing and fails if a part isn't what it would be.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from pydantic import AliasChoices
from pydantic.fields import FieldInfo

from control_plane.cli.options import default_text
from control_plane.settings import ReplicaSettings
from gpu_node.settings import NodeSettings
from scripts.metrics_list import REFERENCE, Number, of_a_node, of_a_replica
from shared.settings import ProcessSettings, SharedSettings, flag_of, variable_of
from shared.states import NODE_MOVES, SESSION_MOVES, Table
from shared.store.keys import KEY_TABLE

ROOT = Path(__file__).resolve().parents[1]
_PART = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)


def state_diagram(moves: Table[StrEnum], start: StrEnum) -> Iterator[str]:
    """Yield one machine as a mermaid diagram."""
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield f"  [*] --> {start}"
    for state, targets in moves.items():
        for target, cause in targets.items():
            yield f"  {state} --> {target}: {cause}"
        if not targets:
            yield f"  {state} --> [*]"
    yield "```"


def session_states() -> Iterator[str]:
    """Yield the diagram of a session and what each state means."""
    yield from state_diagram(SESSION_MOVES, next(iter(SESSION_MOVES)))  # type: ignore[arg-type]


def node_states() -> Iterator[str]:
    """Yield the diagram of a node."""
    yield from state_diagram(NODE_MOVES, next(iter(NODE_MOVES)))  # type: ignore[arg-type]


def key_table() -> Iterator[str]:
    """Yield the table of keys; each name stands behind ``gr:{<pool>}:``."""
    yield "| key | type | what | lifetime |"
    yield "|---|---|---|---|"
    for kind in KEY_TABLE:
        yield f"| `{kind.suffix}` | {kind.type} | {kind.what} | {kind.lifetime} |"


def settings_table() -> Iterator[str]:
    """Yield all options: shared ones, then those of a replica, then those of a node."""
    yield "| option | variable | default | what it is |"
    yield "|---|---|---|---|"
    shown: set[str] = set()
    parts: tuple[tuple[str, type[ProcessSettings]], ...] = (
        ("every process", SharedSettings),
        ("a replica: `stream-serve`, `api`", ReplicaSettings),
        ("a node: `stream-serve`, `node`", NodeSettings),
    )
    for title, settings in parts:
        yield f"| **{title}** | | | |"
        for name, field in settings.model_fields.items():
            if name not in shown:
                shown.add(name)
                yield _settings_row(name, field)


def _settings_row(name: str, field: FieldInfo) -> str:
    flag = "`PIPE_PATH`" if name == "pipe_path" else f"`{flag_of(name)}`"
    names = [variable_of(name)]
    if isinstance(field.validation_alias, AliasChoices):
        names = [str(choice) for choice in field.validation_alias.choices]
    default = "" if field.is_required() or field.default_factory else default_text(field.default)
    shown = f"`{default}`" if default else ""
    return f"| {flag} | {', '.join(f'`{n}`' for n in names)} | {shown} | {field.description} |"


def replica_metrics() -> Iterator[str]:
    """Yield what replicas count, under our names."""
    yield from _metrics_table(of_a_replica(), reference=False)


def node_metrics() -> Iterator[str]:
    """Yield what nodes count, under our names."""
    yield from _metrics_table(of_a_node(), reference=False)


def reference_metrics() -> Iterator[str]:
    """Yield what both serve under the reference's names."""
    yield from _metrics_table([*of_a_replica(), *of_a_node()], reference=True)


def _metrics_table(numbers: list[Number], *, reference: bool) -> Iterator[str]:
    yield "| name | kind | labels | meaning |"
    yield "|---|---|---|---|"
    for number in numbers:
        if number.name.startswith(REFERENCE) is reference:
            labels = ", ".join(f"`{label}`" for label in number.labels)
            yield f"| `{number.name}` | {number.kind} | {labels} | {number.text} |"


PARTS: Mapping[str, Callable[[], Iterator[str]]] = {
    "session-states": session_states,
    "node-states": node_states,
    "keys": key_table,
    "settings": settings_table,
    "metrics-replica": replica_metrics,
    "metrics-node": node_metrics,
    "metrics-reference": reference_metrics,
}
DOCUMENTS = ("README.md", "shared/README.md", "deploy/observability/README.md")


def redrawn(text: str) -> str:
    """Return a document with each generated part as it should be."""

    def part(match: re.Match[str]) -> str:
        lines = "\n".join(PARTS[match[2]]())
        return f"{match[1]}{lines}\n{match[3]}"

    return _PART.sub(part, text)


def main() -> int:
    """Redraw, or with ``--check`` only compare; returns the exit status."""
    stale = []
    for name in DOCUMENTS:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        if (new := redrawn(text)) == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(new, encoding="utf-8")
    if "--check" not in sys.argv:
        return 0
    for name in stale:
        print(f"{name}: a generated part is out of date; run scripts/fix", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
