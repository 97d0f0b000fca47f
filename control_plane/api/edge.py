"""What is checked before any route sees a request, and what is put on every answer?

- Host: a replica that listens on loopback only answers to this machine's own names. Otherwise a
  page anywhere could point a DNS name of its own at 127.0.0.1 and read along.
- Origin: a page of another origin may read nothing anyway (no CORS), but a browser would still send
  its POST or DELETE. What a browser says about the sender (Sec-Fetch-Site, else Origin against
  Host) decides; programs send neither and pass.
- Size: bodies over 16 MiB end in 413 before they are read in.
- Security headers; no caching of API answers, which hold tokens.

Pure ASGI: a wrapper of the framework's own kind would hide disconnects from the routes.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control_plane.api.problems import problem
from shared.errors import BodyTooLarge, ForeignHost, ForeignOrigin, GreenroomError

MAX_BODY_BYTES = 16 * 1024 * 1024

_LOOPBACK_HOSTS = frozenset(("localhost", "127.0.0.1", "[::1]"))
_HARMLESS_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
_OWN_SENDERS = frozenset(("same-origin", "none"))
_ALWAYS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
_NO_STORE = (b"cache-control", b"no-store")


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
        extra = [*_ALWAYS, _NO_STORE] if scope["path"].startswith("/v1/") else _ALWAYS

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        try:
            self._check_sender(scope)
            receive = await _within_limit(scope, receive)
        except GreenroomError as error:
            answer = problem(error)
            answer.headers["Connection"] = "close"  # an unread body may follow
            await answer(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _check_sender(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._hosts is not None and host and _name_of(host) not in self._hosts:
            raise ForeignHost
        if scope["method"] in _HARMLESS_METHODS:
            return
        origin = headers.get("origin")
        if "*" in self._origins or origin in self._origins:
            return
        sender = headers.get("sec-fetch-site")
        if sender is not None:
            foreign = sender not in _OWN_SENDERS
        else:
            foreign = origin is not None and urlsplit(origin).netloc.lower() != host.lower()
        if foreign:
            raise ForeignOrigin


def _name_of(host: str) -> str:
    """Return a Host header without its port."""
    end = host.rfind("]") + 1 if host.startswith("[") else host.find(":")
    return (host[:end] if end > 0 else host).lower()


async def _within_limit(scope: Scope, receive: Receive) -> Receive:
    """Refuse a body over the limit: by its announced length, else by reading it up to the limit."""
    headers = Headers(scope=scope)
    announced = headers.get("content-length")
    if announced is not None:
        if not announced.isdecimal() or int(announced) > MAX_BODY_BYTES:
            raise BodyTooLarge(limit_bytes=MAX_BODY_BYTES)
        return receive
    if "transfer-encoding" not in headers:
        return receive
    return _replay(await _read(receive), receive)


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise BodyTooLarge(limit_bytes=MAX_BODY_BYTES)
        if message["type"] != "http.request" or not message.get("more_body", False):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return unread.pop() if unread else await receive()

    return receive_again
