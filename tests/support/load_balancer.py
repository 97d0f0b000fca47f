"""How does a test or a chaos run stand behind the load balancers that operators are given?

The real program with the shipped file, in which names and ports are those of this machine. The
files know two replicas; a third one gets a line like the second's.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.deploy_files import DEPLOY, here

PROGRAMS = ("nginx", "haproxy")
_FILES = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}
_PATH = "/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin"
_ALONE = {"nginx": ("-g", "daemon off; master_process off;", "-c"), "haproxy": ("-db", "-f")}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBalancer:
    """One of the two, ready to be started."""

    name: str
    argv: tuple[str, ...]
    port: int

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run it for the length of the block; it may still be starting when that begins."""
        process = subprocess.Popen(self.argv, stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.kill()
            process.wait()


def is_installed(name: str) -> bool:
    """Tell whether the program is there."""
    return shutil.which(name, path=_PATH) is not None


def load_balancer(
    name: str,
    folder: Path,
    port: int,
    replicas: Sequence[int],
    changes: Mapping[str, str] | None = None,
) -> LoadBalancer:
    """Write its file and return it.

    Args:
        name: Of `PROGRAMS`.
        folder: For its files.
        port: Where it listens, on loopback.
        replicas: The ports of at least two replicas.
        changes: What is to stand in the file instead of what.
    """
    ports = {f"replica-{number}": port for number, port in enumerate(replicas, 1)}
    shipped = (DEPLOY / _FILES[name]).read_text()
    further = range(3, len(replicas) + 1)
    for old, new in (changes or {}).items():
        shipped = shipped.replace(old, new)
    (folder / f"shipped-{_FILES[name]}").write_text(
        re.sub(
            r"^ *server replica-2 ?.*\n",
            lambda line: line[0] + "".join(line[0].replace("-2", f"-{n}") for n in further),
            shipped,
            flags=re.MULTILINE,
        )
    )
    text = here(folder / f"shipped-{_FILES[name]}", folder, ports=ports)
    text = text.replace("listen 8080", f"listen 127.0.0.1:{port}")
    text = text.replace("bind :8080", f"bind 127.0.0.1:{port}")
    text = text.replace("maxconn 20000", "maxconn 400")  # a test may open few descriptors
    config = folder / _FILES[name]
    config.write_text(text)
    program = shutil.which(name, path=_PATH) or name
    return LoadBalancer(name=name, argv=(program, *_ALONE[name], str(config)), port=port)
