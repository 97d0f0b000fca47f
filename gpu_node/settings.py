"""What may an operator set?

Options of a node on top of those it shares with replicas; read once, in ``gpu_node.__main__``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from gpu_node.gpu_groups import parse_gpu_map
from gpu_node.services.validation import Level
from shared.errors import InvalidName, StartupError
from shared.ids import check_node_id, new_node_id
from shared.nvml import gpus_in_this_machine
from shared.settings import (
    ENV_PREFIX,
    TELEFUSER_PREFIX,
    SharedSettings,
    child_environment,
    env_names,
    kept,
)

_PROXY_VARIABLES = frozenset(("http_proxy", "https_proxy", "all_proxy", "ws_proxy", "wss_proxy"))


class NodeSettings(SharedSettings):
    """Options of one GPU node."""

    pipe_path: Path | None = Field(
        default=None,
        description="Python file with get_service(); left out: the demo world.",
    )
    node_id: str = Field(
        default_factory=lambda data: _kept_node_id(Path(data["data_dir"])),
        description="Name of the node; made once and kept in the data folder if left out.",
    )
    worker_mode: Literal["in-process", "process"] = Field(
        default="in-process",
        description="Where the service lives: in-process, or process for a child whose crash costs "
        "neither the rooms nor the node.",
    )
    num_workers: int = Field(
        default=1,
        ge=1,
        le=64,
        validation_alias=env_names("num_workers", telefuser="NUM_WORKERS"),
        description="Nodes that this command starts, each with its own service and GPUs.",
    )
    worker_gpu_map: str = Field(
        default="",
        validation_alias=env_names("worker_gpu_map", telefuser="WORKER_GPU_MAP"),
        description="GPUs of each node, as 0,1;2,3: numbers count within CUDA_VISIBLE_DEVICES; "
        "left out: all, in equal shares.",
    )
    gpu_ecc_limit: int = Field(
        default=1,
        ge=0,
        description="Uncorrectable memory errors of a GPU since its driver started, from which on "
        "the node goes out of service; 0: it never does.",
    )
    worker_memory_limit_gib: float = Field(
        default=0.0,
        ge=0,
        description="With --worker-mode process: GiB that the service may allocate in main memory; "
        "0: no limit.",
    )
    worker_stuck_after_s: float = Field(
        default=10.0,
        gt=0,
        description="With --worker-mode process: seconds without a sign of life, or in one quick "
        "call, after which the service's process is killed and started anew.",
    )
    max_sessions_per_worker: Literal["auto"] | int = Field(
        default="auto",
        validation_alias=env_names("max_sessions_per_worker", telefuser="MAX_SESSIONS_PER_WORKER"),
        description="Sessions at once: auto leaves it to the service, a number only lowers it.",
    )
    control_idle_timeout_s: float = Field(
        default=10.0,
        gt=0,
        validation_alias=env_names("control_idle_timeout_s", telefuser="CONTROL_IDLE_TIMEOUT"),
        description="Seconds without a control after which a session hands a shared model over to "
        "one that waits for it.",
    )
    validation_level: Level = Field(
        default=Level.BASIC,
        description="How strictly the service file is looked at before it is loaded: none, basic "
        "or strict. It finds mistakes and stops nobody who means harm.",
    )
    skip_validation: bool = Field(
        default=False, description="Load the service file without looking at it."
    )
    start_attempts: int = Field(
        default=3,
        ge=1,
        le=100,
        description="Times that a service which fails to start is tried, with growing pauses, "
        "before the node gives up.",
    )
    drain_grace_s: float = Field(
        default=30.0,
        ge=0,
        description="Seconds that running sessions may go on after SIGTERM before they are given "
        "back to the line.",
    )
    metrics_port: int = Field(
        default=0, ge=0, le=65535, description="Port for health, readiness and metrics; 0: none."
    )
    metrics_host: str = Field(
        default="127.0.0.1", description="Address that the metrics port listens on."
    )
    asset_root: Path | None = Field(
        default=None,
        description="Folder below which image_path of a session is looked up; left out: none is.",
    )
    default_fps: int = Field(
        default=16,
        ge=1,
        le=120,
        validation_alias=env_names("default_fps", telefuser="DEFAULT_FPS"),
        description="Frames per second of a chunk that names none.",
    )
    max_data_message_bytes: int = Field(
        default=12288,
        ge=1024,
        validation_alias=env_names("max_data_message_bytes", telefuser="MAX_DATA_MESSAGE_BYTES"),
        description="Largest control message that is taken.",
    )
    beat_interval_s: float = Field(
        default=2.0, gt=0, description="Seconds between two heartbeats of the node."
    )
    node_ttl_s: float = Field(
        default=10.0,
        gt=0,
        description="Seconds of silence after which the registry counts the node as dead.",
    )
    silence_margin_s: float = Field(
        default=3.0,
        gt=0,
        description="Seconds before the end of --node-ttl at which a node that hears nothing from "
        "the registry stops playing, so that nobody plays twice.",
    )

    @property
    def silent_after_s(self) -> float:
        """Seconds without a confirmed beat after which the node falls silent."""
        return self.node_ttl_s - self.silence_margin_s

    @property
    def validation(self) -> Level:
        """How strictly the service file is looked at."""
        return Level.NONE if self.skip_validation else self.validation_level

    @property
    def told(self) -> dict[str, object]:
        """What clients and operators are told of a node's options, under the reference's names."""
        return {
            "control_idle_timeout": self.control_idle_timeout_s,
            "worker_mode": self.worker_mode,
            "configured_max_sessions_per_worker": self.max_sessions_per_worker,
        }

    @property
    def capacity_limit(self) -> int | None:
        """The operator's limit of sessions; None without one."""
        limit = self.max_sessions_per_worker
        return None if limit == "auto" else limit

    @field_validator("node_id")
    @classmethod
    def _node_name(cls, node_id: str) -> str:
        try:
            return check_node_id(node_id)
        except InvalidName as error:
            raise ValueError(str(error)) from error

    @field_validator("max_sessions_per_worker")
    @classmethod
    def _at_least_one(cls, limit: Literal["auto"] | int) -> Literal["auto"] | int:
        if limit != "auto" and not 1 <= limit <= 64:
            raise ValueError("must be auto or a number from 1 to 64")
        return limit

    @field_validator("worker_gpu_map")
    @classmethod
    def _readable_map(cls, gpu_map: str) -> str:
        if gpu_map:
            parse_gpu_map(gpu_map)
        return gpu_map

    @field_validator("pool")
    @classmethod
    def _one_pool(cls, pool: str) -> str:
        if "," in pool:
            raise ValueError("a node serves one pool, so name one")
        return pool

    @model_validator(mode="after")
    def _beats_before_silence(self) -> Self:
        if self.beat_interval_s > self.silent_after_s / 2:
            raise ValueError(
                "--beat-interval (GREENROOM_BEAT_INTERVAL_S) is too long for --node-ttl "
                "(GREENROOM_NODE_TTL_S): two beats must fit before the node falls silent, "
                f"{self.silence_margin_s:g} s before the end (--silence-margin, "
                "GREENROOM_SILENCE_MARGIN_S)"
            )
        return self


def _kept_node_id(data_dir: Path) -> str:
    name = kept(data_dir, "node-id", new_node_id)
    try:
        return check_node_id(name)
    except InvalidName as error:
        raise StartupError(
            f"The file {data_dir / 'node-id'} keeps no valid name: {error}",
            try_="put the right name back, or delete the file to have a new one made",
        ) from None


def remove_proxy_variables() -> None:
    """Forget the machine's proxies: LiveKit's SDK would send media signalling through them."""
    for name in [name for name in os.environ if name.lower() in _PROXY_VARIABLES]:
        del os.environ[name]


def service_environment() -> dict[str, str]:
    """Return the environment of a service's own process: this one's, without our settings.

    A model file has no business with the registry's address or the media server's secret.
    """
    ours = (ENV_PREFIX, TELEFUSER_PREFIX)
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def usable_gpus() -> list[str] | None:
    """Return the GPUs that can be given to nodes: those chosen by name, else the machine's own."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return visible_gpus()
    if (count := gpus_in_this_machine()) is not None:
        return [str(number) for number in range(count)]
    found = [path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*")]
    return sorted(found, key=int) or None


def choose_gpus(gpus: Sequence[str]) -> None:
    """Let this process, and what it loads from now on, see these GPUs alone."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)


def member_environment(values: Mapping[str, object], gpus: Sequence[str] | None) -> dict[str, str]:
    """Return the environment of one node of several: *values* by field, its own GPUs."""
    chosen = {} if gpus is None else {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}
    return {**child_environment(values), **chosen}


def chosen_gpus() -> list[str] | None:
    """Return the GPUs of this process as they were chosen, perhaps none; None if nobody chose."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if chosen is None else [gpu.strip() for gpu in chosen.split(",") if gpu.strip()]


def visible_gpus() -> list[str] | None:
    """Return the GPUs that this process was given by name, None if nobody chose."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return [gpu.strip() for gpu in chosen.split(",") if gpu.strip()] or None
