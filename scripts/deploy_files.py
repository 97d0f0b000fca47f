"""Would the servers that the files in deploy/ are for accept them?

Each file is given to its own server's checker, in a copy where names that only exist in a
deployment stand for this machine, with a certificate made for the moment. A checker that isn't
here is said to be skipped, and how to get it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import kubernetes_validate
import yaml

from shared.embedded.livekit_build import cached_program

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
ALERT_TESTS = DEPLOY.parent / "tests/observability/alerts.yml"
KUBERNETES = "1.33"
_FOREIGN_GROUPS = ("keda.sh/", "monitoring.coreos.com/", "kustomize.config.k8s.io/")
"""Their schemas belong to operators, and aren't part of Kubernetes."""
_WORDS = {"PUBLIC_IP": "127.0.0.1"}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TELL_LINES = 8

Finding = tuple[str, str]
"""What was checked, and what is wrong with it; a text that begins with "skipped" is no fault."""


def findings(deploy: Path, folder: Path, only: str = "") -> Iterator[Finding]:
    """Yield what each checker says, or *only* one; an empty text: all is well."""
    make_certificate(folder)
    for check in (
        nginx, haproxy, prometheus, livekit, systemd, kubernetes, kustomize, compose,
    ):  # fmt: skip
        if only in ("", check.__name__):
            yield check.__name__, check(deploy, folder)


def make_certificate(folder: Path) -> None:
    """Make what TLS needs, as the files name it; without openssl the checkers will say so."""
    names = ("-keyout", str(folder / "privkey.pem"), "-out", str(folder / "fullchain.pem"))
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    if shutil.which("openssl"):
        command = ["openssl", "req", "-x509", *kind, "-days", "1", "-subj", "/CN=check", *names]
        subprocess.run(command, check=True, capture_output=True)


def nginx(deploy: Path, folder: Path) -> str:
    """Check the plain proxy with both of its TLS files in their places."""
    for name, place in (("nginx-tls", "greenroom-server.d"), ("nginx-livekit", "greenroom-http.d")):
        (folder / place).mkdir()
        (folder / place / f"{name}.conf").write_text(here(deploy / f"{name}.conf", folder))
    config = folder / "nginx.conf"
    config.write_text(here(deploy / "nginx.conf", folder))
    return told(("nginx", "-t", "-q", "-c", str(config)), package="nginx-light")


def haproxy(deploy: Path, folder: Path) -> str:
    """Check the other proxy."""
    config = folder / "haproxy.cfg"
    config.write_text(here(deploy / "haproxy.cfg", folder))
    return told(("haproxy", "-c", "-q", "-f", str(config)), package="haproxy")


def prometheus(deploy: Path, folder: Path) -> str:
    """Check targets, alerts and their tests, and that the autoscaler's question is one."""
    scaler = yaml.safe_load((deploy / "k8s/scaledobject.yaml").read_text())
    query = scaler["spec"]["triggers"][0]["metadata"]["query"]
    rules = folder / "scaler.yml"
    asked = {"record": "nodes", "expr": query}
    rules.write_text(yaml.safe_dump({"groups": [{"name": "scaler", "rules": [asked]}]}))
    observability = folder / "observability"
    shutil.copytree(deploy / "observability", observability)
    (folder / "metrics-key").touch()
    config = observability / "prometheus.yml"
    config.write_text(here(config, folder))
    for asked_of in (
        ("check", "config", str(config)),
        ("check", "rules", str(rules)),
        ("test", "rules", str(ALERT_TESTS)),
    ):
        if wrong := told(("promtool", *asked_of), package="prometheus"):
            return wrong
    return ""


def livekit(deploy: Path, folder: Path) -> str:
    """LiveKit refuses to start on a key that it doesn't know; ``ports`` reads the file and ends."""
    program = shutil.which("livekit-server") or str(cached_program())
    compose = yaml.safe_load((deploy / "compose.yaml").read_text())
    inline = compose["services"]["livekit"]["environment"]["LIVEKIT_CONFIG"]
    texts = {
        "livekit.yaml": here(deploy / "livekit.yaml", folder),
        "compose.yaml": filled_in(inline),
    }
    for name, text in texts.items():
        config = folder / f"of-{name}"
        # Looking for a public address needs a way out, which a checker shouldn't.
        config.write_text(text.replace("use_external_ip: true", "use_external_ip: false"))
        asked = (program, "ports", "--config", str(config), "--node-ip", "127.0.0.1")
        if wrong := told(asked, package="scripts/livekit/build", fine="TCP Ports.+"):
            return wrong if wrong.startswith("skipped") else f"{name}: {wrong}"
    return ""


def systemd(deploy: Path, folder: Path) -> str:
    """Check the units with a program that is here."""
    units = folder / "units"
    units.mkdir()
    for unit in (deploy / "systemd").glob("*.service"):
        text = unit.read_text().replace("/opt/greenroom/bin/greenroom", "/bin/true")
        (units / unit.name).write_text(text)
    paths = sorted(map(str, units.iterdir()))
    return told(("systemd-analyze", "verify", "--man=no", *paths), package="systemd", fine=r"\s*")


def kubernetes(deploy: Path, _folder: Path) -> str:
    """Check each object against the schema of its kind."""
    wrong = []
    for path in sorted((deploy / "k8s").glob("*.yaml")):
        for item in yaml.safe_load_all(path.read_text()):
            if item["apiVersion"].startswith(_FOREIGN_GROUPS):
                continue
            try:
                kubernetes_validate.validate(item, KUBERNETES, strict=True)
            except kubernetes_validate.ValidationError as error:
                place = ".".join(map(str, error.path))
                wrong.append(f"{path.name}: {item['kind']} at {place}: {error.message}")
    return "\n".join(wrong)


def kustomize(deploy: Path, _folder: Path) -> str:
    """Put the objects together as ``kubectl apply -k`` does."""
    for command in (("kustomize", "build"), ("kubectl", "kustomize")):
        if shutil.which(command[0], path=_PATH):
            return told((*command, str(deploy / "k8s")), package=command[0])
    return "skipped, there is neither kustomize nor kubectl"


def compose(deploy: Path, folder: Path) -> str:
    """Read the file as Compose does, with every word of its example filled in."""
    asked = ("docker", "compose")
    if told((*asked, "version"), package="docker"):
        return "skipped, there is no docker compose (docker-compose-plugin)"
    example = (deploy / "compose.env.example").read_text()
    words = folder / "compose.env"
    words.write_text(re.sub(r"^(\w+)=$", r"\1=a-word", example, flags=re.MULTILINE))
    file = ("--file", str(deploy / "compose.yaml"), "--env-file", str(words))
    return told((*asked, *file, "config", "--quiet"), package="docker")


def here(path: Path, folder: Path, ports: Mapping[str, int] | None = None) -> str:
    """Return a file's text with addresses and folders that this machine has.

    Args:
        path: The file.
        folder: Stands for all folders that it names.
        ports: Where its neighbours listen, by name; left out: on the ports that it names.
    """
    listening = ports or {}
    text = path.read_text().replace("/tmp/", f"{folder}/")  # noqa: S108 - what the file says
    text = re.sub(
        r"\b(replica-\d|livekit|node):(\d+)",
        lambda found: f"127.0.0.1:{listening.get(found[1], found[2])}",
        text,
    )
    text = text.replace("/etc/nginx/greenroom-", f"{folder}/greenroom-")
    return re.sub(r"/etc/greenroom(/tls)?\b", str(folder), text)


def filled_in(text: str) -> str:
    """Return what Compose makes of ``${NAME:-default}`` and ``${NAME:?sentence}``."""
    return re.sub(r"\$\{(\w+)[^}]*\}", lambda found: _WORDS.get(found[1], "a-secret"), text)


def told(command: tuple[str, ...], *, package: str, fine: str = "") -> str:
    """Run a checker; returns what it finds. *fine*: what all of its output is like if all is well.

    Some end with status 0 whatever they have found.
    """
    if shutil.which(command[0], path=_PATH) is None:
        return f"skipped, there is no {command[0]} ({package})"
    done = subprocess.run(
        command,
        env={"PATH": _PATH, "HOME": "/nonexistent"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode or (fine and not re.fullmatch(fine, done.stdout, re.DOTALL)):
        return "\n".join(done.stdout.splitlines()[-_TELL_LINES:]) or f"status {done.returncode}"
    return ""


def main() -> int:
    """Check all; returns 1 if a checker found something."""
    failed = False
    with tempfile.TemporaryDirectory(prefix="greenroom-deploy-") as name:
        for what, text in findings(DEPLOY, Path(name)):
            failed = failed or (bool(text) and not text.startswith("skipped"))
            if text:
                sys.stdout.write(f"{what}: {text}\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
