"""How does an operator watch a whole system over HTTP, and end a session?

``/v1/admin/events`` sends a whole ``overview`` first and whenever something happened, at most once
a second; in between only what moves all the time, as ``moving``. The id of an overview names what
it shows, on whichever replica: a client that comes back and knows it already gets the rest alone.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from control_plane.api import auth
from control_plane.api.answers import json_answer
from control_plane.api.bodies import LeanRoute, SessionGone
from control_plane.api.event_stream import COMMENT, COMMENT_EVERY_S, EventStream, event, retry
from control_plane.operator_feed import Look, OperatorFeed, Watcher
from control_plane.operator_shapes import Overview
from control_plane.room_chores import RoomChores
from shared.ids import pool_of
from shared.states import Reason
from shared.store import Registry

_RETRY_MS = 1000
_RETRY_ELSEWHERE_MS = (250, 1500)


def operator_routes(
    *,
    access: auth.Guard,
    feed: OperatorFeed,
    registry: Registry,
    chores: RoomChores,
    pools: tuple[str, ...],
) -> APIRouter:
    """Return the routes of ``/v1/admin``, and the one that ends a session."""
    router = APIRouter(route_class=LeanRoute, tags=["operator"])

    @router.get("/v1/admin/overview", responses={200: {"model": Overview}})
    async def overview(request: Request) -> Response:
        """Show all pools: numbers, the line, nodes, sessions; who anybody is stays out."""
        await access.require(request, auth.Scope.ADMIN)
        return Response(Look(await feed.overview()).anonymous, media_type="application/json")

    @router.get(
        "/v1/admin/events",
        response_class=Response,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    async def watch(request: Request) -> Response:
        """Follow all pools as server-sent events; with ``identities=1`` also who everybody is."""
        caller = await access.require(request, auth.Scope.ADMIN)
        named = request.query_params.get("identities") == "1"
        known = request.headers.get("last-event-id", "")
        watcher = feed.watch()
        try:
            first = await watcher.first()
        except BaseException:
            watcher.close()
            raise
        chunks = _chunks(watcher, first, known, named, partial(access.still_knows, caller))
        return EventStream(chunks, watcher.close)

    @router.post("/v1/stream/sessions/{session_id}/cancel", responses={200: {"model": SessionGone}})
    async def cancel_session(request: Request, session_id: str) -> Response:
        """End a session in the operator's name: in line at once, on stage after its clean-up."""
        caller = await access.require(request, auth.Scope.ADMIN)
        pool = pool_of(auth.known_id(session_id, pools))
        async with access.noted(caller, "cancel", pool, session_id):
            record = await registry.cancel(session_id, Reason.ADMIN)
        if record.ended:
            chores.delete_room(session_id)  # it held no slot, so no node will look after the room
        gone: SessionGone = {"session_id": session_id, "status": record.state}
        return json_answer(gone)

    return router


async def _chunks(
    watcher: Watcher, look: Look, known: str, named: bool, is_welcome: Callable[[], bool]
) -> AsyncIterator[bytes]:
    yield retry(_RETRY_MS)
    while True:
        if look.id == known:
            yield event("moving", look.moving)
        else:
            known = look.id
            yield event("overview", look.named if named else look.anonymous, known)
        following: Look | None = None
        is_told = False
        while not is_told:
            try:
                async with asyncio.timeout(COMMENT_EVERY_S):
                    following = await watcher.next()
                    is_told = True
            except TimeoutError:  # the registry is out; nothing new can be told
                yield COMMENT
            if not is_welcome():  # its key was revoked meanwhile; a new try will be refused
                return
        if following is None:
            yield retry(random.randint(*_RETRY_ELSEWHERE_MS))  # noqa: S311
            return
        look = following
