"""How does one more participant get in, and how does the controller get a fresh token?

On a closed replica both are for the session's own client, for the key that made the session, and
for admins. On an open one a viewer's token is given to anybody who knows the session's id, but the
controller's is only renewed for whoever shows the session token. Looking at a session renews
nothing.
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from control_plane.api.answers import Answers, json_answer
from control_plane.api.auth import Guard, Scope
from control_plane.api.bodies import (
    CreateToken,
    LeanRoute,
    TokenCreated,
    body_of,
    check_identity,
    read_body,
)
from control_plane.api.sessions import touched
from shared.errors import BadSessionToken, InvalidRequest, ReservedIdentity, SessionEnded
from shared.records import SessionRecord
from shared.store import Registry


def token_routes(*, access: Guard, registry: Registry, answers: Answers) -> APIRouter:
    """Return the route of ``/v1/stream/sessions/{session_id}/tokens``."""
    router = APIRouter(route_class=LeanRoute, tags=["tokens"])

    @router.post(
        "/v1/stream/sessions/{session_id}/tokens",
        openapi_extra=body_of(CreateToken),
        responses={200: {"model": TokenCreated}},
    )
    async def create_token(request: Request, session_id: str) -> Response:
        """Give a viewer a token, or the controller a fresh one."""
        caller = await access.require_session(request, session_id, Scope.CREATE)
        body = await read_body(request, CreateToken)
        if body.role == "controller":
            if not (caller.is_client or caller.key_id):
                raise BadSessionToken
            record = _live(await touched(registry, session_id))
            if body.identity not in (None, record.identity):
                raise ReservedIdentity(why="it isn't the one that this session was created with")
            return json_answer(answers.controller(record))
        if body.identity is None:
            raise InvalidRequest("The field 'identity' is missing.")
        identity = check_identity(body.identity)
        record = _live(await registry.read(session_id))
        if identity == record.identity:
            raise ReservedIdentity(why="it is the controller's; a viewer needs another one")
        return json_answer(answers.viewer(record, identity))

    return router


def _live(record: SessionRecord) -> SessionRecord:
    if record.ended:
        raise SessionEnded(reason=record.reason or record.state)
    return record
