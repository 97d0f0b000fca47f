"""Which processes make up the all-in-one, in which order do they start and stop?

Valkey first, since replica and node look for the registry at once. Then LiveKit, the replica and
the node together: their start times overlap. To stop, the node goes first, while it can still give
its sessions back; Valkey goes last, when nobody is left to write.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from control_plane.admin_key import admin_key_of, made_key_text
from control_plane.cli.options import Given
from control_plane.cli.settings import StackSettings
from control_plane.cli.terminal import Terminal
from control_plane.listener import listen
from control_plane.settings import ReplicaSettings
from shared.embedded.child import ChildSpec, Probe
from shared.embedded.data_dir import locked, usable
from shared.embedded.livekit_build import livekit_program
from shared.embedded.livekit_server import embedded_livekit
from shared.embedded.ports import free_port
from shared.embedded.probes import http_ok
from shared.embedded.supervisor import Supervisor
from shared.embedded.valkey import embedded_redis
from shared.rooms.webhooks import WEBHOOK_PATH
from shared.settings import ProcessSettings, child_environment, load, variable_of

STOP_ORDER = ("node", "replica", "livekit", "valkey")
_NODE_CLEANUP_S = 12.0
"""What a node needs after its drain grace: silence, give back, leave the rooms."""
_NODE_ENDS_WITH = frozenset((2, 3))
"""An operator's mistake; another process has taken the node's name, and two must not fight."""
_NOT_FOR_SERVICES = frozenset((variable_of("admin_key"), variable_of("session_secret")))
"""Only replicas need them; what a service file can read, whoever finds a hole in it can, too."""
_TELL_EVERY_S = 5.0
_PROBE_EVERY_S = 0.05
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104 - only compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """All processes of one all-in-one, and where it will be found."""

    first: tuple[ChildSpec, ...]
    """Must be ready before the others start."""
    then: tuple[ChildSpec, ...]
    address: str
    is_open: bool
    """Its replica asks nobody for a key."""
    usable: Probe
    """True once a session could be served."""
    log_dir: Path


@contextmanager
def planned(given: Given, *, pipe_path: Path | None, say: Callable[[str], None]) -> Iterator[Stack]:
    """Decide on all that can be decided before a process runs; holds the data folder's lock.

    Raises:
        StartupError: An option can't be used, the folder is taken, or a server can't be had.
    """
    own = load(StackSettings, **_only(given, StackSettings))
    data_dir = own.data_dir.absolute()
    plain = child_environment({})
    first: list[ChildSpec] = []
    then: list[ChildSpec] = []
    values: Given = {**given, "data_dir": data_dir}
    with locked(data_dir) as lock:
        if own.redis_url is None:
            with usable(data_dir):
                redis = embedded_redis(data_dir, lock=lock, env=plain)
            first.append(redis.spec)
            values["redis_url"] = redis.url
        livekit = None
        if own.livekit_url is None:
            program = livekit_program(say)
            with usable(data_dir):
                livekit = embedded_livekit(data_dir, program=program, env=plain)
            then.append(livekit.spec)
            values["livekit_url"] = livekit.url
            values["livekit_api_key"] = livekit.api_key
            values["livekit_api_secret"] = livekit.api_secret
        settings = load(ReplicaSettings, **_only(values, ReplicaSettings))
        host = _EVERYWHERE.get(settings.host, settings.host)
        listen(settings.host, settings.port).close()  # no server of somebody else may answer there
        values["port"] = settings.port or free_port(host=host)
        address = f"http://{f'[{host}]' if ':' in host else host}:{values['port']}"
        if livekit is not None:
            with usable(data_dir):
                livekit.tell(address + WEBHOOK_PATH)
        env = child_environment(values)
        then.append(_replica(env, host=host, port=values["port"]))
        then.append(_node(env, pipe_path=pipe_path, drain_grace_s=own.drain_grace_s))
        yield Stack(
            first=tuple(first),
            then=tuple(then),
            address=address,
            is_open=_tell_admin_key(settings, say),
            usable=http_ok(values["port"], "/v1/service/ready", host=host),
            log_dir=data_dir / "logs",
        )


def _tell_admin_key(settings: ReplicaSettings, say: Callable[[str], None]) -> bool:
    """Make the key of a replica that needs one, so that it ends in no log of the replica's own.

    Returns whether it is open, and needs none.
    """
    with usable(settings.data_dir):
        key = admin_key_of(settings)
    if key is not None and key.is_new:
        say(made_key_text(key).rstrip())
    return key is None


def _only(values: Given, settings: type[ProcessSettings]) -> Given:
    return {name: value for name, value in values.items() if name in settings.model_fields}


def _replica(env: Mapping[str, str], *, host: str, port: int) -> ChildSpec:
    return ChildSpec(
        name="replica",
        argv=(sys.executable, "-m", "control_plane"),
        env=env,
        ready=http_ok(port, "/v1/service/health", host=host),
        ready_within_s=60.0,
        shown=True,
    )


def _node(env: Mapping[str, str], *, pipe_path: Path | None, drain_grace_s: float) -> ChildSpec:
    pipe = {variable_of("pipe_path"): str(pipe_path.absolute())} if pipe_path else {}
    env = {name: value for name, value in env.items() if name not in _NOT_FOR_SERVICES}
    return ChildSpec(
        name="node",
        argv=(sys.executable, "-m", "gpu_node"),
        env={**env, **pipe},
        ready=_at_once,  # whether it serves is asked of the replica: a model may take minutes
        stop_within_s=drain_grace_s + _NODE_CLEANUP_S,
        interrupt_within_s=_NODE_CLEANUP_S,
        final_statuses=_NODE_ENDS_WITH,
        shown=True,
    )


async def _at_once() -> bool:
    return True


async def run(stack: Stack, terminal: Terminal) -> None:
    """Run all processes until a signal; returns when none is left.

    Raises:
        StartupError: One of them can't run; everything has been stopped by then.
    """
    stop = _Stop()
    supervisor = Supervisor(log_dir=stack.log_dir, say=terminal.say, show=terminal.show)
    stop.install(on_second=supervisor.hurry)
    await supervisor.open()
    work = asyncio.create_task(_serve(stack, supervisor, terminal))
    asked = asyncio.create_task(stop.asked.wait())
    try:
        await asyncio.wait({work, asked}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (work, asked):
            task.cancel()
        if stop.asked.is_set():
            terminal.stopping = True
            terminal.say("stopping: sessions first, servers last (again: at once)")
        await supervisor.aclose(STOP_ORDER, interrupted=stop.interrupted)
    if work.done() and not work.cancelled():
        work.result()


async def _serve(stack: Stack, supervisor: Supervisor, terminal: Terminal) -> None:
    """Start all in order, tell the address, then wait for a child that can't be kept."""
    started_s = time.monotonic()
    names = [spec.name for spec in (*stack.first, *stack.then)]
    terminal.say(f"starting {', '.join(names)}; logs in {stack.log_dir}")
    telling = asyncio.create_task(_tell_progress(terminal, started_s))
    try:
        for spec in stack.first:
            supervisor.start(spec)
        await supervisor.ready(*(spec.name for spec in stack.first))
        for spec in stack.then:
            supervisor.start(spec)
        await supervisor.ready(*(spec.name for spec in stack.then))
        await _first_of(_until(stack.usable), supervisor.failure())
    finally:
        telling.cancel()
    took_s = time.monotonic() - started_s
    terminal.say(
        "open: nobody is asked for a key" if stack.is_open else "closed: callers need a key"
    )
    terminal.say(f"Greenroom is ready after {took_s:.1f} s: {stack.address} (Ctrl-C stops it)")
    await supervisor.failure()


async def _first_of(*waits: Coroutine[object, object, None]) -> None:
    """Return or raise what the first of *waits* does; the others are cancelled."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    for task in done:
        task.result()


async def _until(usable: Probe) -> None:
    while not await usable():  # noqa: ASYNC110 - another process has no event to wait for
        await asyncio.sleep(_PROBE_EVERY_S)


async def _tell_progress(terminal: Terminal, started_s: float) -> None:
    """Say now and then that it is still starting: a model may load for minutes."""
    while True:
        await asyncio.sleep(_TELL_EVERY_S)
        terminal.say(f"still starting … {time.monotonic() - started_s:.0f} s")


class _Stop:
    """SIGINT, SIGTERM, SIGHUP: the first asks for an orderly stop, later ones for a quick one."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.interrupted = False
        """The first came from a person at the keyboard: sessions go back to the line at once."""

    def install(self, *, on_second: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal, number, on_second)

    def _on_signal(self, number: signal.Signals, on_second: Callable[[], None]) -> None:
        if self.asked.is_set():
            on_second()
            return
        self.interrupted = number == signal.SIGINT
        self.asked.set()
