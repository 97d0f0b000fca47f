"""The client's calls: what is repeated, with which key, after which time, and what isn't."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import httpx
import pytest

from control_plane.api import examples
from shared.client import (
    Conflict,
    Greenroom,
    Invalid,
    NotAllowed,
    NotFound,
    Problem,
    Refused,
    Session,
    Unavailable,
)

CREATED = examples.ANSWERS["post", "/v1/stream/sessions", "200"]
STATUS = examples.ANSWERS["get", "/v1/stream/sessions/{session_id}", "200"]
Step = httpx.Response | Exception


class Server:
    """Answers as told, one step for each call, and keeps what was asked."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


def client_of(server: Server, **options: float) -> Greenroom:
    """Return a client of that server."""
    return Greenroom(
        "http://test", api_key="grk_x", transport=httpx.MockTransport(server), **options
    )


def ok(body: object) -> httpx.Response:
    """An answer that holds."""
    return httpx.Response(200, json=body)


def refused(status: int, code: str, *, retryable: bool, after: str = "") -> httpx.Response:
    """An answer that refuses."""
    body = {"code": code, "message": "No.", "retryable": retryable, "detail": "queue_full"}
    return httpx.Response(status, json=body, headers={"Retry-After": after} if after else {})


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nobody waits; how long it would have been is kept, and the clock moves by it."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("shared.client.greenroom.asyncio.sleep", sleep)
    monkeypatch.setattr("shared.client.greenroom.time.monotonic", lambda: sum(waited))
    return waited


async def test_a_create_call_keeps_its_key_through_all_tries(waits: list[float]) -> None:
    """However often an answer is lost, there is one session."""
    lost = httpx.ReadError("cut")
    server = Server(lost, httpx.Response(502, text="<html>"), ok(CREATED))
    async with client_of(server) as client:
        session = await client.create("ada")

    keys = {request.headers["idempotency-key"] for request in server.asked}
    assert len(server.asked) == 3
    assert len(keys) == 1
    assert all(keys)
    assert (session.session_id, session.status) == (examples.SESSION_ID, "assigned")
    assert len(waits) == 2


async def test_each_create_call_has_a_key_of_its_own() -> None:
    """Two calls are two sessions, unless the caller brings a key."""
    server = Server(ok(CREATED), ok(CREATED), ok(CREATED))
    async with client_of(server) as client:
        for key in ("", "", "mine"):
            await client.create("ada", idempotency_key=key)

    first, second, mine = (request.headers["idempotency-key"] for request in server.asked)
    assert first != second
    assert mine == "mine"


async def test_a_server_says_when_to_come_back(waits: list[float]) -> None:
    """Retry-After counts where it is longer than one's own patience between tries."""
    busy = refused(503, "store_unavailable", retryable=True, after="3")
    async with client_of(Server(busy, ok(CREATED))) as client:
        await client.create("ada")

    assert waits == [3.0]


async def test_patience_ends(waits: list[float]) -> None:
    """Nobody waits longer than was said, and hears why."""
    busy = (refused(503, "store_unavailable", retryable=True, after="4") for _ in itertools.count())
    server = Server(*itertools.islice(busy, 10))
    async with client_of(server, patience_s=9) as client:
        with pytest.raises(Unavailable) as told:
            await client.create("ada")

    assert told.value.code == "store_unavailable"
    assert waits == [4.0, 4.0]


async def test_too_many_calls_are_waited_out(waits: list[float]) -> None:
    """A limit on how often passes by itself."""
    often = refused(429, "rate_limited", retryable=True, after="1")
    async with client_of(Server(often, ok(CREATED))) as client:
        await client.create("ada")

    assert waits == [1.0]


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "no_credentials", NotAllowed),
        (403, "scope_missing", NotAllowed),
        (404, "unknown_session", NotFound),
        (409, "idempotency_mismatch", Conflict),
        (413, "body_too_large", Invalid),
        (422, "invalid_request", Invalid),
        (429, "busy", Refused),
        (500, "internal_error", Unavailable),
    ],
)
async def test_what_is_an_answer_is_told_at_once(
    waits: list[float], status: int, code: str, kind: type[Problem]
) -> None:
    """As a problem of its kind, with the server's word for it."""
    server = Server(refused(status, code, retryable=status == 429, after="5"))
    async with client_of(server) as client:
        with pytest.raises(kind) as told:
            await client.create("ada")

    assert (told.value.status, told.value.code, told.value.detail) == (status, code, "queue_full")
    assert waits == []


async def test_nobody_there_is_told_without_the_address(waits: list[float]) -> None:
    """As unavailable, once patience is over; an address may hold a password."""
    fault = httpx.ConnectError("http://user:secret@test refused")
    server = Server(*[fault] * 50)
    async with client_of(server, patience_s=3) as client:
        with pytest.raises(Unavailable) as told:
            await client.create("ada")

    assert told.value.code == "unreachable"
    assert "secret" not in str(told.value)
    assert sum(waits) <= 3


ABOUT_ONE: dict[str, Callable[[Greenroom, Session], object]] = {
    "status": lambda client, session: client.status(session),
    "renew": lambda client, session: client.renew(session),
    "viewer": lambda client, session: client.viewer(session, "grace"),
    "end": lambda client, session: client.end(session),
}


@pytest.mark.parametrize("call", list(ABOUT_ONE))
async def test_a_session_is_asked_about_with_its_own_token(call: str) -> None:
    """The key is for creating alone, so nobody who looks on later sees it."""
    token = examples.ANSWERS["post", "/v1/stream/sessions/{session_id}/tokens", "200"]
    answers = {"status": STATUS, "end": {"status": "closed"}}
    server = Server(ok(CREATED), ok(answers.get(call, token)))
    async with client_of(server) as client:
        session = await client.create("ada")
        await ABOUT_ONE[call](client, session)  # type: ignore[misc]

    created, asked = (request.headers["authorization"] for request in server.asked)
    assert (created, asked) == ("Bearer grk_x", f"Bearer {session.session_token}")
    assert session.session_token not in repr(session)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8088",
        "localhost",
        "ftp://127.0.0.1",
        "http://",
        "http://[::1",
        "http://a:b",
        "http://a:99999",
        "http://a b",
    ],
)
def test_an_address_that_is_none_is_refused_before_any_call(url: str) -> None:
    """Instead of a quarter of a minute of tries."""
    with pytest.raises(ValueError, match="no address of a server"):
        Greenroom(url)


@pytest.mark.parametrize("key", ["grk_schlüssel", "grk_x\n", "grk_\x00", "grk_x ", " "])
async def test_a_key_that_no_header_can_carry_is_refused(key: str) -> None:
    """In a sentence that doesn't repeat it."""
    with pytest.raises(ValueError, match=r"^api_key may hold printable"):
        Greenroom("http://test", api_key=key)
    with pytest.raises(ValueError, match=r"^idempotency_key may hold printable"):
        await client_of(Server()).create("ada", idempotency_key=key)
