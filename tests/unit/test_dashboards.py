"""Are the dashboards what they are generated from, and do they ask for numbers that are served?"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from scripts.dashboards.__main__ import DASHBOARDS, FOLDER, text_of
from scripts.dashboards.model import DATASOURCE, Dashboard, as_grafana, metrics_in
from scripts.deploy_files import DEPLOY
from scripts.metrics_list import of_a_node, of_a_replica

OF_PROMETHEUS = {"up", "scrape_duration_seconds"}
OF_EACH_PROCESS = {
    "process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds",
}  # fmt: skip
each = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda one: str(one.uid))


@each
def test_the_file_is_current(dashboard: Dashboard) -> None:
    """scripts/fix writes it."""
    assert (FOLDER / f"{dashboard.uid}.json").read_text() == text_of(dashboard)


def test_kubernetes_gets_the_same_alerts() -> None:
    """The object is generated from the rules, and kustomize applies it."""
    rules = yaml.safe_load((DEPLOY / "observability/alerts.yml").read_text())
    made = yaml.safe_load((DEPLOY / "k8s/prometheusrule.yaml").read_text())
    assert made["kind"] == "PrometheusRule"
    assert made["spec"] == rules
    listed = yaml.safe_load((DEPLOY / "k8s/kustomization.yaml").read_text())["resources"]
    assert "prometheusrule.yaml" in listed


@each
def test_each_query_asks_for_numbers_that_are_served(dashboard: Dashboard) -> None:
    """Under names that Prometheus stores, endings and all."""
    served = {name for number in (*of_a_replica(), *of_a_node()) for name in number.series}
    asked = {
        name
        for panel in dashboard.panels
        for query in panel.queries
        for name in metrics_in(query.expr)
    }
    assert asked - OF_PROMETHEUS - OF_EACH_PROCESS <= served
    assert asked


@each
def test_no_two_panels_share_a_place(dashboard: Dashboard) -> None:
    """Nor does one stand beside the grid of 24 columns."""
    taken: set[tuple[int, int]] = set()
    panels: Any = as_grafana(dashboard)["panels"]
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_grafana_finds_source_and_folder_where_compose_puts_them() -> None:
    """Data source by its uid, the dashboards by the folder that is mounted."""
    source = yaml.safe_load((DEPLOY / "grafana/datasources/prometheus.yml").read_text())
    assert source["datasources"][0]["uid"] == DATASOURCE["uid"]
    provider = yaml.safe_load((DEPLOY / "grafana/dashboards/greenroom.yml").read_text())
    folder = provider["providers"][0]["options"]["path"]
    mounts = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["grafana"]["volumes"]
    assert f"./observability/dashboards:{folder}:ro" in mounts


@each
def test_a_dashboard_is_json_that_grafana_can_import(dashboard: Dashboard) -> None:
    """Links between the four go by their common tag."""
    told = json.loads(text_of(dashboard))
    assert told["tags"] == ["greenroom"]
    assert told["uid"] == dashboard.uid
    assert {target["datasource"]["uid"] for panel in told["panels"] if panel["type"] != "row"
            for target in panel["targets"]} == {DATASOURCE["uid"]}  # fmt: skip
