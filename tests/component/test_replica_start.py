"""The replica as a process: it starts, says where it listens, and ends cleanly or says why not."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue

import httpx
import pytest

from shared.ids import new_session_id
from shared.records import OpenRequest, SessionLimits, SessionRequest
from shared.store import Registry
from tests.support.replica import API_KEY, API_SECRET, SESSIONS
from tests.support.wait import scaled_s, wait_until

ROOT = Path(__file__).parents[2]
Start = Callable[..., "ReplicaProcess"]
_STREAMS = "greenroom_event_streams"


class ReplicaProcess:
    """One ``python -m control_plane``."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "control_plane"],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def address(self) -> str:
        """Return what it says that it listens on."""
        while True:
            try:
                line = self._lines.get(timeout=scaled_s(15))
            except Empty:
                raise AssertionError("it never said where it listens") from None
            if found := re.fullmatch(r"listening on (http://\S+)\n", line):
                return found[1]

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def result(self) -> tuple[int, str]:
        """Wait for its end; returns the exit code and what it wrote to standard error."""
        code = self._process.wait(scaled_s(20))
        assert self._process.stderr is not None
        return code, self._process.stderr.read()

    def close(self) -> None:
        """Leave nothing of it."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def start(redis_url: str, tmp_path: Path) -> Iterator[Start]:
    """Start replicas with given options; none of them outlives the test."""
    started: list[ReplicaProcess] = []

    def start_one(**options: str) -> ReplicaProcess:
        known = {
            "REDIS_URL": redis_url,
            "LIVEKIT_URL": "ws://127.0.0.1:9",
            "LIVEKIT_API_KEY": API_KEY,
            "LIVEKIT_API_SECRET": API_SECRET,
            "DATA_DIR": str(tmp_path),
            "PORT": "0",
        }
        environment = {name: value for name, value in os.environ.items() if "LIVEKIT" not in name}
        given = {name: value for name, value in (known | options).items() if value}
        environment.update((f"GREENROOM_{name}", value) for name, value in given.items())
        process = ReplicaProcess(environment)
        started.append(process)
        return process

    yield start_one
    for process in started:
        process.close()


def assert_mistake(process: ReplicaProcess, *words: str) -> None:
    """Check that it ended as an operator's mistake: exit 2, a sentence, a way out, no trace."""
    code, text = process.result()
    assert code == 2, text
    assert "Traceback" not in text
    sentence, way_out = text.splitlines()
    assert sentence.endswith(".")
    assert way_out.startswith("Try: ")
    for word in words:
        assert word in text


def test_it_says_where_it_listens_and_serves(start: Start) -> None:
    """Port 0 picks a free one; the printed address answers."""
    address = start().address()

    with httpx.Client(base_url=address) as client:
        health = client.get("/v1/stream/health")
        create = client.post(SESSIONS, json={"identity": "alice"})

    assert health.json()["status"] == "unhealthy"  # nobody plays LiveKit or a node here
    assert create.status_code == 503


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "in pieces"])
@pytest.mark.parametrize(
    ("headers", "mebibytes", "status"),
    [
        ({}, 20, 413),
        ({"Host": "evil.example"}, 8, 403),
        ({"Origin": "https://evil.example"}, 8, 403),
    ],
    ids=["too large", "a foreign host", "a foreign origin"],
)
def test_whoever_sends_a_refused_body_to_its_end_hears_why(
    start: Start, headers: dict[str, str], mebibytes: int, status: int, announced: bool
) -> None:
    """The connection isn't reset under the answer: it's read first, then closed."""
    address = start().address()
    length = {"Content-Length": str(mebibytes << 20)} if announced else {}

    def body() -> Iterator[bytes]:
        for _ in range(mebibytes):
            yield bytes(1 << 20)

    with httpx.Client(base_url=address) as client:
        answer = client.post(SESSIONS, content=body(), headers=headers | length)

    assert answer.status_code == status
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_cleanly(start: Start, number: signal.Signals) -> None:
    """SIGTERM and Ctrl-C end it with exit 0 and no word of complaint."""
    replica = start()
    replica.address()

    replica.signal(number)

    assert replica.result() == (0, "")


async def test_its_event_streams_end_when_it_stops(start: Start, registry: Registry) -> None:
    """They would go on for ever: each gets a hint when to come back, and the stop is quick."""
    session_id = await waiting_session(registry)
    replica = start()
    async with (
        httpx.AsyncClient(base_url=replica.address()) as client,
        client.stream("GET", f"{SESSIONS}/{session_id}/events") as stream,
    ):
        lines = stream.aiter_lines()
        assert "event: queued" in [await anext(lines) for _ in range(3)]
        replica.signal(signal.SIGTERM)
        rest = [line async for line in lines]
    assert re.fullmatch(r"retry: \d+", rest[-2])
    assert await asyncio.to_thread(replica.result) == (0, "")


async def test_a_client_that_closes_its_connection_is_noticed(
    start: Start, registry: Registry
) -> None:
    """Nothing is left of its stream."""
    session_id = await waiting_session(registry)
    async with httpx.AsyncClient(base_url=start().address()) as client:

        async def streams() -> str:
            text = (await client.get("/metrics")).text
            return next(line for line in text.splitlines() if line.startswith(_STREAMS))

        async with client.stream("GET", f"{SESSIONS}/{session_id}/events") as stream:
            lines = stream.aiter_lines()
            await anext(lines)
            assert await streams() == f"{_STREAMS} 1.0"

        async def is_gone() -> bool:
            return await streams() == f"{_STREAMS} 0.0"

        await wait_until(is_gone, "nothing is left of the stream")


async def waiting_session(registry: Registry) -> str:
    """Open a session that no node will serve."""
    session_id = new_session_id("default")
    await registry.open(
        OpenRequest(
            pool="default",
            session_id=session_id,
            request=SessionRequest(identity="alice"),
            limits=SessionLimits(),
            queue_size=9,
        )
    )
    return session_id


def test_a_port_in_use_is_told(start: Start) -> None:
    """Exit 2 with the port's number."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert_mistake(start(PORT=port), port, "in use")


def test_missing_livekit_settings_are_all_listed(start: Start) -> None:
    """Exit 2 with every missing option."""
    replica = start(LIVEKIT_URL="", LIVEKIT_API_KEY="", LIVEKIT_API_SECRET="")

    assert_mistake(replica, "--livekit-url", "--livekit-api-key", "--livekit-api-secret")


def test_an_unreachable_redis_is_told(start: Start) -> None:
    """Exit 2 after at most five seconds of trying."""
    assert_mistake(start(REDIS_URL="redis://127.0.0.1:9/0"), "Redis", "--redis-url")


def test_other_machines_need_no_auth_to_be_said(start: Start) -> None:
    """Exit 2: nobody checks who is calling yet."""
    assert_mistake(start(HOST="0.0.0.0"), "0.0.0.0", "--no-auth")


def test_other_machines_may_be_let_in_on_purpose(start: Start) -> None:
    """With --no-auth it listens everywhere."""
    address = start(HOST="0.0.0.0", NO_AUTH="true").address()

    assert address.startswith("http://0.0.0.0:")


def test_an_unknown_host_is_told(start: Start) -> None:
    """Exit 2 with the name."""
    assert_mistake(start(HOST="no.such.host.invalid", NO_AUTH="1"), "no.such.host.invalid")
