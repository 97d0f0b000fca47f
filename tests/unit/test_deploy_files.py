"""Do the files in deploy/ speak of what there is: options, metrics, alerts, files, each other?

That their servers accept them is what `scripts.deploy_files` asks; that it notices is tested here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
import yaml

import gpu_node.metrics  # noqa: F401 - makes the instruments of a node
from control_plane.metrics import Metrics
from control_plane.settings import ReplicaSettings
from gpu_node.settings import NodeSettings
from scripts import deploy_files
from shared.settings import variable_of

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
README = (DEPLOY / "README.md").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
SERVICE_KEYS = {
    "build", "cap_drop", "command", "depends_on", "entrypoint", "environment", "healthcheck",
    "image", "networks", "ports", "read_only", "restart", "security_opt", "stop_grace_period",
    "tmpfs", "user", "volumes",
}  # fmt: skip
"""What is used of Compose's own words; one that isn't here is misspelt, or is added here."""


def texts() -> Iterator[tuple[Path, str]]:
    """Yield every file in deploy/ with its text."""
    for path in sorted(DEPLOY.rglob("*")):
        if path.is_file():
            yield path, path.read_text()


def objects() -> list[dict[str, Any]]:
    """Return all objects for Kubernetes."""
    paths = sorted((DEPLOY / "k8s").glob("*.yaml"))
    return [item for path in paths for item in yaml.safe_load_all(path.read_text())]


def workload(name: str) -> dict[str, Any]:
    """Return the pod of one Deployment."""
    deployments = (item for item in objects() if item["kind"] == "Deployment")
    (found,) = (item for item in deployments if item["metadata"]["name"] == name)
    pod: dict[str, Any] = found["spec"]["template"]["spec"]
    return pod


def test_every_alert_has_its_section_in_the_runbook() -> None:
    """Whoever is paged finds the name; no section is left over from an alert that is gone."""
    rules = yaml.safe_load((DEPLOY / "observability/alerts.yml").read_text())
    alerts = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    runbook = README.split("\n## Runbook\n", 1)[1].split("\n## ", 1)[0]
    sections = dict(
        re.findall(r"^### (\w+)\n\n(.+?)(?=\n### |\Z)", runbook, re.DOTALL | re.MULTILINE)
    )
    assert sorted(sections) == sorted(alerts)
    assert [name for name, text in sections.items() if "\n1. " not in text] == []


def test_every_file_has_its_situation() -> None:
    """The page names each file, or its folder."""
    paths = [path.relative_to(DEPLOY) for path, _ in texts() if path.suffix != ".dockerignore"]
    unnamed = [
        str(path)
        for path in paths
        if f"`{path}`" not in README and f"`{path.parent}/`" not in README
    ]
    assert unnamed == ["README.md"]


def test_every_option_that_is_set_exists() -> None:
    """A misspelt variable would be ignored in silence."""
    fields = {*ReplicaSettings.model_fields, *NodeSettings.model_fields}
    known = {variable_of(field) for field in fields}
    named = {(p.name, n) for p, text in texts() for n in re.findall(r"\bGREENROOM_[A-Z_]+\b", text)}
    ours = {(path, name) for path, name in named if name != "GREENROOM_SHA256"}
    assert {(path, name) for path, name in ours if name not in known} == set()


def test_every_metric_that_is_asked_for_exists() -> None:
    """Alerts, the autoscaler and the pages ask for what replicas and nodes serve."""
    served = (
        Metrics().render((), redis_up=True, livekit_up=True) + prometheus_client.generate_latest()
    )
    names = set(re.findall(r"^# HELP (\w+) ", served.decode(), re.MULTILINE))
    histograms = re.findall(r"^# TYPE (\w+) histogram", served.decode(), re.MULTILINE)
    names |= {name + end for name in histograms for end in ("_bucket", "_count", "_sum")}
    asked = {
        name
        for path, text in texts()
        if path.name in {"alerts.yml", "scaledobject.yaml", "README.md"}
        for name in re.findall(r"\bgreenroom_[a-z_]+\b", text)
    }
    assert asked - names == set()


def test_compose_names_only_what_it_has() -> None:
    """Services that wait for services, mounted files, volumes, networks, secrets of the example."""
    for name, service in SERVICES.items():
        assert set(service.get("depends_on", ())) <= set(SERVICES), name
        assert set(service["networks"]) <= set(COMPOSE["networks"]), name
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            exists = (DEPLOY / source).exists() if source.startswith(".") else True
            assert exists, (name, mount)
            assert source.startswith(".") or source in COMPOSE["volumes"], (name, mount)
        if "build" in service:
            assert (DEPLOY.parent / service["build"]["dockerfile"]).is_file()
    text = (DEPLOY / "compose.yaml").read_text()
    example = (DEPLOY / "compose.env.example").read_text()
    assert set(re.findall(r"\$\{(\w+)", text)) == set(re.findall(r"^(\w+)=", example, re.MULTILINE))
    required = re.findall(r"^(\w+)=$", example, re.MULTILINE)
    assert [name for name in required if re.search(rf"\${{{name}(?!:\?)", text)] == []


def test_compose_is_written_in_the_words_of_compose() -> None:
    """No engine is needed to see a misspelt key; extensions begin with x-."""
    assert {key for key in COMPOSE if not key.startswith("x-")} == {
        "name", "networks", "services", "volumes",
    }  # fmt: skip
    for name, service in SERVICES.items():
        assert set(service) <= SERVICE_KEYS, name
        conditions = {how["condition"] for how in service.get("depends_on", {}).values()}
        known = {"service_started", "service_healthy", "service_completed_successfully"}
        assert conditions <= known, name
        ends = any(
            other.get("depends_on", {}).get(name, {}).get("condition")
            == "service_completed_successfully"
            for other in SERVICES.values()
        )
        assert service["restart"] == ("on-failure" if ends else "unless-stopped"), name


def test_prometheus_knows_the_options_that_compose_gives_it() -> None:
    """As the program says itself, where it's installed."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus isn't installed")
    told = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    for option in SERVICES["prometheus"]["command"]:
        assert option.split("=")[0] in told.stdout + told.stderr


def test_what_waits_for_health_is_given_a_check() -> None:
    """In Compose, or in the image that is built."""
    for name, service in SERVICES.items():
        for needed, how in service.get("depends_on", {}).items():
            other = SERVICES[needed]
            if how["condition"] == "service_healthy" and "healthcheck" not in other:
                image = (DEPLOY.parent / other["build"]["dockerfile"]).read_text()
                assert "\nHEALTHCHECK " in image, (name, needed)


def test_proxies_and_prometheus_look_for_the_services_of_compose() -> None:
    """The same names and ports in all files."""
    replicas = {f"{name}:8088" for name in SERVICES if name.startswith("replica-")}
    for name in ("nginx.conf", "haproxy.cfg"):
        found = re.findall(r"replica-\d:\d+", (DEPLOY / name).read_text())
        assert set(found) == replicas, name
    config = yaml.safe_load((DEPLOY / "observability/prometheus.yml").read_text())
    targets = [
        target
        for job in config["scrape_configs"]
        for group in job["static_configs"]
        for target in group["targets"]
    ]
    assert replicas < set(targets)
    assert {target.split(":")[0] for target in targets} <= set(SERVICES)


def test_nothing_but_media_is_published_to_other_machines() -> None:
    """Keys mustn't travel without TLS, so pages and numbers are for this machine alone."""
    for name, service in SERVICES.items():
        for port in service.get("ports", ()):
            assert name in {"livekit", "turn"} or port.startswith("127.0.0.1:"), (name, port)


def test_no_file_leaves_replicas_open() -> None:
    """Compose and Kubernetes give all of them one admin key, by reference; nothing says no-auth."""
    said = [str(path) for path, text in texts() if "NO_AUTH" in text or "no-auth" in text]
    assert [path for path in said if not path.endswith("README.md")] == []
    for name in ("replica-1", "replica-2"):
        given = SERVICES[name]["environment"]["GREENROOM_ADMIN_KEY"]
        assert given.startswith("${GREENROOM_ADMIN_KEY:?"), name
    secrets = {item["metadata"]["name"]: item for item in objects() if item["kind"] == "Secret"}
    assert "GREENROOM_ADMIN_KEY" in secrets["greenroom"]["stringData"]
    (container,) = workload("replica")["containers"]
    assert {"secretRef": {"name": "greenroom"}} in container["envFrom"]
    (monitor,) = (item for item in objects() if item["kind"] == "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"]["name"] in secrets


def test_images_run_as_nobody_special_and_from_what_there_is() -> None:
    """No root at the end, a health check, and no copied path that is missing."""
    for name in ("Dockerfile.replica", "Dockerfile.node"):
        text = (DEPLOY / name).read_text()
        last = text.rsplit("\nFROM ", 1)[1]
        assert "\nUSER 10001\n" in last, name
        assert "\nHEALTHCHECK " in last, name
        for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
            for source in line.split()[:-1]:
                assert (DEPLOY.parent / source).exists(), (name, source)
        ignored = (DEPLOY / f"{name}.dockerignore").read_text()
        kept = re.findall(r"^!(\S+)$", ignored, re.MULTILINE)
        copied = {
            source.split("/")[0]
            for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE)
            for source in line.split()[:-1]
        }
        assert copied <= set(kept), name


def test_kubernetes_waits_longer_than_a_node_drains() -> None:
    """Whoever is killed before its grace is over loses sessions that would have been given back."""
    options = dict(line.split("=") for line in (DEPLOY / "k8s/options.env").read_text().split())
    grace_s = int(options["GREENROOM_DRAIN_GRACE_S"])
    assert workload("node")["terminationGracePeriodSeconds"] >= grace_s + 30
    assert workload("replica")["terminationGracePeriodSeconds"] >= 5 + 12 + 5


def test_kubernetes_points_at_what_it_has() -> None:
    """Selectors meet labels, files are listed, ports have names, scalers find their targets."""
    found = objects()
    labels = {
        item["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"]
        for item in found
        if item["kind"] == "Deployment"
    }
    selected = [
        str(name)
        for path in (DEPLOY / "k8s").glob("*.yaml")
        for name in re.findall(r"app\.kubernetes\.io/name: (\S+)", path.read_text())
    ]
    assert set(selected) == labels == {"greenroom-replica", "greenroom-node"}
    (listed,) = (item["resources"] for item in found if item["kind"] == "Kustomization")
    files = {path.name for path in (DEPLOY / "k8s").glob("*.yaml")}
    assert files - set(listed) == {"kustomization.yaml", "secret.example.yaml"}
    for name, image in (("replica", "replica"), ("node", "node")):
        (container,) = workload(name)["containers"]
        assert container["image"] == f"greenroom-{image}"
        probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness")]
        assert {probe["port"] for probe in probes} <= {p["name"] for p in container["ports"]}
    scaled = [item.get("spec", {}).get("scaleTargetRef") for item in found]
    targets = {target["name"] for target in scaled if target}
    assert targets == {"replica", "node"}


def test_what_watches_and_guards_the_pods_finds_them() -> None:
    """Monitors and policies select labels that there are, and name ports that are open there."""
    found = objects()
    named = (
        {"app.kubernetes.io/name": "greenroom-replica"},
        {"app.kubernetes.io/name": "greenroom-node"},
    )
    opened = {
        f"greenroom-{name}": {port["name"] for port in workload(name)["containers"][0]["ports"]}
        for name in ("replica", "node")
    }
    (service,) = (item for item in found if item["kind"] == "Service")
    assert "sessionAffinity" not in service["spec"]
    assert service["metadata"]["labels"] in named
    watched: dict[str, set[str]] = {}
    for item in found:
        spec = item.get("spec", {})
        match item["kind"]:
            case "ServiceMonitor" | "PodMonitor":
                labels = spec["selector"]["matchLabels"]
                ends = spec.get("endpoints") or spec["podMetricsEndpoints"]
                asked = {end["port"] for end in ends}
                assert {end["path"] for end in ends} == {"/metrics"}
            case "NetworkPolicy":
                labels = spec["podSelector"]["matchLabels"]
                assert spec["policyTypes"] == ["Ingress"]
                asked = {port["port"] for rule in spec["ingress"] for port in rule["ports"]}
            case "PodDisruptionBudget":
                labels, asked = spec["selector"]["matchLabels"], set()
            case _:
                continue
        assert labels in named, item["kind"]
        name = labels["app.kubernetes.io/name"]
        assert asked <= opened[name], item["kind"]
        watched.setdefault(name, set()).add(item["kind"])
    assert watched == {
        "greenroom-replica": {"ServiceMonitor", "NetworkPolicy", "PodDisruptionBudget"},
        "greenroom-node": {"PodMonitor", "NetworkPolicy", "PodDisruptionBudget"},
    }


def test_nodes_are_scaled_by_all_who_want_a_slot() -> None:
    """(Waiting + resident) / slots of one node, from one replica's numbers; never below one."""
    (scaled,) = (item for item in objects() if item["kind"] == "ScaledObject")
    spec = scaled["spec"]
    assert 0 < spec["minReplicaCount"] <= spec["fallback"]["replicas"] <= spec["maxReplicaCount"]
    (trigger,) = spec["triggers"]
    assert (trigger["type"], trigger["metricType"]) == ("prometheus", "AverageValue")
    assert set(trigger["metadata"]) == {"serverAddress", "query", "threshold"}
    assert float(trigger["metadata"]["threshold"]) > 0
    query = " ".join(trigger["metadata"]["query"].split())
    assert "greenroom_queue_depth" in query
    assert 'kind="used"' in query
    assert query.count("max(") == 2, "each replica tells the same, so a sum would count it twice"


def test_the_unit_of_nodes_signals_the_parent_alone() -> None:
    """With systemd's default each node would hear SIGTERM twice, and the second one means now."""
    unit = (DEPLOY / "systemd/greenroom-node.service").read_text()
    assert "\nKillMode=mixed\n" in unit


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of deploy/ to plant a fault in."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    return tmp_path / "deploy"


@pytest.mark.parametrize(
    ("what", "file", "good", "bad"),
    [
        ("nginx", "nginx.conf", "proxy_buffering off;", "proxy_bufering off;"),
        ("nginx", "nginx-tls.conf", "ssl_protocols", "ssl_protocol"),
        ("haproxy", "haproxy.cfg", "option redispatch", "option redispach"),
        ("prometheus", "k8s/scaledobject.yaml", "max(greenroom_q", "max((greenroom_q"),
        ("prometheus", "observability/prometheus.yml", "rule_files", "rules_files"),
        ("livekit", "livekit.yaml", "tcp_port", "tpc_port"),
        ("livekit", "compose.yaml", "turn_servers", "turn_server"),
        ("systemd", "systemd/greenroom-node.service", "KillMode=mixed", "KillMode=mixt"),
        ("kubernetes", "k8s/nodes.yaml", "runAsNonRoot", "runAsNonroot"),
        ("kustomize", "k8s/kustomization.yaml", "- scaledobject.yaml", "- scaledobjekt.yaml"),
        ("compose", "compose.yaml", "depends_on:", "depend_on:"),
    ],
)
def test_a_planted_fault_is_found(
    copy: Path, tmp_path: Path, what: str, file: str, good: str, bad: str
) -> None:
    """Each checker looks at its files; where it isn't installed there is nothing to find."""
    path = copy / file
    assert good in path.read_text()
    path.write_text(path.read_text().replace(good, bad, 1))
    found = dict(deploy_files.findings(copy, tmp_path, only=what))[what]
    if found.startswith("skipped"):
        pytest.skip(found)
    assert found
