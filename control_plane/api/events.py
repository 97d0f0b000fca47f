"""How does a client follow a session: server-sent events that any replica can go on with?

The stream says when the session waits and at which place, is assigned, starts, runs, goes back to
the line and resumes, and ends; then it closes. A browser's EventSource comes back by itself and
names the last id that it got: it is told what is newer, by whichever replica it reaches, and gets a
204 when there's nothing left to tell, which ends its tries. A comment every 15 seconds keeps
proxies from closing a quiet stream and finds out clients that are gone.

The stream ends when the client disconnects, when the session ends, or when this replica stops (then
with a hint after which time to come back).
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from control_plane.api import auth
from control_plane.api.bodies import LeanRoute, whole_number
from control_plane.api.event_stream import COMMENT, COMMENT_EVERY_S, EventStream, event, retry
from control_plane.events_hub import EventsHub, Follower
from control_plane.session_news import News, Sight, Telling
from shared.errors import UnknownSession

_RETRY_MS = 1000
_RETRY_ELSEWHERE_MS = (250, 1500)
"""Spread, so that the clients of a stopping replica don't all come at once."""
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
        follower, telling = hub.follow(session_id), Telling(_last_id(request))
        try:
            first = await follower.first()
        except BaseException:
            follower.close()
            raise
        if first.record is None:
            follower.close()
            raise UnknownSession(session_id=session_id)
        if telling.knows_the_end(first.record):
            follower.close()
            return Response(status_code=204)
        is_welcome = partial(access.still_knows, caller)
        return EventStream(_chunks(follower, telling, first, is_welcome), follower.close)

    return router


def _last_id(request: Request) -> int | None:
    """Return the version that the client got last; what isn't one of ours counts as none."""
    return whole_number(request.headers.get("last-event-id", ""))


async def _chunks(
    follower: Follower, telling: Telling, sight: Sight, is_welcome: Callable[[], bool]
) -> AsyncIterator[bytes]:
    news = telling.of(sight, time.monotonic())
    yield retry(_RETRY_MS) + b"".join(map(_event, news))
    while not telling.is_over:
        try:
            async with asyncio.timeout(COMMENT_EVERY_S):
                following = await follower.next()
        except TimeoutError:
            if not is_welcome():
                return
            yield COMMENT
            continue
        if not is_welcome():  # its key was revoked meanwhile; a new try will be refused
            return
        if following is None:
            yield retry(random.randint(*_RETRY_ELSEWHERE_MS))  # noqa: S311
            return
        if chunk := b"".join(map(_event, telling.of(following, time.monotonic()))):
            yield chunk


def _event(news: News) -> bytes:
    return event(news.event, _encode(news.data), news.id)
