"""The replay service with every optional hook of the reference."""

from __future__ import annotations

from tests.services.telefuser_hooks import EveryHook
from tests.services.telefuser_replay import VideoReplayService


class Hooked(EveryHook, VideoReplayService):
    """Both."""


def get_service(gpu_num: int = 1, gpu_ids: list[str] | None = None) -> Hooked:
    """The entry point."""
    return Hooked(gpu_num)
