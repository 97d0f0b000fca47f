"""What may an operator set for a replica?"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator

from shared.records import SessionLimits
from shared.settings import SharedSettings, env_names
from shared.waiting import IdentityLimits

LEAST_ADMIN_KEY_CHARS = 24
"""It is the one key that people may choose, and nothing slows down who guesses."""
LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))


class ReplicaSettings(SharedSettings):
    """Options of one replica; all replicas of a cluster should have the same."""

    host: str = Field(
        default="127.0.0.1",
        validation_alias=env_names("host", telefuser="HOST"),
        description="Address to listen on; on any but this machine's own, callers need a key.",
    )
    port: int = Field(
        default=8088,
        ge=0,
        le=65535,
        validation_alias=env_names("port", telefuser="PORT"),
        description="Port to listen on; 0 picks a free one and prints it.",
    )
    queue_size: int = Field(
        default=0,
        ge=0,
        le=10_000,
        validation_alias=env_names("queue_size", telefuser="QUEUE_SIZE"),
        description="Longest line of new waiters; 0: whoever can't be served at once is refused.",
    )
    queue_lease_s: float = Field(
        default=60.0,
        ge=0,
        description="Seconds that a waiting client may be silent before its place is given up, "
        "unless it is in its room; 0: for ever.",
    )
    max_waiting_per_identity: int = Field(
        default=0,
        ge=0,
        description="Sessions of one identity that may wait in a pool's line at once; 0: no limit.",
    )
    max_active_per_identity: int = Field(
        default=0,
        ge=0,
        description="Sessions of one identity that may be on stage in a pool at once, those that "
        "wait for it included; 0: no limit.",
    )
    assigned_timeout_s: float = Field(
        default=7.0,
        gt=0,
        description="Seconds within which a node must accept a session that it was given.",
    )
    joining_timeout_s: float = Field(
        default=15.0,
        gt=0,
        description="Seconds within which the node's worker must be in the session's room.",
    )
    starting_timeout_s: float = Field(
        default=120.0,
        gt=0,
        description="Seconds within which a service that names no limit must start a session.",
    )
    draining_timeout_s: float = Field(
        default=30.0,
        gt=0,
        description="Seconds that the clean-up of a session may take before its slot is put in "
        "quarantine.",
    )
    audit_interval_s: float = Field(
        default=30.0,
        ge=0,
        description="Seconds between two comparisons of ledger, nodes and rooms by this replica, "
        "give or take half; 0: never.",
    )
    stop_notice_s: float = Field(
        default=0.0,
        ge=0,
        le=60,
        description="Seconds after SIGTERM for which a replica serves on and says that it isn't "
        "ready, so that a load balancer which asks sends nobody more.",
    )
    admin_key: SecretStr = Field(
        default=SecretStr(""),
        description="Key that may do everything, the same for all replicas; left out: one is made "
        "and kept in the data folder, unless only this machine can reach the replica.",
    )
    no_auth: bool = Field(
        default=False,
        description="Let everybody who can reach the replica do everything.",
    )
    create_rate: float = Field(
        default=20.0,
        ge=0,
        le=1_000_000,
        description="Sessions that may be created with one API key in a second, over all replicas; "
        "five seconds' worth at once; 0: no limit.",
    )
    read_rate: float = Field(
        default=200.0,
        ge=0,
        le=1_000_000,
        description="All other calls with one API key in a second, over all replicas; five "
        "seconds' worth at once; 0: no limit.",
    )
    cors_origins: str = Field(
        default="",
        validation_alias=env_names("cors_origins", telefuser="CORS_ALLOW_ORIGINS"),
        description="Origins, with commas, whose pages may call the API; empty: only our own.",
    )
    session_secret: SecretStr = Field(
        default_factory=lambda data: _derived_secret(data.get("livekit_api_secret")),
        description="Key that signs session tokens; left out: derived from the LiveKit secret.",
    )

    @field_validator("admin_key")
    @classmethod
    def _hard_to_guess(cls, key: SecretStr) -> SecretStr:
        text = key.get_secret_value()
        if text and not (len(text) >= LEAST_ADMIN_KEY_CHARS and text.isascii() and " " not in text):
            raise ValueError(
                f"use at least {LEAST_ADMIN_KEY_CHARS} ASCII characters without spaces"
            )
        return key

    @model_validator(mode="after")
    def _open_or_closed(self) -> Self:
        if self.no_auth and self.admin_key.get_secret_value():
            raise ValueError(
                "--no-auth (GREENROOM_NO_AUTH) and --admin-key (GREENROOM_ADMIN_KEY) contradict "
                "each other: give one of them"
            )
        return self

    @property
    def on_loopback(self) -> bool:
        """Only this machine can reach the replica."""
        return _is_loopback(self.host)

    @property
    def allowed_origins(self) -> tuple[str, ...]:
        """The origins of ``cors_origins``."""
        return tuple(origin.strip() for origin in self.cors_origins.split(",") if origin.strip())

    @property
    def identity_limits(self) -> IdentityLimits:
        """How many sessions one identity may have."""
        return IdentityLimits(
            waiting=self.max_waiting_per_identity, active=self.max_active_per_identity
        )

    @property
    def limits(self) -> SessionLimits:
        """The durations that each new session keeps for its life."""
        return SessionLimits(
            queued_s=self.queue_lease_s,
            assigned_s=self.assigned_timeout_s,
            joining_s=self.joining_timeout_s,
            controller_s=self.controller_timeout_s,
            room_empty_s=self.room_empty_timeout_s,
            starting_s=self.starting_timeout_s,
            session_s=self.session_timeout_s,
            draining_s=self.draining_timeout_s,
        )


def _is_loopback(host: str) -> bool:
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _derived_secret(livekit_secret: SecretStr | None) -> SecretStr:
    """Make one key out of the other, so that all replicas agree without a further setting."""
    secret = livekit_secret.get_secret_value() if livekit_secret is not None else ""
    return SecretStr(hmac.new(secret.encode(), b"session-token", hashlib.sha256).hexdigest())
