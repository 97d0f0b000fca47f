"""Write the dashboards into deploy/observability/dashboards, or tell which aren't current.

``python -m scripts.dashboards`` writes them, ``--check`` only compares.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from scripts.dashboards import fleet, node, quality, registry
from scripts.dashboards.model import Dashboard, as_grafana

FOLDER = Path(__file__).resolve().parents[2] / "deploy/observability/dashboards"
DASHBOARDS = (fleet.DASHBOARD, node.DASHBOARD, quality.DASHBOARD, registry.DASHBOARD)


def text_of(dashboard: Dashboard) -> str:
    """Return the file that Grafana reads."""
    return json.dumps(as_grafana(dashboard), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Write all, or with --check compare; returns 1 if one isn't what it would be."""
    only_check = "--check" in sys.argv[1:]
    wanted = {f"{one.uid}.json": text_of(one) for one in DASHBOARDS}
    stale = [
        name
        for name, text in wanted.items()
        if not (FOLDER / name).is_file() or (FOLDER / name).read_text() != text
    ]
    stale += [path.name for path in FOLDER.glob("*.json") if path.name not in wanted]
    if only_check:
        for name in stale:
            print(f"deploy/observability/dashboards/{name} isn't current: scripts/fix")
        return int(bool(stale))
    for name in stale:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name])
        else:
            (FOLDER / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
