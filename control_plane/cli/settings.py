"""What must the all-in-one know before it can tell which servers it has to bring itself?

And what a command needs that looks at what it started.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator

from shared.settings import ProcessSettings, env_names, flag_of

_PROXY_VARIABLES = frozenset(
    ("http_proxy", "https_proxy", "all_proxy", "ws_proxy", "wss_proxy", "no_proxy")
)


class StackSettings(ProcessSettings):
    """The options whose absence means: start one of your own. All others are the processes'."""

    data_dir: Path = Path(".greenroom")
    redis_url: str | None = None
    pool: str = "default"
    livekit_url: str | None = Field(
        default=None, validation_alias=env_names("livekit_url", telefuser="URL")
    )
    livekit_api_key: str = Field(
        default="", validation_alias=env_names("livekit_api_key", telefuser="API_KEY")
    )
    livekit_api_secret: SecretStr = Field(
        default=SecretStr(""),
        validation_alias=env_names("livekit_api_secret", telefuser="API_SECRET"),
    )
    drain_grace_s: float = 30.0
    """Only to know how long the node may take to stop."""

    @model_validator(mode="after")
    def _keys_belong_to_a_server(self) -> Self:
        keys = self.livekit_api_key or self.livekit_api_secret.get_secret_value()
        if keys and not self.livekit_url:
            url, key = flag_of("livekit_url"), flag_of("livekit_api_key")
            raise ValueError(
                f"{key} and its secret belong to the server of {url}, which is missing"
            )
        return self


class OperatorSettings(StackSettings):
    """What a command needs that looks at a running system."""

    deployment_id: str = ""
    """Whose rooms are ours; empty: the one that the data folder keeps."""
    livekit_public_url: str = ""
    """LiveKit as browsers reach it; empty: as everybody does."""


def proxies() -> dict[str, str]:
    """Return the proxy variables that are set, by name, and ``NO_PROXY`` in whichever spelling."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.lower() in _PROXY_VARIABLES and value
    }


def chosen_gpus() -> list[str] | None:
    """Return the GPUs that this process may use, perhaps none; None if nobody chose."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if chosen is None else [gpu.strip() for gpu in chosen.split(",") if gpu.strip()]
