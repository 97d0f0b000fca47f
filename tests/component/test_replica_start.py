"""The replica as a process: it starts, says where it listens, and ends cleanly or says why not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
from collections.abc import Iterator

import httpx
import pytest

from shared.ids import new_session_id
from shared.records import OpenRequest, SessionLimits, SessionRequest
from shared.states import Reason, SessionState
from shared.store import Registry
from tests.support.played_node import PlayedNode
from tests.support.replica import SESSIONS
from tests.support.replica_process import ReplicaProcess, Start
from tests.support.wait import wait_until, wait_until_sync

_STREAMS = "greenroom_event_streams"


@pytest.fixture
def start(start_replica: Start) -> Start:
    """Start a replica as a process."""
    return start_replica


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


async def test_it_says_that_it_isnt_ready_before_it_stops_to_listen(
    start: Start, registry: Registry
) -> None:
    """For as long as it was told to: requests and streams are served meanwhile."""
    session_id = await waiting_session(registry)
    replica = start(STOP_NOTICE_S="60")
    async with (
        httpx.AsyncClient(base_url=replica.address()) as client,
        client.stream("GET", f"{SESSIONS}/{session_id}/events") as stream,
    ):
        lines = stream.aiter_lines()
        await anext(lines)
        assert (await client.get("/v1/service/ready")).json()["stopping"] is False
        replica.signal(signal.SIGTERM)

        async def says_so() -> bool:
            answer = await client.get("/v1/service/ready")
            return answer.status_code == 503 and answer.json()["stopping"]

        await wait_until(says_so, "it isn't ready any more")
        assert (await client.get(f"{SESSIONS}/{session_id}")).json()["status"] == "queued"
        async with client.stream("GET", f"{SESSIONS}/{session_id}/events") as late:
            told = late.aiter_lines()
            assert "event: queued" in [await anext(told) for _ in range(3)]
        replica.signal(signal.SIGTERM)  # asked twice, it waits no longer
        rest = [line async for line in lines]
    assert re.fullmatch(r"retry: \d+", rest[-2])
    assert await asyncio.to_thread(replica.result) == (0, "")


async def test_a_call_under_way_is_answered_before_it_ends(
    start: Start, registry: Registry, redis_url: str
) -> None:
    """A DELETE that waits for the clean-up hears of it, though nobody new gets in."""
    session_id = await waiting_session(registry)
    node = await PlayedNode.begin(registry, redis_url, ttl_s=600)
    await node.play(session_id)
    replica = start()
    address = replica.address()
    async with httpx.AsyncClient(base_url=address, timeout=30) as client:
        path = f"{SESSIONS}/{session_id}"
        ending = asyncio.create_task(client.delete(path))

        async def drains() -> bool:
            return (await registry.read(session_id)).state is SessionState.DRAINING

        await wait_until(drains, "the call is under way")
        replica.signal(signal.SIGTERM)

        async def nobody_gets_in() -> bool:
            try:
                async with httpx.AsyncClient(base_url=address) as stranger:
                    await stranger.get("/v1/service/health")
            except httpx.ConnectError:
                return True
            return False

        await wait_until(nobody_gets_in, "it doesn't listen any more")
        await node.end(session_id, Reason.CLIENT_STOP)
        answer = await ending
    assert (answer.status_code, answer.json()["status"]) == (200, "closed")
    assert await asyncio.to_thread(replica.result) == (0, "")
    await node.retire()


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


@pytest.mark.parametrize("piece", [b"X-A: " + b"a" * 1000 + b"\r\n", b"a" * 1000])
def test_a_head_without_an_end_is_not_kept(start: Start, piece: bytes) -> None:
    """Nobody needs a key to send one, so it may not fill the memory; others are served on."""
    host, port = start().address().removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as sender:
        sender.sendall(b"GET /v1/stream/health HTTP/1.1\r\nHost: a\r\nX-B: ")
        with contextlib.suppress(OSError):  # the answer may come while more is sent
            for _ in range(1000):
                sender.sendall(piece)
        with contextlib.suppress(ConnectionError):
            assert b"400 Bad Request" in sender.recv(1000)
            assert sender.recv(1000) == b""
    with httpx.Client(base_url=f"http://{host}:{port}") as client:
        assert client.get("/v1/stream/health", headers={"X-A": "a" * 8000}).status_code == 200


def test_a_replica_that_others_can_reach_makes_a_key_and_tells_it_once(start: Start) -> None:
    """On standard error alone, so that it ends in no log; whoever has it is let in."""
    replica = start(HOST="0.0.0.0")
    port = replica.address().rsplit(":", 1)[1]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        assert client.get(SESSIONS).status_code == 401
        assert client.get("/v1/stream/health").status_code == 200
        replica.signal(signal.SIGTERM)
    _, told = replica.result()
    (key,) = re.findall(r"^grk_admin_\S+$", told, re.MULTILINE)
    again = start(HOST="0.0.0.0")
    port = again.address().rsplit(":", 1)[1]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        assert client.get(SESSIONS, headers={"Authorization": f"Bearer {key}"}).status_code == 200
        again.signal(signal.SIGTERM)
    _, told = again.result()
    assert key not in told


def test_no_auth_and_a_key_contradict_each_other(start: Start) -> None:
    """Exit 2: it must not be left to a guess whether the replica is open."""
    replica = start(NO_AUTH="1", ADMIN_KEY="k" * 32)

    assert_mistake(replica, "--no-auth", "--admin-key")


@pytest.mark.parametrize(("options", "access"), [({}, "open"), ({"ADMIN_KEY": "k" * 32}, "closed")])
def test_each_start_says_whether_a_key_is_needed(
    start: Start, options: dict[str, str], access: str
) -> None:
    """Whoever deletes the file of its key finds out from the log."""
    replica = start(**options)
    replica.address()

    def started() -> list[str]:
        return [line for line in replica.said if "replica_started" in line]

    wait_until_sync(lambda: bool(started()), "it says that it has started")
    assert json.loads(started()[0])["access"] == access


def test_other_machines_may_be_let_in_on_purpose(start: Start) -> None:
    """With --no-auth it listens everywhere."""
    address = start(HOST="0.0.0.0", NO_AUTH="true").address()

    assert address.startswith("http://0.0.0.0:")


def test_an_unknown_host_is_told(start: Start) -> None:
    """Exit 2 with the name."""
    assert_mistake(start(HOST="no.such.host.invalid", NO_AUTH="1"), "no.such.host.invalid")
