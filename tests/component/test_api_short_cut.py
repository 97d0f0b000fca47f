"""The short cut of create calls: past the framework, but with the same answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest
import pytest_asyncio
from starlette.types import Message, Receive, Scope, Send

from control_plane.api.edge import Edge
from control_plane.api.short_cut import ShortCut
from control_plane.app import Replica
from tests.support.replica import BASE_URL, SESSIONS, Client, assert_problem, served, settings_for
from tests.support.room_service import RoomService

BODY = {"identity": "alice", "config": {"fps": 16}}
OWN_PAGE = "https://app.example"


def short_cut_of(replica: Replica) -> ShortCut:
    """Return the layer in question."""
    assert isinstance(replica.app, Edge)
    assert isinstance(replica.app._app, ShortCut)
    return replica.app._app


@pytest_asyncio.fixture
async def ways(replica: tuple[Replica, Client]) -> AsyncIterator[tuple[Client, Client]]:
    """A client whose create calls take the short cut, and one of the same replica that can't."""
    parts, short = replica
    transport = httpx.ASGITransport(short_cut_of(parts)._app, raise_app_exceptions=False)
    async with Client(transport=transport, base_url=BASE_URL) as long:
        yield short, long


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (b'{"identity": "alice"}', {"Idempotency-Key": "one"}),
        (b"{", {}),
        (b"[]", {}),
        (b'{"identity": 7}', {}),
        (b'{"identity": "telefuser-x"}', {}),
        (b'{"identity": "alice", "pool": "nowhere"}', {}),
        (b'{"identity": "alice"}', {"Idempotency-Key": ""}),
    ],
)
async def test_both_ways_answer_alike(
    ways: tuple[Client, Client], content: bytes, headers: dict[str, str]
) -> None:
    """Status, type and body; what a fresh answer has anew is left out."""
    short, long = [await api.post(SESSIONS, content=content, headers=headers) for api in ways]
    fresh = {"token", "idempotent_replay"}

    assert short.status_code == long.status_code
    assert short.headers["content-type"] == long.headers["content-type"]
    assert {name: value for name, value in short.json().items() if name not in fresh} == {
        name: value for name, value in long.json().items() if name not in fresh
    }


async def test_a_bug_is_answered_and_told(
    replica: tuple[Replica, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 for the client, and the error itself for whoever logs it."""
    parts, api = replica

    async def breaks(_wish: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(parts.admission, "admit", breaks)
    assert_problem(await api.post(SESSIONS, json=BODY), 500, "internal_error")
    async with Client(transport=httpx.ASGITransport(parts.app), base_url=BASE_URL) as strict:
        with pytest.raises(ZeroDivisionError):
            await strict.post(SESSIONS, json=BODY)


async def test_who_leaves_before_the_body_is_there_gets_no_answer(
    replica: tuple[Replica, Client],
) -> None:
    """Nothing was asked for, so nothing is logged as an error."""
    parts, _ = replica
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {"type": "http", "method": "POST", "path": SESSIONS, "headers": []}
    await short_cut_of(parts)(scope, receive, send)

    assert sent[0]["status"] == 499


async def test_a_page_from_elsewhere_is_answered_with_what_its_browser_asks_for(
    redis_url: str, room_service: RoomService
) -> None:
    """Where other origins are allowed, their calls go where the framework adds the headers."""
    async with AsyncExitStack() as stack:
        settings = settings_for(redis_url, room_service.url, cors_origins=OWN_PAGE)
        _, api = await stack.enter_async_context(served(settings))
        answer = await api.post(SESSIONS, json=BODY, headers={"Origin": OWN_PAGE})

    assert answer.status_code == 202
    assert answer.headers["access-control-allow-origin"] == OWN_PAGE


async def test_only_the_create_call_is_cut_short(replica: tuple[Replica, Client]) -> None:
    """Whatever else comes goes on to the framework, untouched."""
    came: list[str] = []

    async def framework(scope: Scope, _receive: Receive, _send: Send) -> None:
        came.append(f"{scope.get('method', '')} {scope.get('path', '')}".strip())

    cut = ShortCut(framework, short_cut_of(replica[0])._endpoints, cors=False)
    for scope in (
        {"type": "lifespan"},
        {"type": "http", "method": "GET", "path": SESSIONS, "headers": []},
        {"type": "http", "method": "POST", "path": f"{SESSIONS}/", "headers": []},
    ):
        await cut(scope, _nothing, _nowhere)

    assert came == ["", f"GET {SESSIONS}", f"POST {SESSIONS}/"]


async def _nothing() -> Message:
    raise AssertionError("nobody reads")


async def _nowhere(_message: Message) -> None:
    raise AssertionError("nobody answers")
