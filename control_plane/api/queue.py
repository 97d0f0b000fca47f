"""What does an operator see of the line and of all sessions, and how is somebody taken out of line?

For whoever runs the service, not for clients: ids are shown, identities and requests aren't.
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from control_plane.api.answers import Answers, json_answer
from control_plane.api.auth import Guard, Scope, known_id
from control_plane.api.bodies import (
    LeanRoute,
    Lineup,
    PoolLine,
    SessionGone,
    SessionsFound,
    Waiting,
    whole_number,
)
from control_plane.lines import Lines, Reading
from control_plane.listing import MOST_AT_ONCE, Cursor, SessionList
from control_plane.room_chores import RoomChores
from shared.errors import InvalidRequest, UnknownPool
from shared.ids import pool_of
from shared.states import Reason, SessionState
from shared.store import Registry

DEFAULT_LIMIT = 50
MOST_PLACES = 1000


def queue_routes(
    *,
    access: Guard,
    registry: Registry,
    lines: Lines,
    chores: RoomChores,
    pools: tuple[str, ...],
    queue_size: int,
) -> APIRouter:
    """Return the routes of ``/v1/queue``."""
    router = APIRouter(route_class=LeanRoute, tags=["queue"])

    @router.get("/v1/queue", responses={200: {"model": Lineup}})
    async def show_queue(request: Request) -> Response:
        """Show who waits where, since when and how long still; at most a second old."""
        await access.require(request, Scope.ADMIN)
        most = _limit(request, most=MOST_PLACES)
        readings = [await lines.read(pool) for pool in pools_asked_for(request, pools)]
        lineup: Lineup = {"pools": [_line(reading, queue_size, most) for reading in readings]}
        return json_answer(lineup)

    @router.delete("/v1/queue/{session_id}", responses={200: {"model": SessionGone}})
    async def cancel_waiting(request: Request, session_id: str) -> Response:
        """Take a session out of the line; one that is served by now is left alone (409)."""
        caller = await access.require(request, Scope.ADMIN)
        pool = pool_of(known_id(session_id, pools))
        async with access.noted(caller, "cancel_waiting", pool, session_id):
            record = await registry.cancel_waiting(session_id, Reason.ADMIN)
        chores.delete_room(session_id)
        gone: SessionGone = {"session_id": session_id, "status": record.state}
        return json_answer(gone)

    return router


def list_routes(
    *,
    access: Guard,
    sessions: SessionList,
    lines: Lines,
    answers: Answers,
    pools: tuple[str, ...],
) -> APIRouter:
    """Return the route of the list ``/v1/stream/sessions``."""
    router = APIRouter(route_class=LeanRoute, tags=["sessions"])

    @router.get("/v1/stream/sessions", responses={200: {"model": SessionsFound}})
    async def list_sessions(request: Request) -> Response:
        """List sessions by ``status`` and ``pool``, a page at a time."""
        await access.require(request, Scope.ADMIN)
        wanted = pools_asked_for(request, pools)
        found = await sessions.find(
            pools=wanted,
            states=_states(request),
            limit=_limit(request, most=MOST_AT_ONCE),
            cursor=_cursor(request, wanted),
        )
        page: SessionsFound = {
            "sessions": [
                answers.status(record, await lines.estimate(record)) for record in found.sessions
            ],
            "cursor": str(found.cursor) if found.cursor else None,
        }
        return json_answer(page)

    return router


def _line(reading: Reading, queue_size: int, most: int) -> PoolLine:
    line, forecast = reading.line, reading.forecast
    waiting: list[Waiting] = []
    first = zip(line.waiting[:most], line.tickets, strict=False)
    for position, (session_id, ticket) in enumerate(first, 1):
        estimate = forecast.of(position)
        waiting.append(
            {
                "position": position,
                "session_id": session_id,
                "waiting_s": _age_s(line.at_s, ticket),
                "estimated_wait_s": estimate.middle_s if estimate else None,
                "estimated_wait_range_s": estimate.range_s if estimate else None,
            }
        )
    return {
        "pool": line.pool,
        "length": line.queued,
        "max_length": queue_size,
        "oldest_wait_s": waiting[0]["waiting_s"] if waiting else 0.0,
        "slots": line.slots,
        "slots_taken": line.taken,
        "usual_hold_s": forecast.usual_hold_s,
        "learned_from": forecast.samples,
        "waiting": waiting,
    }


def _age_s(now_s: float, ticket: int) -> float:
    """A ticket is the time at which it was drawn, or a little later in a rush."""
    return round(max(now_s - ticket / 1000, 0.0), 3)


def pools_asked_for(request: Request, served: tuple[str, ...]) -> tuple[str, ...]:
    """Return the pools that ``pool`` names, all of *served* without it."""
    pool = request.query_params.get("pool")
    if pool is None:
        return served
    if pool not in served:
        raise UnknownPool(pool=pool, served=served)
    return (pool,)


def _states(request: Request) -> frozenset[SessionState]:
    named = ",".join(request.query_params.getlist("status"))
    if not named:
        return frozenset(SessionState)
    try:
        return frozenset(SessionState(word.strip()) for word in named.split(","))
    except ValueError:
        words = ", ".join(SessionState)
        raise InvalidRequest(f"The parameter 'status' is wrong: use {words}.") from None


def _limit(request: Request, *, most: int) -> int:
    limit = whole_number(request.query_params.get("limit", str(DEFAULT_LIMIT)))
    if limit is None or not 1 <= limit <= most:
        raise InvalidRequest(f"The parameter 'limit' is wrong: use 1 to {most}.")
    return limit


def _cursor(request: Request, pools: tuple[str, ...]) -> Cursor | None:
    given = request.query_params.get("cursor")
    if not given:
        return None
    cursor = Cursor.parse(given)
    if cursor.pool not in pools:
        raise UnknownPool(pool=cursor.pool, served=pools)
    return cursor
