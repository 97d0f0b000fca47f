"""Does the whole path work here: HTTP, line, node, media, picture, and all the way back?

Starts an all-in-one on free ports with a data folder of its own, plays one session through as a
client would, fills the house, lets somebody wait in line, and stops everything. Prints one JSON
line of timings; exit status 0 if everything held, 1 with a sentence if not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from scripts.smoke_player import Player, until
from shared.client import Greenroom, Problem, Session, SessionOver
from shared.embedded.ports import free_port

FRAMES_WANTED = 60
QUEUE_SIZE = 10
_MOST_SLOTS = 64
_RESTING = 12
"""So many frames tell whether the world rests."""
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "ws_proxy", "wss_proxy")

Timings = dict[str, float]


class Broken(Exception):
    """Something that must hold doesn't."""


def check(holds: object, what: str) -> None:
    """Raise `Broken` with *what* unless it holds."""
    if not holds:
        raise Broken(what)


def clean_environment() -> dict[str, str]:
    """Return the environment without settings and proxies of the person who runs this."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GREENROOM_", "TELEFUSER_")) and name.lower() not in _PROXIES
    }


@contextlib.contextmanager
def running_stack(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run the all-in-one; killed at the end if it still lives, its last lines shown on a fault."""
    log = folder / "stack.log"
    command = [str(Path(sys.executable).with_name("greenroom")), "stream-serve"]
    command += ["--port", str(port), "--data-dir", str(folder / "data")]
    command += ["--queue-size", str(QUEUE_SIZE)]
    with log.open("wb") as output:
        stack = subprocess.Popen(command, stdout=output, stderr=output, env=clean_environment())
    try:
        yield stack
    except BaseException:
        sys.stderr.write("\n".join(log.read_text(errors="replace").splitlines()[-30:]) + "\n")
        raise
    finally:
        if stack.poll() is None:
            stack.kill()
        stack.wait()


class House:
    """The HTTP side, as an application's backend uses it."""

    def __init__(self, url: str) -> None:
        self.greenroom = Greenroom(url)
        self.open: list[Session] = []

    async def create(self, identity: str) -> Session:
        """Create a session."""
        session = await self.greenroom.create(identity, prompt="a quiet harbour at dawn")
        self.open.append(session)
        return session

    async def end(self, session: Session) -> None:
        """End a session."""
        await self.greenroom.end(session)
        self.open.remove(session)

    async def becomes(self, session: Session, state: str) -> None:
        """Wait until a session is in *state*."""
        await self.greenroom.wait(session, until={state}, timeout_s=20)


async def is_ready(url: str) -> bool:
    """Whether a session could be served now."""
    async with httpx.AsyncClient(base_url=url) as client:
        try:
            return (await client.get("/v1/service/ready")).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False


async def play(house: House, timings: Timings) -> Session:
    """One person: create, join, see the world move, steer it, be watched. Returns the session."""
    started_s = time.monotonic()
    session = await house.create("ada")
    timings["create_ms"] = _ms_since(started_s)
    check(session.token, "a session has a token for its room")
    check(session.status == "assigned", f"the first one is admitted at once, not {session.status}")
    player = Player()
    try:
        joining_s = time.monotonic()
        await player.join(session.livekit_url, str(session.token))
        timings["join_ms"] = _ms_since(joining_s)
        await until(lambda: player.was_told("first_frame"), "the status first_frame")
        await until(lambda: player.real_frames, "the first frame that isn't black")
        timings["first_frame_ms"] = _ms_since(started_s)
        await _walk(player, timings)
        await _turn(player, timings)
        await _be_watched(house, session)
    finally:
        await player.leave()
    return session


async def _walk(player: Player, timings: Timings) -> None:
    """Hold w: at least 60 frames arrive and they differ."""
    before, started_s = player.real_frames, time.monotonic()
    seq = await player.hold("w")
    await until(lambda: player.was_told("control_ack", seq=seq), "the acknowledgement of w")
    deadline_s = started_s + 20
    while player.real_frames < before + FRAMES_WANTED:
        check(time.monotonic() < deadline_s, f"{FRAMES_WANTED} frames arrive within 20 s")
        await player.hold("w")  # as a page does: a held key is said again each second
        await asyncio.sleep(0.5)
    timings["fps"] = round((player.real_frames - before) / (time.monotonic() - started_s), 2)
    moved = sum(change > 0.5 for change in _changes(player, FRAMES_WANTED))
    check(
        moved >= FRAMES_WANTED // 2, f"the picture moves while w is held, in {moved} of 60 frames"
    )


async def _turn(player: Player, timings: Timings) -> None:
    """Let go, wait until the world rests, then turn: the time until the picture answers."""
    walking = statistics.median(_changes(player, FRAMES_WANTED))
    seq = await player.hold()
    await until(
        lambda: player.was_told("control_ack", seq=seq), "the acknowledgement of letting go"
    )
    await until(lambda: max(_changes(player, _RESTING)) < walking / 2, "the world rests")
    # Something always moves a little, a cloud or a flag: a turn moves everything at once.
    answer = 1.5 * max(_changes(player, _RESTING)) + 0.5
    started_s = time.monotonic()
    seq = await player.hold("l")
    await until(lambda: player.seen[-1].change > answer, "the picture answers to a turn")
    timings["control_to_frame_ms"] = _ms_since(started_s)
    await until(lambda: player.was_told("control_ack", seq=seq), "the acknowledgement of the turn")
    await player.hold()


def _changes(player: Player, frames: int) -> list[float]:
    return [seen.change for seen in list(player.seen)[-frames:]]


async def _be_watched(house: House, session: Session) -> None:
    """A viewer gets frames of the same world."""
    token = await house.greenroom.viewer(session, "grace")
    viewer = Player()
    try:
        await viewer.join(token.livekit_url, token.token)
        await until(lambda: viewer.real_frames >= 10, "ten frames at the viewer's")
    finally:
        await viewer.leave()


async def wait_in_line(house: House, timings: Timings) -> None:
    """Fill all slots; the next one waits at position 1 and runs when somebody leaves."""
    for number in range(_MOST_SLOTS):
        session = await house.create(f"guest-{number}")
        if session.status == "queued":
            break
    check(session.status == "queued", "somebody has to wait once all slots are taken")
    check(session.queue_position == 1, f"position 1, not {session.queue_position}")
    waiting = Player()
    try:
        await waiting.join(session.livekit_url, str(session.token))
        started_s = time.monotonic()
        await house.end(next(one for one in house.open if one != session))
        await house.becomes(session, "running")
        timings["queued_to_running_ms"] = _ms_since(started_s)
        await until(lambda: waiting.real_frames, "a frame for the one who waited")
    finally:
        await waiting.leave()


async def drive(port: int, timings: Timings, started_s: float) -> None:
    """Drive the running stack from the outside."""
    house = House(f"http://127.0.0.1:{port}")
    async with house.greenroom:
        while not await is_ready(f"http://127.0.0.1:{port}"):
            check(time.monotonic() < started_s + 60, "everything is ready within 60 s")
            await asyncio.sleep(0.02)
        timings["ready_s"] = round(time.monotonic() - started_s, 2)
        first = await play(house, timings)
        await wait_in_line(house, timings)
        if first in house.open:
            await house.end(first)
        await asyncio.gather(*(house.end(session) for session in list(house.open)))
        await house.becomes(first, "closed")
        await asyncio.sleep(1)  # the SDK still tidies up after a disconnect


def stop(stack: subprocess.Popen[bytes], folder: Path) -> None:
    """Press Ctrl-C: it ends well, and nothing of it is left."""
    stack.send_signal(signal.SIGINT)
    try:
        check(stack.wait(timeout=20) == 0, f"Ctrl-C ends with status 0, not {stack.returncode}")
    except subprocess.TimeoutExpired:
        raise Broken("Ctrl-C ends everything within 20 s") from None
    left = [
        entry.parent.name for entry in Path("/proc").glob("[0-9]*/cmdline") if _is_of(entry, folder)
    ]
    check(not left, f"no process is left, but {', '.join(left)}")


def _is_of(entry: Path, folder: Path) -> bool:
    with contextlib.suppress(OSError):
        told = entry.read_bytes() + entry.with_name("environ").read_bytes()
        # Redis overwrites its command and environment with a title, but works in its folder.
        where = str(entry.with_name("cwd").readlink())
        return str(folder).encode() in told or str(folder) in where
    return False


def _ms_since(started_s: float) -> float:
    return round((time.monotonic() - started_s) * 1000, 1)


def main() -> int:
    """Run it; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--started", type=float, default=time.time(), help="when set-up began")
    timings: Timings = {"setup_s": round(max(0.0, time.time() - parser.parse_args().started), 2)}
    for name in [name for name in os.environ if name.lower() in _PROXIES]:
        del os.environ[name]  # the SDK would send its signalling there, loopback or not
    with tempfile.TemporaryDirectory(prefix="greenroom-smoke-") as name:
        folder, port = Path(name), free_port()
        try:
            with running_stack(folder, port) as stack:
                asyncio.run(drive(port, timings, time.monotonic()))
                stop(stack, folder)
        except (Broken, TimeoutError, Problem, SessionOver) as fault:
            sys.stderr.write(f"The smoke test failed: {type(fault).__name__}: {fault}\n")
            return 1
    sys.stdout.write(json.dumps(timings) + "\n")
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the SDK's native threads may abort an orderly exit
