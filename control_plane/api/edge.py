"""What is checked before any route sees a request, and what is put on every answer?

- Host: a replica that listens on loopback only answers to this machine's own names. Otherwise a
  page anywhere could point a DNS name of its own at 127.0.0.1 and read along. Nor does it answer
  to whom a proxy on this machine lets in from elsewhere, if the proxy says so: one that says
  nothing can't be told from this machine. With keys, or with --no-auth, neither matters.
- Origin: a page of another origin may read nothing anyway (no CORS), but a browser would still send
  its POST or DELETE. What a browser says about the sender (Sec-Fetch-Site, else Origin against
  Host) decides; programs send neither and pass.
- Size: bodies over 16 MiB end in 413 and are never kept.
- Security headers; no caching of API answers, which hold tokens.

Pure ASGI: a wrapper of the framework's own kind would hide disconnects from the routes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control_plane.api.problems import problem
from shared.access_errors import ForeignCaller
from shared.errors import BodyTooLarge, ForeignHost, ForeignOrigin, GreenroomError

MAX_BODY_BYTES = 16 * 1024 * 1024
_DISCARDED_BYTES = 4 * MAX_BODY_BYTES
_DISCARD_WITHIN_S = 10.0
"""How much of a refused body is read, and for how long."""

_LOOPBACK_HOSTS = frozenset(("localhost", "127.0.0.1", "[::1]"))
_CALLERS_NAMED_BY = frozenset((b"x-forwarded-for", b"x-real-ip"))
_HARMLESS_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
_OWN_SENDERS = frozenset((b"same-origin", b"none"))
_ALWAYS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (
        b"permissions-policy",
        b"camera=(self), microphone=(self), display-capture=(), geolocation=()",
    ),
]
_OF_THE_API = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]
"""Its answers hold tokens, and none of them is a page, whatever somebody wrote into it."""


class Edge:
    """The outermost layer of a replica."""

    def __init__(
        self, app: ASGIApp, *, loopback_only: bool, host: str, allowed_origins: Sequence[str]
    ) -> None:
        self._app = app
        self._hosts = _LOOPBACK_HOSTS | {host} if loopback_only else None
        self._origins = frozenset(allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        extra = [*_ALWAYS, *_OF_THE_API] if scope["path"].startswith("/v1/") else _ALWAYS

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        headers = dict(scope["headers"])
        body = _Body(headers, receive)
        try:
            if self._hosts is not None:
                _check_is_from_here(self._hosts, scope["headers"])
            self._check_sender(scope["method"], headers)
            receive = await body.within_limit()
        except GreenroomError as error:
            await body.discard()
            answer = problem(error)
            answer.headers["Connection"] = "close"  # what is left of the body stays unread
            await answer(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _check_sender(self, method: str, headers: Mapping[bytes, bytes]) -> None:
        if method in _HARMLESS_METHODS:
            return
        sender, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
        if sender is None and origin is None:
            return
        host = headers.get(b"host", b"").decode("latin-1").lower()
        named = (origin or b"").decode("latin-1")
        if named in self._origins or "*" in self._origins:
            return
        own = sender in _OWN_SENDERS if sender is not None else _address_in(named) == host
        if not own:
            raise ForeignOrigin


def _check_is_from_here(hosts: frozenset[str], headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse another machine's name, and whoever a proxy says that it speaks for elsewhere.

    A name may come several times, and each line counts. So does nonsense, and a proxy that names
    itself but nobody that it speaks for.
    """
    through_proxy = False
    callers: list[str] = []
    for name, value in headers:
        text = value.decode("latin-1").lower()
        if name == b"host":
            if text and _name_of(text) not in hosts:
                raise ForeignHost
        elif name in _CALLERS_NAMED_BY:
            callers += text.split(",")
        elif name == b"forwarded":
            callers += _callers_of(text)
        elif name == b"via":
            through_proxy = True
    if (through_proxy and not callers) or not all(map(_is_here, callers)):
        raise ForeignCaller


def _callers_of(forwarded: str) -> Iterator[str]:
    """Yield whom each proxy in a Forwarded header (RFC 7239) spoke for; "": it doesn't say."""
    for element in forwarded.split(","):
        pairs = (pair.partition("=") for pair in element.split(";"))
        told = [value.strip().strip('"') for name, _, value in pairs if name.strip() == "for"]
        yield from (_without_port(caller) for caller in told or [""])


def _without_port(caller: str) -> str:
    """Return the address in ``192.0.2.7:80``, ``[2001:db8::1]:80`` or without a port."""
    if caller.startswith("["):
        return caller[1:].partition("]")[0]
    return caller.partition(":")[0]


def _is_here(caller: str) -> bool:
    """Whether this is an address of this machine's own; False for what is no address."""
    try:
        return ip_address(caller.strip()).is_loopback
    except ValueError:
        return False


def _name_of(host: str) -> str:
    """Return a Host header without its port."""
    end = host.rfind("]") + 1 if host.startswith("[") else host.find(":")
    return host[:end] if end > 0 else host


def _address_in(origin: str) -> str | None:
    """Return host and port of an Origin header; None for what no browser sends."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


class _Body:
    """One request's body before a route reads it."""

    __slots__ = ("_headers", "_over", "_receive")

    def __init__(self, headers: Mapping[bytes, bytes], receive: Receive) -> None:
        self._headers = headers
        self._receive = receive
        self._over = False
        """Nothing more of it will come."""

    async def within_limit(self) -> Receive:
        """Refuse a body over the limit: by its announced length, else by reading it so far."""
        announced = self._headers.get(b"content-length")
        if announced is not None:
            if not announced.isdigit() or int(announced) > MAX_BODY_BYTES:
                raise BodyTooLarge(limit_bytes=MAX_BODY_BYTES)
            return self._receive
        if b"transfer-encoding" not in self._headers:
            return self._receive
        return _replay(await self._read(), self._receive)

    async def discard(self) -> None:
        """Read what still comes of a refused body, within limits.

        A connection closed on somebody who still sends is reset, and the answer is lost with it.
        """
        if b"expect" in self._headers:  # that one asks first, and sends nothing after a refusal
            return
        left_bytes = _DISCARDED_BYTES
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_WITHIN_S):
                while left_bytes > 0 and not self._over:
                    left_bytes -= len(await self._next())

    async def _read(self) -> bytes:
        body = bytearray()
        while not self._over:
            body += await self._next()
            if len(body) > MAX_BODY_BYTES:
                raise BodyTooLarge(limit_bytes=MAX_BODY_BYTES)
        return bytes(body)

    async def _next(self) -> bytes:
        message = await self._receive()
        self._over = message["type"] != "http.request" or not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part


def _replay(body: bytes, receive: Receive) -> Receive:
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return unread.pop() if unread else await receive()

    return receive_again
