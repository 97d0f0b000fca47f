"""What is a dashboard, and how does it look to Grafana?

A dashboard is written down once, as rows of panels with their queries; `as_grafana` lays the
panels out on Grafana's grid of 24 columns and gives each what every panel has. Nothing here knows a
metric.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

SCHEMA = 39
"""Of Grafana 11."""
DATASOURCE = {"type": "prometheus", "uid": "prometheus"}
"""As deploy/grafana/datasources names it."""
_COLUMNS = 24
_STAT_HEIGHT, _GRAPH_HEIGHT = 4, 8
QUERY_WINDOW = "$__rate_interval"
"""Grafana fills it in: at least four scrapes."""


@dataclass(frozen=True, slots=True)
class Query:
    """One question to Prometheus, and how its answers are called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One question of an operator, with its answer as a number or over time."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    """Grafana's word: s, percentunit, bytes, reqps, ..."""
    text: str = ""
    """What it means and what to do; shown when the pointer rests on the title."""
    kind: str = "timeseries"
    """timeseries or stat."""
    stacked: bool = False
    warn_at: float | None = None
    """From this value on a number needs attention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One choice at the top of a dashboard."""

    name: str
    label: str
    values_of: str
    """The query that lists what can be chosen."""
    several: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """One page of Grafana."""

    uid: str
    title: str
    text: str
    variables: tuple[Variable, ...]
    rows: dict[str, tuple[Panel, ...]] = field(default_factory=dict)

    @property
    def panels(self) -> Iterator[Panel]:
        """All panels, row by row."""
        for panels in self.rows.values():
            yield from panels


def as_grafana(dashboard: Dashboard) -> dict[str, object]:
    """Return the dashboard as Grafana's JSON."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.text,
        "tags": ["greenroom"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "10s",
        "links": [
            {
                "type": "dashboards",
                "tags": ["greenroom"],
                "asDropdown": False,
                "includeVars": True,
                "keepTime": True,
                "title": "",
            }
        ],
        "templating": {"list": [_variable(one) for one in dashboard.variables]},
        "panels": list(_laid_out(dashboard)),
    }


def _variable(variable: Variable) -> dict[str, object]:
    return {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": variable.values_of,
        "query": {"query": variable.values_of, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "multi": variable.several,
        "includeAll": variable.several,
        "current": {"text": "All", "value": "$__all"} if variable.several else {},
    }


def _laid_out(dashboard: Dashboard) -> Iterator[dict[str, object]]:
    ids, top = count(1), 0
    for title, panels in dashboard.rows.items():
        place = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
        yield {"id": next(ids), "type": "row", "title": title, "gridPos": place, "panels": []}
        top += 1
        left = highest = 0
        width = _width(panels)
        for panel in panels:
            height = _STAT_HEIGHT if panel.kind == "stat" else _GRAPH_HEIGHT
            if left + width > _COLUMNS:
                top, left, highest = top + highest, 0, 0
            place = {"x": left, "y": top, "w": width, "h": height}
            yield _panel(panel, next(ids), place)
            left, highest = left + width, max(highest, height)
        top += highest


def _width(panels: tuple[Panel, ...]) -> int:
    """Numbers stand six in a row, graphs three; fewer of them share the row."""
    most = 6 if panels[0].kind == "stat" else 3
    return _COLUMNS // min(len(panels), most)


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, object]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": DATASOURCE,
        "gridPos": place,
        "targets": [
            {
                "refId": chr(ord("A") + place_in_panel),
                "datasource": DATASOURCE,
                "expr": query.expr,
                "legendFormat": query.legend or "__auto",
                "range": panel.kind != "stat",
                "instant": panel.kind == "stat",
            }
            for place_in_panel, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _OPTIONS[panel.kind],
    }


def _defaults(panel: Panel) -> dict[str, object]:
    steps: list[dict[str, object]] = [{"color": "green", "value": None}]
    if panel.warn_at is not None:
        steps.append({"color": "orange", "value": panel.warn_at})
    defaults: dict[str, object] = {
        "unit": panel.unit,
        "min": 0,
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 20 if panel.stacked else 0,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
    return defaults


_OPTIONS: dict[str, dict[str, object]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "area",
        "textMode": "auto",
    },
}


def within(where: str, **labels: str) -> str:
    """Return the selector *where* with further labels, by equality."""
    more = ", ".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{where[:-1]}, {more}}}"


_FUNCTIONS = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def metrics_in(expr: str) -> set[str]:
    """Return the names of our metrics in a query, as Prometheus knows them."""
    return {
        name
        for name in _FUNCTIONS.findall(re.sub(r'"[^"]*"', "", expr))
        if name.startswith(("greenroom_", "telefuser_", "process_", "scrape_", "up"))
    }


def quantiles(metric: str, where: str, *, shares: tuple[float, ...] = (0.5, 0.95), by: str = "",
              same_everywhere: bool = False) -> tuple[Query, ...]:  # fmt: skip
    """Return the queries for some quantiles of a histogram.

    Args:
        metric: Its name without ``_bucket``.
        where: Its selector, in braces.
        shares: Which quantiles.
        by: A label to keep apart.
        same_everywhere: Each replica tells the same, so one of them counts and not their sum.
    """
    over = "max" if same_everywhere else "sum"
    kept = ", ".join(filter(None, ("le", by)))
    rate = f"{over} by ({kept}) (rate({metric}_bucket{where}[{QUERY_WINDOW}]))"
    legend = f"{{{{{by}}}}} " if by else ""
    return tuple(
        Query(f"histogram_quantile({share}, {rate})", f"{legend}p{round(share * 100)}")
        for share in shares
    )
