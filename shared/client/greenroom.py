"""How does a program make the calls of the API, and which of them does it repeat?

Every call may be repeated here: a create call carries one Idempotency-Key through all its tries, so
it makes one session however often an answer is lost. What a server says may be tried again is tried
again until `patience_s` is over, after the time that it names. That the line is full is an answer
and isn't tried again.

A session is created with the API key; all about it is asked with its own session token.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
import uuid
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import httpx

from shared.client.answers import ENDED, ON_STAGE, News, Session, Status, Token
from shared.client.event_lines import EventLines
from shared.client.problems import Problem, Refused, SessionOver, problem_of, unreachable

_SESSIONS = "/v1/stream/sessions"
_BACKOFF_S = (0.1, 0.25, 0.5, 1.0, 2.0)
_SILENCE_S = 40.0
"""A stream says something every 15 seconds."""
_FIRST_WORD_S = 5.0
"""After that long without a word, something in between holds the stream back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    method: str
    path: str
    bearer: str
    body: Mapping[str, object] | None = None
    key: str = ""

    @property
    def headers(self) -> dict[str, str]:
        known = {"Idempotency-Key": self.key, "Authorization": _bearer(self.bearer)}
        return {name: value for name, value in known.items() if value}


class Greenroom:
    """One server, or many replicas behind one address; use it with ``async with``."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str = "",
        patience_s: float = 15.0,
        timeout_s: float = 15.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Make a client of the server at *url*; nothing is sent yet.

        Args:
            url: Such as ``http://127.0.0.1:8088``.
            api_key: Of a closed server, with the scope create.
            patience_s: How long a call that may be tried again is tried again.
            timeout_s: For one try; ending a session may take ten seconds.
            transport: Where calls go instead; for tests.

        Raises:
            ValueError: The address or the key can't be one; it says why.
        """
        _check_address(url)
        _check_for_header("api_key", api_key)
        self._api_key = api_key
        self._patience_s = patience_s
        self._http = httpx.AsyncClient(base_url=url, timeout=timeout_s, transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; sessions live on."""
        await self._http.aclose()

    async def create(
        self,
        identity: str,
        *,
        prompt: str | None = None,
        config: Mapping[str, object] | None = None,
        pool: str | None = None,
        image_path: str | None = None,
        idempotency_key: str = "",
    ) -> Session:
        """Create a session: assigned at once, or in line.

        Args:
            identity: Who controls it.
            prompt: What the world should be.
            config: For the service.
            pool: None: the server's first one.
            image_path: Below the node's asset root.
            idempotency_key: Of one's own, kept for after a restart; empty: a new one.

        Raises:
            Refused: Nobody can be taken in now.
            Problem: As the server says.
            ValueError: *idempotency_key* can't be sent.
        """
        _check_for_header("idempotency_key", idempotency_key)
        wanted = {"prompt": prompt, "config": config, "pool": pool, "image_path": image_path}
        body = {name: value for name, value in wanted.items() if value is not None}
        call = _Call(
            method="POST",
            path=_SESSIONS,
            bearer=self._api_key,
            body={"identity": identity, "role": "controller", **body},
            key=idempotency_key or uuid.uuid4().hex,
        )
        return Session.of(await self._answer(call))

    async def status(self, session: Session) -> Status:
        """Return how it stands; for one that waits also a sign of life."""
        return Status.of(await self._answer(_about(session, "GET")))

    async def end(self, session: Session) -> str:
        """End it; returns its state, which is ``draining`` if the clean-up takes long."""
        return str((await self._answer(_about(session, "DELETE")))["status"])

    async def renew(self, session: Session) -> Session:
        """Return the session with a fresh token, to join its room again."""
        body = {"role": "controller"}
        token = Token.of(await self._answer(_about(session, "POST", "/tokens", body)))
        return replace(session, token=token.token, livekit_url=token.livekit_url)

    async def viewer(self, session: Session, identity: str) -> Token:
        """Return a token for somebody who watches."""
        body = {"identity": identity, "role": "viewer"}
        return Token.of(await self._answer(_about(session, "POST", "/tokens", body)))

    async def wait(
        self,
        session: Session,
        *,
        until: Collection[str] = ON_STAGE,
        timeout_s: float | None = None,
    ) -> Session:
        """Wait until the session is in one of the states *until*; returns it with a fresh token.

        Raises:
            SessionOver: It ended before.
            TimeoutError: It isn't there after *timeout_s*; it goes on waiting.
            Problem: As the server says.
        """
        async with asyncio.timeout(timeout_s), aclosing(self.follow(session)) as told:
            async for news in told:
                if news.status in until:
                    ended = news.status in ENDED
                    now = replace(session, status=str(news.status), worker_id=news.node_id)
                    return replace(now, token=None) if ended else await self.renew(now)
                if news.is_last:
                    raise SessionOver(status=news.status, reason=news.reason, error=news.error)
        raise SessionOver(status=None, reason="unknown_session", error=None)

    async def follow(self, session: Session) -> AsyncGenerator[News, None]:
        """Yield what happens to a session, its present state first, until it has ended.

        By the server's events, on whichever replica; a stream that was cut is gone on with. Where
        none comes through, the session is asked for instead, as often as the server wishes.
        """
        lines, failed = EventLines(), 0
        while True:
            heard = False
            async with aclosing(self._stream(session, lines)) as stream:
                async for news in stream:
                    if news is None:
                        return
                    heard = True
                    yield news
                    if news.is_last:
                        return
            failed = 0 if heard else failed + 1
            if not heard:
                now = News.of_status(await self.status(session))
                yield now
                if now.is_last:
                    return
            await asyncio.sleep(max(lines.retry_s, _backoff_s(failed)))

    async def _stream(
        self, session: Session, lines: EventLines
    ) -> AsyncGenerator[News | None, None]:
        """Yield the events of one connection; None: there is nothing more to tell."""
        headers = {"Accept": "text/event-stream", "Authorization": _bearer(session.session_token)}
        if lines.last_id:
            headers["Last-Event-ID"] = lines.last_id
        lines.begin()
        path = f"{_SESSIONS}/{session.session_id}/events"
        try:
            async with asyncio.timeout(_FIRST_WORD_S):
                asked = self._http.build_request("GET", path, headers=headers, timeout=_SILENCE_S)
                answer = await self._http.send(asked, stream=True)
        except (httpx.TransportError, TimeoutError):
            return
        try:
            if answer.status_code == httpx.codes.NO_CONTENT:
                yield None
                return
            await _check_stream(answer)
            async with aclosing(_chunks(answer)) as chunks:
                async for chunk in chunks:
                    for event in lines.feed(chunk):
                        yield News.of_event(event.name, json.loads(event.data))
        except (httpx.TransportError, TimeoutError):
            return
        finally:
            await answer.aclose()

    async def _answer(self, call: _Call) -> Mapping[str, Any]:
        """Return a call's answer; tries again what may be tried again."""
        until_s, tries = time.monotonic() + self._patience_s, 0
        while True:
            try:
                return await self._try(call)
            except Problem as refused:
                wait_s = max(refused.retry_after_s or 0.0, _backoff_s(tries))
                if not _may_pass(refused) or time.monotonic() + wait_s > until_s:
                    raise
                tries += 1
            await asyncio.sleep(wait_s)

    async def _try(self, call: _Call) -> Mapping[str, Any]:
        try:
            answer = await self._http.request(
                call.method, call.path, headers=call.headers, json=call.body
            )
        except httpx.TransportError as fault:
            raise unreachable(type(fault).__name__) from fault
        if not answer.is_success:
            raise _problem(answer)
        told: Mapping[str, Any] = answer.json()
        return told


def _about(
    session: Session, method: str, more: str = "", body: Mapping[str, object] | None = None
) -> _Call:
    path = f"{_SESSIONS}/{session.session_id}{more}"
    return _Call(method=method, path=path, bearer=session.session_token, body=body)


def _bearer(credential: str) -> str:
    return f"Bearer {credential}" if credential else ""


def _problem(answer: httpx.Response) -> Problem:
    try:
        body = answer.json()
    except ValueError:
        body = None
    return problem_of(answer.status_code, body, answer.headers.get("retry-after"))


def _may_pass(refused: Problem) -> bool:
    """Whether another try may end otherwise soon; a full line is an answer."""
    if isinstance(refused, Refused):
        return refused.code == "rate_limited"
    return refused.retryable


def _backoff_s(tries: int) -> float:
    """Spread, so that many clients of one fault don't come back together."""
    most = _BACKOFF_S[min(tries, len(_BACKOFF_S) - 1)]
    return most * random.uniform(0.5, 1.0)  # noqa: S311


async def _check_stream(answer: httpx.Response) -> None:
    """Raise why there is no stream, as if it had broken off where another try may help."""
    if answer.is_success:
        return
    await answer.aread()
    refused = _problem(answer)
    if refused.retryable:
        raise httpx.RemoteProtocolError(refused.code)
    raise refused


async def _chunks(answer: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Yield what comes; raises `TimeoutError` when nothing does for too long."""
    parts, limit_s = answer.aiter_raw(), _FIRST_WORD_S
    while True:
        async with asyncio.timeout(limit_s):
            chunk = await anext(parts, b"")
        if not chunk:
            return
        limit_s = _SILENCE_S
        yield chunk


def _check_address(url: str) -> None:
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url!r} is no address of a server: {error}.") from None
    is_whole = parts.scheme in ("http", "https") and parts.host and not url.count(" ")
    if not is_whole or not 0 < (parts.port or 80) < 65_536:
        raise ValueError(f"{url!r} is no address of a server; it looks like http://127.0.0.1:8088.")


def _check_for_header(name: str, value: str) -> None:
    """Refuse what no HTTP header can carry, before httpx fails at it in the middle of a call."""
    if not (value.isascii() and value.isprintable() and value == value.strip()):
        raise ValueError(f"{name} may hold printable ASCII characters only, and no space around.")
