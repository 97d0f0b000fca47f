"""How is a session created, looked at and ended over HTTP?"""

from __future__ import annotations

import asyncio
import time
from typing import assert_never

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from control_plane.admission import Admission, Wish
from control_plane.api.answers import Answers, json_answer
from control_plane.api.auth import Guard, Scope
from control_plane.api.bodies import (
    CreateSession,
    LeanRoute,
    SessionCreated,
    SessionGone,
    SessionStatus,
    body_of,
    check_identity,
    idempotency_key,
    read_body,
)
from control_plane.estimates import Estimate
from control_plane.lines import Lines
from control_plane.room_chores import RoomChores
from shared.errors import Busy, IdentityLimit, UnknownSession
from shared.records import Admitted, Ended, Opened, Queued, Refused, SessionRecord
from shared.states import Reason
from shared.store import Registry

SESSIONS_PATH = "/v1/stream/sessions"
BUSY_RETRY_AFTER_S = 5
CLEANUP_WAIT_S = 10.0
_LOOK_EVERY_S = 0.1


def session_routes(
    *,
    access: Guard,
    admission: Admission,
    registry: Registry,
    answers: Answers,
    chores: RoomChores,
    lines: Lines,
) -> APIRouter:
    """Return the routes of ``/v1/stream/sessions``."""
    router = APIRouter(route_class=LeanRoute, tags=["sessions"])

    @router.post(
        SESSIONS_PATH,
        openapi_extra=body_of(CreateSession),
        responses={200: {"model": SessionCreated}, 202: {"model": SessionCreated}},
    )
    async def create_session(request: Request) -> Response:
        """Create a session: assigned at once (200), in line (202) or refused (429)."""
        caller = await access.require(request, Scope.CREATE)
        body = await read_body(request, CreateSession)
        wish = Wish(
            caller=caller.key_id,
            identity=check_identity(body.identity),
            config=body.config,
            prompt=body.prompt,
            image_path=body.image_path,
            pool=body.pool,
            idempotency_key=idempotency_key(request),
        )
        opened = await admission.admit(wish)
        estimate = await lines.promise(opened) if isinstance(opened, Queued) else None
        return _created(opened, answers, estimate)

    @router.get("/v1/stream/sessions/{session_id}", responses={200: {"model": SessionStatus}})
    async def get_session(request: Request, session_id: str) -> Response:
        """Tell how a session stands; for a waiting one also a sign of life."""
        await access.require_session(request, session_id, Scope.READ)
        record = await touched(registry, session_id)
        return json_answer(answers.status(record, await lines.estimate(record)))

    @router.delete("/v1/stream/sessions/{session_id}", responses={200: {"model": SessionGone}})
    async def delete_session(request: Request, session_id: str) -> Response:
        """End a session; waits for its node's cleanup, but not for ever."""
        await access.require_session(request, session_id, Scope.CREATE)
        record = await registry.cancel(session_id, Reason.CLIENT_STOP)
        if record.ended:
            # It held no slot, so no node will look after the room.
            chores.delete_room(session_id)
        else:
            record = await _ended_or_late(registry, record)
        gone: SessionGone = {"session_id": session_id, "status": record.state}
        return json_answer(gone)

    return router


async def touched(registry: Registry, session_id: str) -> SessionRecord:
    """Return the session as it is now, and count the question as a sign of life."""
    found = await registry.touch([session_id])
    if session_id not in found:
        raise UnknownSession(session_id=session_id)
    return found[session_id]


def _created(opened: Opened, answers: Answers, estimate: Estimate | None) -> Response:
    match opened:
        case Refused(detail="identity_limit"):
            raise IdentityLimit(retry_after_s=BUSY_RETRY_AFTER_S)
        case Refused():
            raise Busy(detail=opened.detail, retry_after_s=BUSY_RETRY_AFTER_S)
        case Queued():
            body = answers.created(opened.session, replay=opened.replay, estimate=estimate)
            return json_answer(body, 202)
        case Admitted() | Ended():
            return json_answer(answers.created(opened.session, replay=opened.replay))
        case _:
            assert_never(opened)


async def _ended_or_late(registry: Registry, record: SessionRecord) -> SessionRecord:
    """Return the session once its cleanup is confirmed, or still draining when that takes long."""
    deadline_s = time.monotonic() + CLEANUP_WAIT_S
    while not record.ended and time.monotonic() < deadline_s:
        await asyncio.sleep(_LOOK_EVERY_S)
        record = await registry.read(record.session_id)
    return record
