"""How does a client follow a session: server-sent events that any replica can go on with?

The stream says when the session waits and at which place, is assigned, starts, runs, goes back to
the line and resumes, and ends; then it closes. A browser's EventSource comes back by itself and
names the last id that it got: it is told what is newer, by whichever replica it reaches, and gets a
204 when there's nothing left to tell, which ends its tries. A comment every 15 seconds keeps
proxies from closing a quiet stream and finds out clients that are gone.

Written against ASGI itself: the stream ends when the client disconnects, when the session ends, or
when this replica stops (then with a hint after which time to come back).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Callable
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from control_plane.api import auth
from control_plane.api.bodies import LeanRoute, whole_number
from control_plane.events_hub import EventsHub, Follower
from control_plane.session_news import News, Sight, Telling
from shared.errors import UnknownSession

COMMENT_EVERY_S = 15.0
_RETRY_MS = 1000
_RETRY_ELSEWHERE_MS = (250, 1500)
"""Spread, so that the clients of a stopping replica don't all come at once."""
_HEADERS = {"X-Accel-Buffering": "no"}
_COMMENT = b": still here\n\n"
_encode = json.JSONEncoder(separators=(",", ":")).encode


def event_routes(*, access: auth.Guard, hub: EventsHub) -> APIRouter:
    """Return the route of ``/v1/stream/sessions/{session_id}/events``."""
    router = APIRouter(route_class=LeanRoute, tags=["sessions"])

    @router.get(
        "/v1/stream/sessions/{session_id}/events",
        response_class=Response,
        responses={200: {"content": {"text/event-stream": {}}}, 204: {}},
    )
    async def follow_session(request: Request, session_id: str) -> Response:
        """Follow a session as server-sent events; for a waiting one also a sign of life."""
        caller = await access.require_session(request, session_id, auth.Scope.READ)
        follower = hub.follow(session_id)
        stream = _EventStream(
            follower, Telling(_last_id(request)), is_welcome=partial(access.still_knows, caller)
        )
        try:
            return await stream.begun()
        except BaseException:
            follower.close()
            raise

    return router


def _last_id(request: Request) -> int | None:
    """Return the version that the client got last; what isn't one of ours counts as none."""
    return whole_number(request.headers.get("last-event-id", ""))


class _EventStream(Response):
    """One client's stream; whoever makes one sees to it that its follower is closed."""

    def __init__(
        self, follower: Follower, telling: Telling, *, is_welcome: Callable[[], bool]
    ) -> None:
        super().__init__(headers=_HEADERS, media_type="text/event-stream")
        del self.headers["content-length"]
        self._follower = follower
        self._telling = telling
        self._is_welcome = is_welcome
        self._first = Sight(record=None)

    async def begun(self) -> Response:
        """Look at the session once; returns this, or the answer for a client that knows all."""
        self._first = await self._follower.first()
        record = self._first.record
        if record is None:
            raise UnknownSession(session_id=self._follower.session_id)
        if self._telling.knows_the_end(record):
            self._follower.close()
            return Response(status_code=204)
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send until the session ends, the client leaves or the replica stops."""
        pump = asyncio.create_task(self._pump(send), name="event_stream")
        gone = asyncio.create_task(_until_gone(receive), name="event_stream_client")
        try:
            await asyncio.wait((pump, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._follower.close()
            for task in (pump, gone):
                task.cancel()
            await asyncio.gather(pump, gone, return_exceptions=True)
        if not pump.cancelled():
            pump.result()  # a bug of ours is no end of a stream

    async def _pump(self, send: Send) -> None:
        with contextlib.suppress(OSError):  # the client is gone
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for chunk in self._chunks():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _chunks(self) -> AsyncIterator[bytes]:
        news = self._telling.of(self._first, time.monotonic())
        yield f"retry: {_RETRY_MS}\n\n".encode() + b"".join(map(_event, news))
        while not self._telling.is_over:
            try:
                async with asyncio.timeout(COMMENT_EVERY_S):
                    sight = await self._follower.next()
            except TimeoutError:
                if not self._is_welcome():
                    return
                yield _COMMENT
                continue
            if not self._is_welcome():  # its key was revoked meanwhile; a new try will be refused
                return
            if sight is None:
                yield f"retry: {random.randint(*_RETRY_ELSEWHERE_MS)}\n\n".encode()  # noqa: S311
                return
            if chunk := b"".join(map(_event, self._telling.of(sight, time.monotonic()))):
                yield chunk


def _event(news: News) -> bytes:
    number = "" if news.id is None else f"id: {news.id}\n"
    return f"event: {news.event}\n{number}data: {_encode(news.data)}\n\n".encode()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
