"""Is there a Docker engine that tests may start containers on?

``python -m tests.support.docker_engine`` prints why not, and ends with 1, where there is none.
"""

from __future__ import annotations

import functools
import subprocess
import sys

import docker
from docker.errors import DockerException


@functools.cache
def why_not() -> str:
    """Return why no container can be started here; empty: one can.

    Asked in a process of its own, since Docker's library leaves connections open that fail.
    """
    command = [sys.executable, "-m", "tests.support.docker_engine"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _ask() -> str:
    try:
        docker.from_env(timeout=5).ping()
    except DockerException:
        return "no Docker engine answers (docker info says more)"
    return ""


if __name__ == "__main__":
    reason = _ask()
    sys.stdout.write(f"{reason}\n" if reason else "")
    sys.exit(bool(reason))
