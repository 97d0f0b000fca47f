"""The overlay service with every optional hook of the reference."""

from __future__ import annotations

from tests.services.telefuser_hooks import EveryHook
from tests.services.telefuser_overlay import ArrowOverlayService


class Hooked(EveryHook, ArrowOverlayService):
    """Both."""


def get_service(**kwargs: object) -> Hooked:
    """The entry point."""
    return Hooked()
