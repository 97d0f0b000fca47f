"""`leased_service` with a maximum hold of one chunk, so that all players move."""

from __future__ import annotations

from tests.support.leased_service import LeasedService
from tests.support.synthetic_service import Journal


def get_service() -> LeasedService:
    """The entry point."""
    return LeasedService(Journal(), max_chunks=1)
