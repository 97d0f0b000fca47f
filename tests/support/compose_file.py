"""What does deploy/compose.yaml say about each of its services, with nothing left open? Pure.

The file is read as Compose reads it: its ``.env`` filled in, its ``${…}`` replaced, and what a
service leaves to its image taken from our own Dockerfile. So what follows from it can be started
without an engine (`tests.support.compose_processes`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from scripts.deploy_files import DEPLOY

Words = dict[str, str]
_MISSING = re.compile(r"\$\{(\w+)(?:(:[?-])([^}]*))?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One service, as a container of it would be run."""

    name: str
    image: str
    command: tuple[str, ...]
    """Entry point and command together; empty: what a foreign image does by itself."""
    environment: Words
    health: tuple[str, ...]
    """The check's command; ``CMD-SHELL`` first: for a shell. Empty: there is none."""
    needs: Words
    """Condition by service."""
    ports: frozenset[tuple[int, str]]
    """Those that it listens on, with tcp or udp, as far as the file tells."""
    published: Mapping[int, int]
    """Its own port by the machine's."""
    mounts: Mapping[str, str]
    """What lies at a path of the container: a path below deploy/, or the name of a volume."""
    grace_s: float
    """How long it may take to stop."""


def services(words: Mapping[str, str]) -> dict[str, Service]:
    """Return all services, with *words* as the ``.env`` file.

    Raises:
        KeyError: The file wants a word that *words* lacks.
    """
    text = (DEPLOY / "compose.yaml").read_text()
    told = yaml.safe_load(text)
    return {name: _service(name, service, words) for name, service in told["services"].items()}


def words_of_the_example() -> set[str]:
    """Return which words the example of the ``.env`` file asks for."""
    example = (DEPLOY / "compose.env.example").read_text()
    return set(re.findall(r"^(\w+)=$", example, re.MULTILINE))


def _service(name: str, told: Mapping[str, Any], words: Mapping[str, str]) -> Service:
    built = _built(told["build"]) if "build" in told else _Image()
    environment = {
        **built.environment,
        **{key: _filled(str(value), words) for key, value in told.get("environment", {}).items()},
    }
    command = [_filled(str(word), words) for word in told.get("command", built.command)]
    asked = told.get("healthcheck", {})
    check = () if asked.get("disable") else tuple(asked.get("test", built.health))
    published = dict(_published(told.get("ports", ())))
    ports = {(inner, kind) for (_, kind), inner in published.items()}
    needs = {other: how["condition"] for other, how in told.get("depends_on", {}).items()}
    mounts = dict(reversed(mount.split(":")[:2]) for mount in told.get("volumes", ()))
    held = {path.split(":")[0]: f"tmp of {name}" for path in told.get("tmpfs", ())}
    held.pop("/tmp", None)  # is here, too
    return Service(
        name=name,
        image=told["image"],
        command=(*told.get("entrypoint", built.entrypoint), *command),
        environment=environment,
        health=tuple(part.replace("$$", "$") for part in check),
        needs=needs,
        ports=frozenset(ports | {(port, "tcp") for port in built.exposed}),
        published={outer: inner for (outer, _), inner in published.items()},
        mounts={**held, **mounts},
        grace_s=float(str(told.get("stop_grace_period", "10s")).removesuffix("s")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Image:
    """What an image says of itself."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    health: tuple[str, ...] = ()
    exposed: tuple[int, ...] = ()
    environment: Words = field(default_factory=dict)


def _built(build: Mapping[str, Any]) -> _Image:
    """Read the last stage of a Dockerfile of ours."""
    text = (DEPLOY.parent / build["dockerfile"]).read_text().replace("\\\n", " ")
    stage = re.split(r"^FROM ", text, flags=re.MULTILINE)[-1]
    said = dict(re.findall(r"^([A-Z]+) +(.*)$", stage, re.MULTILINE))
    health = re.search(r"CMD (\[.*\])", said.get("HEALTHCHECK", ""))
    return _Image(
        entrypoint=tuple(json.loads(said.get("ENTRYPOINT", "[]"))),
        command=tuple(json.loads(said.get("CMD", "[]"))),
        health=("CMD", *json.loads(health[1])) if health else (),
        exposed=tuple(int(port) for port in said.get("EXPOSE", "").split()),
        environment=dict(re.findall(r"(\w+)=(\S+)", said.get("ENV", ""))),
    )


def _published(ports: list[str]) -> Iterator[tuple[tuple[int, str], int]]:
    """Yield (port of the machine, kind) and port of the container; ranges are left out."""
    for port in ports:
        place, _, kind = port.partition("/")
        outer, inner = place.split(":")[-2:]
        if "-" not in inner:
            yield (int(outer), kind or "tcp"), int(inner)


def _filled(text: str, words: Mapping[str, str]) -> str:
    def fill(found: re.Match[str]) -> str:
        name, how, otherwise = found.groups()
        return words.get(name) or otherwise if how == ":-" else words[name]

    return _MISSING.sub(fill, text.replace("$$", "\0")).replace("\0", "$")
