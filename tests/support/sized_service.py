"""A service that knows how many sessions fit: three on its one card, or none with ``FULL`` set."""

from __future__ import annotations

from typing import Any

from gpu_node.capacity import GIB, Budget, Snapshot, plan_capacity
from tests.support.synthetic_service import Journal, SyntheticService


class SizedService(SyntheticService):
    """Plans for a card that it makes up."""

    warm_up = False
    free_gib = 18

    def configure_session_capacity(self, max_sessions: int | None) -> dict[str, Any]:
        card = Snapshot(
            device_index=0,
            device_name="card",
            process_id=1,
            role="denoise",
            total_bytes=40 * GIB,
            free_bytes=self.free_gib * GIB,
            allocated_bytes=GIB,
            reserved_bytes=GIB,
            peak_allocated_bytes=2 * GIB,
            peak_reserved_bytes=2 * GIB,
        )
        budget = {"denoise": Budget(persistent_bytes=5 * GIB)}
        return plan_capacity([card], budget, limit=max_sessions).metadata(max_fps=16)


def get_service() -> SizedService:
    """The entry point."""
    return SizedService(Journal())
