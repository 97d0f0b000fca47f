"""Every optional hook that the reference knows, as a service would have them; a mix-in."""

from __future__ import annotations

from typing import Any


class EveryHook:
    """Answers each of them and notes that it was asked."""

    own_capacity = 3

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.asked: list[str] = []
        self.published = 0

    def has_session(self, session_id: str) -> bool:
        """Whether a message still has an addressee."""
        self.asked.append("has_session")
        return session_id in getattr(self, "sessions", {session_id: None})

    def configure_session_capacity(self, max_sessions: int | None) -> dict[str, Any]:
        """Fix the pool."""
        self.asked.append("configure_session_capacity")
        effective = min(self.own_capacity, max_sessions or self.own_capacity)
        return {
            "computed_capacity": self.own_capacity,
            "effective_capacity": effective,
            "configured_limit": max_sessions,
            "limiting_device": None,
            "devices": [],
        }

    def session_capacity_profile(self) -> dict[str, Any] | None:
        """Tell how it came to that."""
        self.asked.append("session_capacity_profile")
        return {"computed_capacity": self.own_capacity, "devices": []}

    def runtime_metrics(self, session_id: str | None = None) -> dict[str, Any]:
        """Tell of the scheduler, or of one session."""
        self.asked.append("runtime_metrics")
        if session_id is not None:
            return {"active": True, "in_flight": False, "resident": True, "emitted_frames": 0}
        return {
            "scheduler_mode": "serial",
            "active_sessions": len(getattr(self, "sessions", ())),
            "mean_chunk_seconds": 0.01,
            "p95_chunk_seconds": 0.02,
            "activation_volatility": 0.0,
            "maximum_batch_size": 1,
        }

    def enable_publisher_frame_tracking(self, session_id: str) -> bool:
        """Take part."""
        self.asked.append("enable_publisher_frame_tracking")
        return True

    def report_publisher_frame_progress(
        self,
        session_id: str,
        *,
        event: str,
        frames_delta: int,
        sequence: int,
        observed_monotonic_seconds: float,
    ) -> bool:
        """Count what left."""
        self.asked.append("report_publisher_frame_progress")
        self.published += frames_delta
        return True

    def push_batch(self, messages: list[tuple[str, dict[str, Any]]]) -> None:
        """Take several messages at once, as the fork does."""
        for session_id, chunk in messages:
            self.push_chunk(session_id, chunk)  # type: ignore[attr-defined]

    def prepare_migration(self, session_id: str, timeout: float) -> dict[str, Any]:
        """Pack a session."""
        self.asked.append("prepare_migration")
        return {}

    def import_migration(
        self, bundle: dict[str, Any], *, owner_worker_id: str, ownership_epoch: int
    ) -> None:
        """Unpack one."""
        self.asked.append("import_migration")

    def commit_migration(self, session_id: str) -> None:
        """It has moved."""
        self.asked.append("commit_migration")

    def abort_migration(self, session_id: str) -> None:
        """It stays."""
        self.asked.append("abort_migration")

    def prepare_migration_nccl_metadata(self, session_id: str) -> dict[str, Any]:
        """Describe a session's tensors."""
        self.asked.append("prepare_migration_nccl_metadata")
        return {}

    def import_migration_nccl(
        self, metadata: Any, leaves: Any, *, owner_worker_id: str, ownership_epoch: int
    ) -> None:
        """Take them."""
        self.asked.append("import_migration_nccl")

    def pause_scheduler(self) -> None:
        """Stand still."""
        self.asked.append("pause_scheduler")

    def resume_scheduler(self) -> None:
        """Go on."""
        self.asked.append("resume_scheduler")
