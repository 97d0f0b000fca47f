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

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control_plane.api.problems import problem
from shared.errors import BodyTooLarge, ForeignHost, ForeignOrigin, GreenroomError

MAX_BODY_BYTES = 16 * 1024 * 1024

_LOOPBACK_HOSTS = frozenset(("localhost", "127.0.0.1", "[::1]"))
_HARMLESS_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
_OWN_SENDERS = frozenset((b"same-origin", b"none"))
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

        headers = dict(scope["headers"])
        try:
            self._check_sender(scope["method"], headers)
            receive = await _within_limit(headers, receive)
        except GreenroomError as error:
            answer = problem(error)
            answer.headers["Connection"] = "close"  # an unread body may follow
            await answer(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _check_sender(self, method: str, headers: Mapping[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self._hosts is not None and host and _name_of(host) not in self._hosts:
            raise ForeignHost
        if method in _HARMLESS_METHODS:
            return
        sender, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
        if sender is None and origin is None:
            return
        named = (origin or b"").decode("latin-1")
        if named in self._origins or "*" in self._origins:
            return
        if sender is not None:
            foreign = sender not in _OWN_SENDERS
        else:
            foreign = urlsplit(named).netloc.lower() != host
        if foreign:
            raise ForeignOrigin


def _name_of(host: str) -> str:
    """Return a Host header without its port."""
    end = host.rfind("]") + 1 if host.startswith("[") else host.find(":")
    return host[:end] if end > 0 else host


async def _within_limit(headers: Mapping[bytes, bytes], receive: Receive) -> Receive:
    """Refuse a body over the limit: by its announced length, else by reading it up to the limit."""
    announced = headers.get(b"content-length")
    if announced is not None:
        if not announced.isdigit() or int(announced) > MAX_BODY_BYTES:
            raise BodyTooLarge(limit_bytes=MAX_BODY_BYTES)
        return receive
    if b"transfer-encoding" not in headers:
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
