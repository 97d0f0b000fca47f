"""Which flags does each command take, and how do they become settings?

Each flag is one field of a settings class: the help text is the field's description, the value goes
to the process's settings by the field's name. Those of replicas come from the class itself. The
node's class belongs to the other plane and can't be imported here, so its flags are listed; a test
compares the list with the class. A flag that wasn't given isn't passed on: then the environment
decides, and after it the default.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import typer
from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from control_plane.settings import ReplicaSettings
from shared.settings import ProcessSettings, SharedSettings, flag_of, variable_of

Given = dict[str, Any]
"""The flags that were given, by field name."""


_NUMBERS: tuple[type[Any], ...] = (int, float, bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One option of a command."""

    field: str
    kind: type[Any]
    help: str
    default: str = ""
    """What applies without it, for the help text."""

    def parameter(self) -> inspect.Parameter:
        """Return it as a parameter in typer's terms."""
        told = f"{self.help} [{variable_of(self.field)}"
        told += f"; default: {self.default}]" if self.default else "]"
        name = flag_of(self.field)
        option = typer.Option(None, name, help=told, show_default=False)
        return inspect.Parameter(
            self.field,
            inspect.Parameter.KEYWORD_ONLY,
            default=option,
            annotation=self.kind | None,
        )


def flags_of(settings: type[ProcessSettings]) -> tuple[Flag, ...]:
    """Return a flag for each field of a settings class."""
    flags = []
    for name, field in settings.model_fields.items():
        default = "" if field.default is PydanticUndefined else default_text(field.default)
        kind = next((kind for kind in _NUMBERS if kind is field.annotation), str)
        flags.append(Flag(field=name, kind=kind, help=field.description or "", default=default))
    return tuple(flags)


def default_text(default: object) -> str:
    """Return a default as the help and the README's table show it; empty for none and secrets."""
    if default is None or isinstance(default, SecretStr):
        return ""
    if isinstance(default, bool):
        return "on" if default else "off"
    return f"{default:g}" if isinstance(default, float) else str(default)


SHARED_FLAGS = flags_of(SharedSettings)
REPLICA_FLAGS = flags_of(ReplicaSettings)
NODE_FLAGS = (
    Flag(
        field="node_id",
        kind=str,
        help="Name of the node; made once and kept in the data folder if left out.",
    ),
    Flag(
        field="worker_mode",
        kind=str,
        help="Where the service lives: in-process, or process for a child whose crash costs "
        "neither the rooms nor the node.",
        default="in-process",
    ),
    Flag(
        field="num_workers",
        kind=int,
        help="Nodes that this command starts, each with its own service and GPUs.",
        default="1",
    ),
    Flag(
        field="worker_gpu_map",
        kind=str,
        help="GPUs of each node, as 0,1;2,3: numbers count within CUDA_VISIBLE_DEVICES; "
        "left out: all, in equal shares.",
    ),
    Flag(
        field="gpu_ecc_limit",
        kind=int,
        help="Uncorrectable memory errors of a GPU since its driver started, from which on the "
        "node goes out of service; 0: it never does.",
        default="1",
    ),
    Flag(
        field="worker_memory_limit_gib",
        kind=float,
        help="With --worker-mode process: GiB that the service may allocate in main memory; "
        "0: no limit.",
        default="0",
    ),
    Flag(
        field="worker_stuck_after_s",
        kind=float,
        help="With --worker-mode process: seconds without a sign of life, or in one quick "
        "call, after which the service's process is killed and started anew.",
        default="10",
    ),
    Flag(
        field="max_sessions_per_worker",
        kind=str,
        help="Sessions at once: auto leaves it to the service, a number only lowers it.",
        default="auto",
    ),
    Flag(
        field="control_idle_timeout_s",
        kind=float,
        help="Seconds without a control after which a session hands a shared model over to one "
        "that waits for it.",
        default="10",
    ),
    Flag(
        field="validation_level",
        kind=str,
        help="How strictly the service file is looked at before it is loaded: none, basic "
        "or strict. It finds mistakes and stops nobody who means harm.",
        default="basic",
    ),
    Flag(
        field="skip_validation",
        kind=bool,
        help="Load the service file without looking at it.",
        default="off",
    ),
    Flag(
        field="start_attempts",
        kind=int,
        help="Times that a service which fails to start is tried, with growing pauses, "
        "before the node gives up.",
        default="3",
    ),
    Flag(
        field="drain_grace_s",
        kind=float,
        help="Seconds that running sessions may go on after SIGTERM before they are given "
        "back to the line.",
        default="30",
    ),
    Flag(
        field="metrics_port",
        kind=int,
        help="Port for health, readiness and metrics; 0: none.",
        default="0",
    ),
    Flag(
        field="metrics_host",
        kind=str,
        help="Address that the metrics port listens on.",
        default="127.0.0.1",
    ),
    Flag(
        field="asset_root",
        kind=str,
        help="Folder below which image_path of a session is looked up; left out: none is.",
    ),
    Flag(
        field="default_fps",
        kind=int,
        help="Frames per second of a chunk that names none.",
        default="16",
    ),
    Flag(
        field="max_data_message_bytes",
        kind=int,
        help="Largest control message that is taken.",
        default="12288",
    ),
    Flag(
        field="beat_interval_s",
        kind=float,
        help="Seconds between two heartbeats of the node.",
        default="2",
    ),
    Flag(
        field="node_ttl_s",
        kind=float,
        help="Seconds of silence after which the registry counts the node as dead.",
        default="10",
    ),
    Flag(
        field="silence_margin_s",
        kind=float,
        help="Seconds before the end of --node-ttl at which a node that hears nothing from "
        "the registry stops playing, so that nobody plays twice.",
        default="3",
    ),
)


def takes(flags: Iterable[Flag]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a typer command of a function that gets the given flags as its keyword ``given``."""
    once = {flag.field: flag for flag in flags}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = typing.get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name])
            for parameter in inspect.signature(command).parameters.values()
            if parameter.name != "given"
        ]

        def run(**values: Any) -> None:
            mine = {parameter.name: values.pop(parameter.name) for parameter in own}
            command(**mine, given={name: v for name, v in values.items() if v is not None})

        run.__name__ = command.__name__
        run.__doc__ = command.__doc__
        signature: Sequence[inspect.Parameter] = [*own, *(f.parameter() for f in once.values())]
        run.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
        return run

    return decorate
