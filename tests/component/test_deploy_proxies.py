"""Do the shipped proxies repeat what may run twice, and nothing else, and pass events on at once?

Real nginx and HAProxy with the shipped files. Behind them stand servers that fail on purpose, as a
replica does that is killed at the worst moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from shared.embedded.ports import free_port
from tests.support.load_balancer import is_installed, load_balancer
from tests.support.wait import scaled_s, wait_until

SESSIONS = "/v1/stream/sessions"
EVENTS = f"{SESSIONS}/default-a/events"
KEYED = {"idempotency-key": "one"}
TIMES = 6
"""Often enough that each of two replicas is chosen."""
REPEATABLE = [
    ("GET", f"{SESSIONS}/default-a", {}),
    ("DELETE", f"{SESSIONS}/default-a", {}),
    ("POST", SESSIONS, KEYED),
    ("POST", f"{SESSIONS}/default-a/tokens", {}),
    ("POST", "/v1/livekit/webhook", {}),
]


@dataclass(slots=True, kw_only=True)
class Behind:
    """A server behind the proxy that serves, or hangs up in mid-request, or says that it can't."""

    mode: str = "serves"
    port: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    """Requests by method and path, those for health left out."""

    _open: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one connection with one request."""
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            await self._answer(reader, writer)
        self._open.discard(task)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def aclose(self) -> None:
        """Leave no connection open."""
        pending = tuple(self._open)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, path = head.split()[:2]
        if length := re.search(r"content-length: (\d+)", head, re.IGNORECASE):
            await reader.readexactly(int(length[1]))
        is_probe = path.startswith("/v1/service/")
        if not is_probe:
            self.seen[f"{method} {path}"] += 1
        can_not = self.mode == "refuses" and path != "/v1/service/health"
        if is_probe or self.mode != "hangs up":
            writer.write(_reply(503 if can_not else 200))
            if path == EVENTS and not can_not:
                writer.write(b"data: first\n\n")
                await writer.drain()
                await reader.read()  # until the proxy leaves


def _reply(status: int) -> bytes:
    fields = f"HTTP/1.1 {status} Told\r\nConnection: close\r\nRetry-After: 7\r\n"
    return f"{fields}Content-Type: text/event-stream\r\n\r\n".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A client of the proxy, and the two servers behind it."""

    client: httpx.AsyncClient
    behind: tuple[Behind, Behind]

    async def statuses(self, method: str, path: str, headers: dict[str, str]) -> set[int]:
        """Ask several times; returns which statuses came."""
        asked = [await self.client.request(method, path, headers=headers) for _ in range(TIMES)]
        return {answer.status_code for answer in asked}


ADMISSION = {
    "nobody": {
        "127.0.0.0/8 2;": "127.0.0.0/8 0;",
        "players src 0.0.0.0/0 ::/0": "players src 192.0.2.1",
        "operators src 127.0.0.0/8": "operators src",
    },
    "player": {"127.0.0.0/8 2;": "127.0.0.0/8 1;", "operators src 127.0.0.0/8": "operators src"},
    "operator": {},
}
"""Who this machine is, and what is changed in the files for that."""


@pytest.fixture
def who() -> str:
    """Who this machine is to the proxy; a test may be somebody else."""
    return "operator"


@pytest_asyncio.fixture(params=["nginx", "haproxy"])
async def scene(request: pytest.FixtureRequest, tmp_path: Path, who: str) -> AsyncIterator[Scene]:
    """One of the proxies with two servers behind it, all serving."""
    behind = (Behind(), Behind())
    async with AsyncExitStack() as exits:
        for one in behind:
            server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
            exits.push_async_callback(one.aclose)
            exits.callback(server.close)
            one.port = server.sockets[0].getsockname()[1]
        if not is_installed(request.param):
            pytest.skip(f"{request.param} isn't installed")
        ports = [one.port for one in behind]
        proxy = load_balancer(request.param, tmp_path, free_port(), ports, ADMISSION[who])
        exits.enter_context(proxy.running())
        client = await exits.enter_async_context(
            httpx.AsyncClient(base_url=proxy.address, timeout=scaled_s(20), trust_env=False)
        )

        async def serves() -> bool:
            try:
                return (await client.get("/")).status_code in {200, 403}
            except httpx.TransportError:
                return False

        await wait_until(serves, "the proxy answers", timeout_s=20)
        yield Scene(client=client, behind=behind)


@pytest.mark.parametrize("failing", ["hangs up", "refuses"])
async def test_what_may_run_twice_never_fails(scene: Scene, failing: str) -> None:
    """One of two replicas fails in the middle of each request that it gets."""
    scene.behind[0].mode = failing
    for method, path, headers in REPEATABLE:
        assert await scene.statuses(method, path, headers) == {200}, (method, path)


async def test_a_create_without_a_key_is_sent_once(scene: Scene) -> None:
    """Nobody can tell whether the replica had already opened the session."""
    scene.behind[0].mode = scene.behind[1].mode = "hangs up"
    # HAProxy says nothing at all on a connection that it has used before, so each has its own.
    assert await scene.statuses("POST", SESSIONS, {"connection": "close"}) <= {502, 503}
    sent = sum(one.seen[f"POST {SESSIONS}"] for one in scene.behind)
    assert sent <= TIMES


async def test_events_come_at_once(scene: Scene) -> None:
    """The first one is there while the stream goes on."""
    async with scene.client.stream("GET", EVENTS) as stream:
        async for line in stream.aiter_lines():
            assert line == "data: first"
            break


async def test_when_no_replica_can_serve_their_own_words_arrive(scene: Scene) -> None:
    """A client reads when to come back, instead of the proxy's page."""
    for one in scene.behind:
        one.mode = "refuses"

    async def tells_when() -> bool:
        answer = await scene.client.get(f"{SESSIONS}/default-a")
        assert answer.status_code == 503
        return bool(answer.headers.get("retry-after") == "7")

    for _ in range(TIMES):
        await wait_until(tells_when, "the replicas' own answer comes through")


@pytest.mark.parametrize(
    ("who", "page", "create", "operate"),
    [("nobody", 403, 403, 403), ("player", 200, 200, 403), ("operator", 200, 200, 200)],
)
async def test_addresses_decide_who_gets_in(
    scene: Scene, page: int, create: int, operate: int
) -> None:
    """Nobody, who plays, who operates; LiveKit's events, which are signed, always get through."""
    ask = scene.client.request
    for path in ("/", f"{SESSIONS}/default-a", EVENTS + "/none"):
        assert (await ask("GET", path)).status_code == page, path
    assert (await ask("POST", SESSIONS)).status_code == create
    for path in (SESSIONS, f"{SESSIONS}/", "/metrics", "/%6detrics", "/v1/queue", "/openapi.json"):
        assert (await ask("GET", path)).status_code == operate, path
    assert (await ask("DELETE", "/v1/queue/default-a")).status_code == operate
    assert (await ask("POST", "/v1/livekit/webhook")).status_code == 200
