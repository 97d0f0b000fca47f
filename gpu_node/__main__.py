"""How is an agent started?

``python -m gpu_node``: settings from the environment, proxies forgotten, logs set up, the real
parts put together. Exit codes: 0 asked to stop, 1 a part crashed, 2 an operator's mistake (a
sentence on standard error, and what to try), 3 a newer process has this node's name.
"""

from __future__ import annotations

import asyncio
import os
import sys
from importlib.metadata import version

from gpu_node.agent import EXIT_MISTAKE, EXIT_SUPERSEDED, Agent, AgentParts
from gpu_node.fleet import Fleet, gpus_of_nodes, members_of
from gpu_node.gpu_reader import GpuReader
from gpu_node.heartbeat import NodeLease
from gpu_node.kept_name import hold_kept_name
from gpu_node.livekit_room import LiveKitRooms
from gpu_node.memory import TIDY_EVERY_S, Tidying, keep_large_buffers_off_the_heap
from gpu_node.settings import (
    NodeSettings,
    choose_gpus,
    chosen_gpus,
    remove_proxy_variables,
)
from gpu_node.watchdog import kill_this_process
from shared.clock import SystemClock
from shared.errors import ServiceLoadFailed, StartupError
from shared.lifecycle import Background, StopSignals, repeat
from shared.logs import set_up_logs
from shared.rooms.admin import RoomAdmin
from shared.rooms.tokens import RoomTokens
from shared.settings import load
from shared.store import BeatLink, Registry


def main() -> int:
    """Run one node and return its exit code."""
    try:
        settings = load(NodeSettings)
        if "node_id" not in settings.model_fields_set:
            hold_kept_name(settings.data_dir)
        remove_proxy_variables()
        set_up_logs()
        if settings.num_workers > 1:
            return asyncio.run(_run_fleet(settings))
        if (gpus := gpus_of_nodes(settings)[0]) is not None:
            choose_gpus(gpus)
        return asyncio.run(_run(settings))
    except (StartupError, ServiceLoadFailed) as error:
        sys.stderr.write(f"greenroom node: {error}\n")
        if advice := getattr(error, "try_", None):
            sys.stderr.write(f"Try: {advice}\n")
        return EXIT_MISTAKE


async def _run_fleet(settings: NodeSettings) -> int:
    signals = StopSignals()
    signals.install()
    fleet = Fleet(
        members_of(settings),
        refusals=frozenset((EXIT_MISTAKE, EXIT_SUPERSEDED)),
        drain_grace_s=settings.drain_grace_s,
    )
    return await fleet.run(signals.asked, in_haste=lambda: signals.interrupted)


async def _run(settings: NodeSettings) -> int:
    keep_large_buffers_off_the_heap()
    signals = StopSignals()
    signals.install()
    secret = settings.livekit_api_secret.get_secret_value()
    admin = RoomAdmin(
        settings.livekit_url, settings.livekit_api_key, secret, settings.deployment_id
    )
    tokens = RoomTokens(
        settings.livekit_api_key, secret, settings.token_ttl_s, settings.deployment_id
    )
    clock = SystemClock()
    lease = NodeLease(clock, settings.node_ttl_s, settings.silence_margin_s)
    rooms = LiveKitRooms(
        url=settings.livekit_url, tokens=tokens, admin=admin, lease_holds=lease.is_fresh
    )
    parts = AgentParts(
        registry=Registry.connect(settings.redis_url),
        link=BeatLink(settings.redis_url, settings.pool),
        keeper=admin,
        open_room=rooms,
        lease=lease,
        clock=clock,
        release=version("greenroom"),
        on_stuck=kill_this_process,
        gpus=GpuReader(chosen_gpus(), clock, ecc_limit=settings.gpu_ecc_limit),
    )
    tidying = Tidying(lambda: rooms.last_parting_s)
    background = Background()
    background.start("tidying", repeat(tidying.look, name="tidying", every_s=TIDY_EVERY_S))
    try:
        return await Agent(settings, parts).run(signals.asked, in_haste=lambda: signals.interrupted)
    finally:
        await background.aclose()
        await rooms.aclose()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # The media library's threads may abort an ordinary exit; everything of ours is closed by now.
    os._exit(code)
