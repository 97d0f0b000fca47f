"""What the system level has: a media server, started for the first test that needs it."""

from tests.support.livekit_server import livekit_server

__all__ = ["livekit_server"]
