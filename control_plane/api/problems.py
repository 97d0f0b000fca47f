"""How does an error become an HTTP answer?

As problem details (RFC 9457). Clients of the compatible API read ``detail``: it carries the exact
word or text that they expect (``queue_full``, ``no_idle_worker``, the quoted "not found"). Ours
beside it: ``message``, a sentence for people; ``code``, stable; ``retryable``, whether the same
call may be repeated; ``retry_after_s`` together with the header. No other place does this.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from shared.access_errors import BadApiKey, NoCredentials
from shared.errors import (
    Busy,
    GreenroomError,
    InvalidRequest,
    SessionEnded,
    Unavailable,
    UnknownSession,
)

_CLIENT_CLOSED_REQUEST = 499
"""Not a standard status, but the customary one."""
MEDIA_TYPE = "application/problem+json"


def problem(error: GreenroomError, *, session_id: str = "") -> Response:
    """Return the answer for one of our own errors; *session_id* is the one in the path, if any."""
    retry_after_s = error.retry_after_s if isinstance(error, Busy | Unavailable) else None
    answer = _answer(
        status=error.status,
        code=error.code,
        message=str(error),
        detail=_compatible_detail(error, session_id),
        retryable=error.retryable,
        retry_after_s=retry_after_s,
    )
    if isinstance(error, NoCredentials | BadApiKey):
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


async def on_error(request: Request, error: Exception) -> Response:
    """Answer for our own errors, wherever in a route they were raised."""
    if not isinstance(error, GreenroomError):
        raise error
    return problem(error, session_id=str(request.path_params.get("session_id", "")))


async def on_http_error(_request: Request, error: Exception) -> Response:
    """Answer for what the framework refuses: an unknown path, a method that a path hasn't."""
    if not isinstance(error, HTTPException):
        raise error
    phrase = HTTPStatus(error.status_code).phrase
    answer = _answer(
        status=error.status_code,
        code=phrase.lower().replace(" ", "_"),
        message=f"{phrase}.",
        detail=str(error.detail),
        retryable=False,
    )
    answer.headers.update(error.headers or {})
    return answer


async def on_invalid_query(_request: Request, error: Exception) -> Response:
    """Answer for parameters that the framework itself checked."""
    if not isinstance(error, RequestValidationError):
        raise error
    return problem(InvalidRequest(sentence_of(error.errors())))


async def on_client_gone(_request: Request, _error: Exception) -> Response:
    """Answer nobody: the client left before its body was there, which is nothing to log."""
    return Response(status_code=_CLIENT_CLOSED_REQUEST)


async def on_bug(_request: Request, _error: Exception) -> Response:
    """Answer for an error that nobody foresaw; the server logs its trace."""
    return _answer(
        status=500,
        code="internal_error",
        message="Something broke in here. It has been logged.",
        detail="Internal Server Error",
        retryable=False,
    )


def invalid_body(error: ValidationError) -> InvalidRequest:
    """Return what was wrong with a body as one sentence that never repeats the value."""
    return InvalidRequest(sentence_of(error.errors(include_url=False, include_input=False)))


def sentence_of(faults: Sequence[object]) -> str:
    """Name the first wrong field and what it should be, and say how many more there are."""
    first = faults[0]
    if not isinstance(first, dict):
        return "The request is wrong."
    text = str(first.get("msg", "it is wrong")).removeprefix("Value error, ")
    path = ".".join(str(part) for part in first.get("loc", ()) if part != "body")
    if not path:
        sentence = f"The body is wrong: {text[:1].lower()}{text[1:]}"
    elif first.get("type") == "missing":
        sentence = f"The field '{path}' is missing"
    else:
        sentence = f"The field '{path}' is wrong: {text[:1].lower()}{text[1:]}"
    return f"{sentence}." if len(faults) == 1 else f"{sentence} (and {len(faults) - 1} more)."


def _compatible_detail(error: GreenroomError, session_id: str) -> str:
    match error:
        case Busy():
            return error.detail
        case UnknownSession():
            return repr(f"Session {session_id} not found")
        case SessionEnded():
            return f"Session {session_id} is not active"
        case _:
            return str(error)


def _answer(
    *,
    status: int,
    code: str,
    message: str,
    detail: str,
    retryable: bool,
    retry_after_s: int | None = None,
) -> Response:
    body: dict[str, object] = {
        "type": f"urn:greenroom:problem:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "detail": detail,
        "message": message,
        "code": code,
        "retryable": retryable,
    }
    headers = {}
    if retry_after_s is not None:
        body["retry_after_s"] = retry_after_s
        headers["Retry-After"] = str(retry_after_s)
    return Response(json.dumps(body), status, headers, MEDIA_TYPE)
