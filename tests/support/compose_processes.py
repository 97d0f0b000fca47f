"""How is the topology of deploy/compose.yaml run as plain processes of this machine?

`Topology` starts each service with the command, the variables, the mounted files and the health
check that the file gives it, in the order of what needs what. Only what a container would supply
is translated: its name and port become 127.0.0.1 and a free one, its paths a folder, its image
the program that is installed here. What isn't installed is left out and named.
"""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from scripts.deploy_files import DEPLOY, here
from shared.embedded.ports import free_port
from tests.support.all_in_one import GREENROOM, clean_environment
from tests.support.compose_file import Service, services
from tests.support.livekit_server import livekit_binary
from tests.support.wait import scaled_s, wait_until_sync

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_UP_S = 90.0
_LOOPBACK = """\
bind_addresses: ["127.0.0.1"]
rtc:
  enable_loopback_candidate: true
  interfaces: {includes: [lo]}
"""
"""What LiveKit needs on a machine that it shares with its clients, and not in a container."""
_FOREIGN = {
    "redis": "redis-server",
    "livekit/livekit-server": "livekit-server",
    "coturn/coturn": "turnserver",
    "nginx": "nginx",
    "prom/prometheus": "prometheus",
    "grafana/grafana": "grafana",
}
"""The program of each image that isn't ours."""
_MORE: Mapping[str, tuple[str, ...]] = {
    "redis": ("--port", "6379", "--bind", "127.0.0.1"),
    "turn": ("--listening-ip=127.0.0.1", "--relay-ip=127.0.0.1", "--allow-loopback-peers"),
    "prometheus": ("--web.listen-address=127.0.0.1:9090",),
}
"""Options without which they would listen to everybody, or on the port of a container's own."""

_MAIN_PORTS = frozenset((8088, 7880))
"""Of replicas and of LiveKit, as the proxy's file names them."""


class Topology:
    """All services that this machine can run."""

    def __init__(self, folder: Path, words: Mapping[str, str]) -> None:
        self._folder = folder
        self.services = services(words)
        self.left_out = {
            name: f"there is no {program}"
            for name, service in self.services.items()
            if (program := _FOREIGN.get(_name_of(service.image)))
            and program != "livekit-server"
            and shutil.which(program, path=_PATH) is None
        }
        self._ports = self._free_ports()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        for name in self.services:
            (folder / name).mkdir()

    def port(self, service: str, port: int) -> int:
        """Return where this machine has a service's port."""
        return self._ports[service, port]

    def log(self, service: str) -> str:
        """Return what a service has printed."""
        return (self._folder / service / "log").read_text(errors="replace")

    def start(self) -> None:
        """Start all, each when what it needs is there; return when all that is checked is well."""
        waiting = [name for name in self.services if name not in self.left_out]
        while waiting:
            name = next(one for one in waiting if not set(self.services[one].needs) & {*waiting})
            waiting.remove(name)
            for needed, condition in self.services[name].needs.items():
                self._await(needed, condition)
            self._start(self.services[name])
        for name in self._processes:
            if self.services[name].health:
                self._await(name, "service_healthy")

    def stop(self) -> dict[str, int]:
        """Ask all to stop, the last one first; returns the status of each.

        Raises:
            subprocess.TimeoutExpired: One takes longer than Compose would let it.
        """
        statuses = {}
        for name, process in reversed(self._processes.items()):
            process.send_signal(signal.SIGTERM)
            if self.services[name].image.startswith("livekit/"):
                process.send_signal(signal.SIGTERM)
            statuses[name] = process.wait(scaled_s(self.services[name].grace_s))
        return statuses

    def close(self) -> None:
        """Leave nothing running."""
        for process in self._processes.values():
            process.kill()
            process.wait()

    # --- one service ----------------------------------------------------------------------------

    def _start(self, service: Service) -> None:
        variables = {
            name: self._text(value, service) for name, value in service.environment.items()
        }
        if "LIVEKIT_CONFIG" in variables:
            variables["LIVEKIT_CONFIG"] = _merged(variables["LIVEKIT_CONFIG"])
        if service.name == "redis":
            data = self._folder / service.name
            variables |= {"REDIS_DATA_DIR": str(data), "REDIS_USERS_FILE": str(data / "users.acl")}
        with (self._folder / service.name / "log").open("wb") as log:
            self._processes[service.name] = subprocess.Popen(
                self._argv(service),
                cwd=self._folder / service.name,
                env=clean_environment(**{**variables, "PATH": f"{GREENROOM.parent}:{_PATH}"}),
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _argv(self, service: Service) -> list[str]:
        more = _MORE.get(service.name, ())
        words = [self._text(word, service) for word in (*service.command, *more)]
        program = _FOREIGN.get(_name_of(service.image), "")
        match program:
            case "livekit-server":
                return [str(livekit_binary()), *words]
            case "nginx":
                config = self._config("/etc/nginx/nginx.conf", service)
                return [_found(program), "-g", "daemon off; master_process off;", "-c", config]
            case "turnserver" | "prometheus":
                return [_found(program), *words]
            case _:
                return words

    def _config(self, path: str, service: Service) -> str:
        """Return where the translated copy of a mounted file lies."""
        folder = self._folder / service.name
        tcp = {name: local for (name, port), local in self._ports.items() if port in _MAIN_PORTS}
        text = here(DEPLOY / service.mounts[path], folder, tcp)
        copy = folder / Path(path).name
        copy.write_text(self._text(text, service))
        return str(copy)

    def _await(self, name: str, condition: str) -> None:
        process, service = self._processes[name], self.services[name]
        if condition == "service_completed_successfully":
            assert process.wait(scaled_s(_UP_S)) == 0, self.log(name)
        elif condition == "service_healthy":

            def is_well() -> bool:
                assert process.poll() is None, f"{name} ended:\n{self.log(name)}"
                return self._is_well(service)

            wait_until_sync(is_well, f"{name} is healthy by its own check", _UP_S)

    def _is_well(self, service: Service) -> bool:
        kind, *words = service.health
        command = [self._text(word, service) for word in words]
        done = subprocess.run(
            ["sh", "-c", *command] if kind == "CMD-SHELL" else command,
            env=clean_environment(**{**service.environment, "PATH": f"{GREENROOM.parent}:{_PATH}"}),
            capture_output=True,
            check=False,
        )
        return done.returncode == 0

    # --- from a container to this machine -------------------------------------------------------

    def _text(self, text: str, service: Service) -> str:
        """Return a text of a service's with this machine's names, ports and paths."""
        for path, source in sorted(service.mounts.items(), reverse=True):
            place = self._place(source, service)
            text = re.sub(rf"(?<![\w/.-]){re.escape(path)}(?![\w.-])", place, text)
        text = re.sub(r"\b([a-z][a-z0-9-]*):(\d{4,5})\b", self._address, text)
        own = {port: local for (name, port), local in self._ports.items() if name == service.name}
        theirs = {
            outer: self._ports[name, inner]
            for name, other in self.services.items()
            for outer, inner in other.published.items()
        }
        numbers = {str(port): str(local) for port, local in {**theirs, **own}.items()}
        kept = {str(port) for port in self._ports.values()}
        return re.sub(
            r"(?<![\w.])\d{4,5}(?![\w.])",
            lambda found: found[0] if found[0] in kept else numbers.get(found[0], found[0]),
            re.sub(r"(?<![\w.])0\.0\.0\.0(?![\w.])", "127.0.0.1", text),
        )

    def _address(self, found: re.Match[str]) -> str:
        local = self._ports.get((found[1], int(found[2])))
        return found[0] if local is None else f"127.0.0.1:{local}"

    def _place(self, source: str, service: Service) -> str:
        if not source.startswith("."):
            volume = self._folder / "volumes" / source.replace(" ", "-")
            volume.mkdir(parents=True, exist_ok=True)
            return str(volume)
        if not (DEPLOY / source).is_dir() or service.name != "prometheus":
            return str(DEPLOY / source)
        copy = self._folder / service.name / Path(source).name
        if not copy.exists():
            shutil.copytree(DEPLOY / source, copy)
            config = copy / "prometheus.yml"
            config.write_text(self._text(config.read_text(), service))
        return str(copy)

    def _free_ports(self) -> dict[tuple[str, int], int]:
        """Choose a port for each that a service has, or that another one asks for."""
        wanted = {
            (name, port): kind
            for name, service in self.services.items()
            for port, kind in sorted(service.ports)
        }
        mounted = "\n".join(
            path.read_text() for path in DEPLOY.rglob("*.*") if path.suffix in {".conf", ".yml"}
        )
        said = mounted + "\n".join(
            value for service in self.services.values() for value in service.environment.values()
        )
        for name, port in re.findall(r"\b([a-z][a-z0-9-]*):(\d{4,5})\b", said):
            if name in self.services:
                wanted.setdefault((name, int(port)), "tcp")
        taken: dict[tuple[str, int], int] = {}
        for key, kind in wanted.items():
            sort = socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM
            taken[key] = free_port(sort, avoid=frozenset(taken.values()))
        return taken


def _merged(config: str) -> str:
    """Put what a container has no need of into LiveKit's configuration."""
    top, rtc = _LOOPBACK.split("rtc:\n")
    return top + config.replace("rtc:\n", f"rtc:\n{rtc}", 1)


def _name_of(image: str) -> str:
    return image.split(":", maxsplit=1)[0]


def _found(program: str) -> str:
    return shutil.which(program, path=_PATH) or program
