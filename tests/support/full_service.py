"""`sized_service` on a card that is full."""

from __future__ import annotations

from tests.support.sized_service import SizedService
from tests.support.synthetic_service import Journal


def get_service() -> SizedService:
    """The entry point."""
    service = SizedService(Journal())
    service.free_gib = 3
    return service
