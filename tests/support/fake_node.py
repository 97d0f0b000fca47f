"""What does a node's process do in a chaos run?

``python -m tests.support.fake_node``: all of a real node, started and stopped as one, except that
its rooms are those of a `RemoteVenue` (its port in GREENROOM_TEST_VENUE), and that its wall clock
is as wrong as the file says that GREENROOM_TEST_CLOCK names, if it does.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from gpu_node.agent import EXIT_MISTAKE, Agent, AgentParts
from gpu_node.heartbeat import NodeLease
from gpu_node.settings import NodeSettings, remove_proxy_variables
from shared.clock import SystemClock
from shared.errors import ServiceLoadFailed, StartupError
from shared.lifecycle import StopSignals
from shared.logs import set_up_logs
from shared.rooms.admin import RoomAdmin
from shared.settings import load
from shared.store import BeatLink, Registry
from tests.support.remote_room import RemoteVenue
from tests.support.stepped_clock import deceive

VENUE_VARIABLE = "GREENROOM_TEST_VENUE"
CLOCK_VARIABLE = "GREENROOM_TEST_CLOCK"


def main() -> int:
    """Run one node and return its exit code."""
    if clock := os.environ.get(CLOCK_VARIABLE):
        deceive(Path(clock))
    try:
        settings = load(NodeSettings)
        remove_proxy_variables()
        set_up_logs()
        return asyncio.run(_run(settings, RemoteVenue(int(os.environ[VENUE_VARIABLE]))))
    except (StartupError, ServiceLoadFailed) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_MISTAKE


async def _run(settings: NodeSettings, venue: RemoteVenue) -> int:
    signals = StopSignals()
    signals.install()
    clock = SystemClock()
    lease = NodeLease(clock, settings.node_ttl_s, settings.silence_margin_s)
    parts = AgentParts(
        registry=Registry.connect(settings.redis_url),
        link=BeatLink(settings.redis_url, settings.pool),
        keeper=RoomAdmin(
            settings.livekit_url,
            settings.livekit_api_key,
            settings.livekit_api_secret.get_secret_value(),
            settings.deployment_id,
        ),
        open_room=venue,
        lease=lease,
        clock=clock,
        release="0.0.test",
    )
    return await Agent(settings, parts).run(signals.asked)


if __name__ == "__main__":
    sys.exit(main())
