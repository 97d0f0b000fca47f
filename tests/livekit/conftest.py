"""What do tests with a real media server share? The server, and tools to join its rooms."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shared.ids import new_session_id
from shared.rooms.admin import RoomAdmin
from shared.rooms.tokens import RoomTokens
from tests.support.livekit_server import LiveKitServer, livekit_server

__all__ = ["livekit_server"]

DEPLOYMENT = "tests"


@pytest.fixture
def session_id() -> str:
    """A room of its own for each test."""
    return new_session_id("default")


@pytest.fixture
def tokens(livekit_server: LiveKitServer) -> RoomTokens:
    """Tokens that the server takes."""
    return tokens_for(livekit_server)


@pytest.fixture
async def admin(livekit_server: LiveKitServer) -> AsyncIterator[RoomAdmin]:
    """The room service of the server."""
    made = admin_for(livekit_server)
    yield made
    await made.aclose()


def tokens_for(server: LiveKitServer) -> RoomTokens:
    """Tokens that this server takes."""
    return RoomTokens(server.api_key, server.api_secret, 600, DEPLOYMENT)


def admin_for(server: LiveKitServer) -> RoomAdmin:
    """The room service of this server."""
    return RoomAdmin(server.url, server.api_key, server.api_secret, DEPLOYMENT)
