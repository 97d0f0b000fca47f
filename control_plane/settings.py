"""What may an operator set for a replica?"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress

from pydantic import Field, SecretStr

from shared.records import SessionLimits
from shared.settings import SharedSettings, env_names
from shared.waiting import IdentityLimits

LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))


class ReplicaSettings(SharedSettings):
    """Options of one replica; all replicas of a cluster should have the same."""

    host: str = Field(
        default="127.0.0.1",
        validation_alias=env_names("host", telefuser="HOST"),
        description="Address to listen on; anything but this machine itself needs --no-auth.",
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
    no_auth: bool = Field(
        default=False,
        description="Listen on other addresses although nobody checks who is calling.",
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
