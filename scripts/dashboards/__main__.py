"""Write what is generated for Prometheus and Grafana, or tell which file isn't current.

The dashboards from their descriptions here, and the alerts once more as Kubernetes takes them.
``python -m scripts.dashboards`` writes them, ``--check`` only compares.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import indent

from scripts.dashboards import fleet, node, quality, registry
from scripts.dashboards.model import Dashboard, as_grafana

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
FOLDER = DEPLOY / "observability/dashboards"
DASHBOARDS = (fleet.DASHBOARD, node.DASHBOARD, quality.DASHBOARD, registry.DASHBOARD)
_RULE = """\
# Generated from ../observability/alerts.yml (scripts/fix), for the operator of Prometheus.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: greenroom
spec:
"""


def text_of(dashboard: Dashboard) -> str:
    """Return the file that Grafana reads."""
    return json.dumps(as_grafana(dashboard), indent=1, ensure_ascii=False) + "\n"


def prometheus_rule() -> str:
    """Return the alerts as an object for Kubernetes."""
    lines = (DEPLOY / "observability/alerts.yml").read_text().splitlines(keepends=True)
    return _RULE + indent("".join(line for line in lines if not line.startswith("#")), "  ")


def main() -> int:
    """Write all, or with --check compare; returns 1 if one isn't what it would be."""
    only_check = "--check" in sys.argv[1:]
    wanted = {FOLDER / f"{one.uid}.json": text_of(one) for one in DASHBOARDS}
    surplus = [path for path in FOLDER.glob("*.json") if path not in wanted]
    wanted[DEPLOY / "k8s/prometheusrule.yaml"] = prometheus_rule()
    stale = [
        path for path, text in wanted.items() if not path.is_file() or path.read_text() != text
    ]
    if only_check:
        for path in (*stale, *surplus):
            print(f"deploy/{path.relative_to(DEPLOY)} isn't current: scripts/fix")
        return int(bool(stale or surplus))
    for path in stale:
        path.write_text(wanted[path])
    for path in surplus:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
