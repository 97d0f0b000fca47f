"""Does a picture of this machine get to the media server?

``python -m gpu_node.media_probe``, with the media server in the environment: joins a room of its
own as a worker does, sends for a moment, and prints one JSON line: how many bytes went out and how
far the server is, or why not. For ``greenroom doctor``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time

from gpu_node.livekit_room import LiveKitRooms
from gpu_node.room import Room, RoomEvents, RoomRequest
from gpu_node.settings import remove_proxy_variables
from shared.errors import RoomsUnavailable, StartupError
from shared.ids import WorkerIdentity, new_session_id
from shared.logs import set_up_logs
from shared.rooms.admin import RoomAdmin
from shared.rooms.tokens import RoomTokens
from shared.settings import SharedSettings, load

_SENDS_WITHIN_S = 8.0
_LOOK_EVERY_S = 0.25


async def probe(settings: SharedSettings) -> dict[str, object]:
    """Join, send, leave; return what came of it."""
    secret = settings.livekit_api_secret.get_secret_value()
    key, deployment = settings.livekit_api_key, settings.deployment_id
    admin = RoomAdmin(settings.livekit_url, key, secret, deployment)
    tokens = RoomTokens(key, secret, settings.token_ttl_s, deployment)
    rooms = LiveKitRooms(
        url=settings.livekit_url, tokens=tokens, admin=admin, lease_holds=lambda: True
    )
    session_id = new_session_id("doctor")
    room = rooms(
        RoomRequest(
            session_id=session_id,
            identity=WorkerIdentity(node_id="doctor", epoch=1, attempt=1),
            controller="nobody",
            fps=10,
            events=RoomEvents(
                on_control=lambda *_: None, on_presence=lambda _: None, on_lost=lambda _: None
            ),
        )
    )
    try:
        await room.join()
        return await _sent(room)
    except RoomsUnavailable as fault:
        return {"why": fault.why}
    finally:
        await room.leave()
        with contextlib.suppress(RoomsUnavailable):  # then it goes when it was empty for a while
            await admin.delete(session_id)
        await admin.aclose()


async def _sent(room: Room) -> dict[str, object]:
    """Wait until something went out; the track sends by itself, black frames."""
    deadline_s = time.monotonic() + _SENDS_WITHIN_S
    while time.monotonic() < deadline_s:
        link = await room.link()
        if link is not None and link.sent_bytes > 0 and link.rtt_s is not None:
            return {"sent_bytes": link.sent_bytes, "rtt_s": link.rtt_s}
        await asyncio.sleep(_LOOK_EVERY_S)
    return {"why": f"nothing was sent within {_SENDS_WITHIN_S:.0f} s"}


def main() -> dict[str, object]:
    """Run the probe with the settings of the environment."""
    try:
        settings = load(SharedSettings)
    except StartupError as error:
        return {"why": str(error)}
    remove_proxy_variables()
    set_up_logs(level="critical", to=sys.stderr)
    return asyncio.run(probe(settings))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main()) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the media library's threads may abort an ordinary exit
