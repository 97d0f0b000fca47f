"""What must the all-in-one know before it can tell which servers it has to bring itself?

And what a command needs that looks at what it started.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator

from shared.settings import ProcessSettings, env_names, flag_of


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
