"""Does a node get into a room whose media server has quite another idea of the time?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shared.ids import new_session_id
from tests.support.livekit_server import LiveKitServer
from tests.support.stepped_clock import StepLever
from tests.support.wait import scaled_s

ROOT = Path(__file__).resolve().parents[2]
NODE = """
import asyncio, os, sys
from pathlib import Path
from livekit import rtc
from gpu_node.settings import remove_proxy_variables
from shared.ids import WorkerIdentity
from shared.rooms.admin import RoomAdmin
from shared.rooms.tokens import RoomTokens
from tests.support.stepped_clock import deceive

async def main(clock, url, key, secret, session):
    deceive(Path(clock))
    admin, tokens = RoomAdmin(url, key, secret, "tests"), RoomTokens(key, secret, 600, "tests")
    await admin.ensure(session, 7)
    room = rtc.Room()
    await room.connect(url, tokens.worker(session, WorkerIdentity(node_id="n", epoch=7, attempt=1)))
    print(*(one.identity for one in await admin.participants(session)), flush=True)
    os._exit(0)

remove_proxy_variables()
asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
def test_a_clock_that_is_an_hour_off_keeps_no_node_out(
    livekit_server: LiveKitServer, tmp_path: Path, ahead_s: float
) -> None:
    """It makes sure of the room, joins it and lists who is there."""
    lever = StepLever(tmp_path / "clock")
    lever.set_s(ahead_s)
    server = livekit_server
    given = (lever.path, server.url, server.api_key, server.api_secret, new_session_id("default"))
    ran = subprocess.run(
        [sys.executable, "-c", NODE, *map(str, given)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=scaled_s(30),
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "telefuser-n-7-1\n"), ran.stderr
