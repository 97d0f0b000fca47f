"""What does the OpenAPI document say?

The framework writes down routes, bodies and answers. Here it learns the rest from `described`: what
each call refuses, and with which ``code``; the parameters that endpoints read themselves; who may
call; examples. What the framework assumes of its own checking is taken out again, since it checks
nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from control_plane.api import examples
from control_plane.api.described import CALLS, Call, Parameter, Who
from control_plane.api.problems import MEDIA_TYPE
from shared.access_errors import (
    BadApiKey,
    ForeignSession,
    NoCredentials,
    RateLimited,
    ScopeMissing,
)
from shared.errors import (
    BadSessionToken,
    BodyTooLarge,
    Busy,
    ForeignHost,
    ForeignOrigin,
    GreenroomError,
    InvalidRequest,
    NotFound,
    StoreUnavailable,
    Unavailable,
    UnknownSession,
)

_ABOUT = """\
One fair line in front of GPU nodes; a session keeps its room and its place over restarts.

Times are float Unix seconds, durations seconds. What is refused is answered with problem details
(RFC 9457): `code` is stable, `retryable` says whether the same call may be repeated, `message` is
for people. Every replica answers every call.
"""
_REF = "#/components/schemas/{model}"
_KEYED = (BadApiKey, NoCredentials, ScopeMissing, RateLimited)
_OF_SESSION = (BadSessionToken, ForeignSession, UnknownSession)
_WRITES = ("post", "put", "delete")
Document = dict[str, Any]


class Problem(TypedDict):
    """How anything is refused."""

    type: str
    title: str
    status: int
    detail: str
    message: str
    code: str
    retryable: bool


def document(app: FastAPI) -> Document:
    """Return the document of *app*; made once and then kept by it."""
    if app.openapi_schema is None:
        app.openapi_schema = _made(app)
    return app.openapi_schema


def _made(app: FastAPI) -> Document:
    found: Document = get_openapi(
        title=app.title, version=app.version, description=_ABOUT, routes=app.routes
    )
    schemas: dict[str, Any] = found["components"]["schemas"]
    for assumed in ("HTTPValidationError", "ValidationError"):
        schemas.pop(assumed, None)
    schemas["Problem"] = _problem_schema()
    found["components"]["securitySchemes"] = _SCHEMES
    for path, calls in found["paths"].items():
        for method, operation in calls.items():
            if (call := CALLS.get((method, path))) is not None:
                _describe(operation, call, method, path, schemas)
    return found


_SCHEMES = {
    "apiKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, `grk_…`, made by `greenroom keys add`.",
    },
    "sessionToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "The `session_token` of one session, `gst1.…`, good for that one alone.",
    },
}


def _describe(
    operation: Document, call: Call, method: str, path: str, schemas: dict[str, Any]
) -> None:
    responses: dict[str, Any] = operation["responses"]
    responses.pop("422", None)  # the framework's own
    if call.text:
        responses["200"]["content"] = {call.text: {"schema": {"type": "string"}}}
    for status, shape in call.answers.items():
        responses.setdefault(str(status), {"description": "Not now."})
        schema = _schema_of(shape, schemas)
        responses[str(status)]["content"] = {"application/json": {"schema": schema}}
    for status, kinds in _by_status(problems_of(call, method, path)).items():
        responses.setdefault(str(status), {}).update(_refusal(kinds, responses.get(str(status))))
    operation.setdefault("parameters", []).extend(map(_parameter, call.parameters))
    for parameter in operation["parameters"]:
        if parameter["in"] == "path":
            parameter["example"] = examples.PATH[parameter["name"]]
    if not operation["parameters"]:
        del operation["parameters"]
    operation["description"] = f"{operation.get('description', '')}\n\nFor {call.who}.".strip()
    operation["security"] = _security(call.who)
    _show(operation, method, path)


def problems_of(call: Call, method: str, path: str) -> tuple[type[GreenroomError], ...]:
    """Return all that *call* may be refused with."""
    found = {*call.problems, ForeignHost}
    if "{" in path:
        found.add(NotFound)  # a name that breaks the path
    if method in _WRITES:
        found |= {ForeignOrigin, BodyTooLarge}
    if method in ("post", "put"):
        found.add(InvalidRequest)
    if call.who is not Who.ANYBODY:
        found |= {*_KEYED, StoreUnavailable}
    if call.who in (Who.LOOK, Who.OWN):
        found |= {*_OF_SESSION}
    if call.needs_redis:
        found.add(StoreUnavailable)
    return tuple(sorted(found, key=lambda kind: kind.code))


def _by_status(
    kinds: Iterable[type[GreenroomError]],
) -> dict[int, list[type[GreenroomError]]]:
    found: dict[int, list[type[GreenroomError]]] = {}
    for kind in kinds:
        found.setdefault(kind.status, []).append(kind)
    return dict(sorted(found.items()))


def _refusal(kinds: list[type[GreenroomError]], present: Document | None) -> Document:
    """Return one status's answer; *present* is one that isn't a refusal."""
    codes = [kind.code for kind in kinds]
    schema = {
        "allOf": [
            {"$ref": _REF.format(model="Problem")},
            {"properties": {"code": {"enum": codes}}},
        ]
    }
    shown = {kind.code: {"value": examples.problem(kind)} for kind in kinds}
    content = {MEDIA_TYPE: {"schema": schema, "examples": shown}}
    answer: Document = {
        "description": "\n".join(f"- `{kind.code}`: {_summary(kind)}" for kind in kinds),
        "content": {**(present or {}).get("content", {}), **content},
    }
    if any(issubclass(kind, Busy | Unavailable) for kind in kinds):
        answer["headers"] = {
            "Retry-After": {
                "description": "Seconds after which to try again.",
                "schema": {"type": "integer", "minimum": 0},
            }
        }
    return answer


def _summary(kind: type[GreenroomError]) -> str:
    return (kind.__doc__ or "").split("\n", 1)[0]


def _parameter(of: Parameter) -> Document:
    return {"name": of.name, "in": of.place, "description": of.says, "schema": of.schema}


def _security(who: Who) -> list[dict[str, list[str]]]:
    match who:
        case Who.ANYBODY:
            return []
        case Who.LOOK | Who.OWN:
            return [{"sessionToken": []}, {"apiKey": []}]
        case _:
            return [{"apiKey": []}]


def _show(operation: Document, method: str, path: str) -> None:
    """Put examples where a body or an answer is."""
    asked = examples.BODIES.get((method, path))
    if asked is not None and "requestBody" in operation:
        for body in operation["requestBody"]["content"].values():
            body["examples"] = asked
    for (status, media_type), example in _answers(operation):
        shown = examples.ANSWERS.get((method, path, status), examples.TEXTS.get(media_type))
        if shown is not None:
            example["example"] = shown


def _answers(operation: Document) -> Iterator[tuple[tuple[str, str], Document]]:
    for status, answer in operation["responses"].items():
        for media_type, content in answer.get("content", {}).items():
            if media_type != MEDIA_TYPE:
                yield (status, media_type), content


def _schema_of(shape: type, schemas: dict[str, Any]) -> Mapping[str, str]:
    """Add a shape, and those that it is made of, to the document; returns how to name it."""
    schema = TypeAdapter(shape).json_schema(ref_template=_REF, mode="serialization")
    schemas.update(schema.pop("$defs", {}))
    schemas[shape.__name__] = schema
    return {"$ref": _REF.format(model=shape.__name__)}


def _problem_schema() -> Document:
    schema = TypeAdapter(Problem).json_schema()
    schema["properties"]["retry_after_s"] = {"type": "integer", "minimum": 0}
    return schema
