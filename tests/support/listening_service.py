"""The synthetic service with ears: what its sessions hear stands in the journal."""

from __future__ import annotations

from tests.support.synthetic_service import Journal, SyntheticService


class ListeningService(SyntheticService):
    """Wants its controller's voice, at 8 kHz."""

    session_audio_rate_hz = 8000

    def session_inputs(self) -> set[str]:
        return {"audio"}


def get_service() -> ListeningService:
    """The entry point."""
    return ListeningService(Journal())
