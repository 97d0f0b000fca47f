"""What do requests and responses look like?

Request bodies are read here and not by the framework: on the hot route its dependency layer costs
more than all the rest, and so each wrong body ends in the same clear sentence. Unknown keys are
ignored (compatible); wrong types are refused, never converted. Answers are plain dicts whose shape
is declared here, for readers, for mypy and for the OpenAPI document; `answers` fills them in. Times
are float Unix seconds.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Annotated, Any, Literal, TypeVar

import pydantic_core
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from control_plane.api.problems import invalid_body
from shared.errors import InvalidRequest, ReservedIdentity
from shared.ids import WORKER_PREFIX
from shared.room_protocol import MAX_PROMPT_CHARS

MAX_KEY_CHARS = 255
MAX_IDENTITY_BYTES = 256
"""LiveKit's own limit: it lets no longer name in, and counts bytes."""
_MOST_DIGITS = 20
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f]")


def _as_livekit_takes_it(identity: str) -> str:
    if _CONTROL_CHARACTERS.search(identity):
        raise ValueError("it has control characters")
    if len(identity.encode()) > MAX_IDENTITY_BYTES:
        raise ValueError(f"it has over {MAX_IDENTITY_BYTES} bytes in UTF-8")
    return identity


Identity = Annotated[
    str,
    Field(min_length=1, max_length=MAX_IDENTITY_BYTES),
    AfterValidator(_as_livekit_takes_it),
]


class Body(BaseModel):
    """A request body: unknown keys are ignored, wrong types are refused."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class CreateSession(Body):
    """POST /v1/stream/sessions."""

    identity: Identity
    role: Literal["controller"] = "controller"
    prompt: Annotated[str, Field(max_length=MAX_PROMPT_CHARS)] | None = None
    image_path: Annotated[str, Field(max_length=1024)] | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    pool: str | None = None


class CreateToken(Body):
    """POST /v1/stream/sessions/{session_id}/tokens. Only a viewer needs an identity."""

    identity: Identity | None = None
    role: Literal["viewer", "controller"] = "viewer"


class SessionCreated(TypedDict):
    """Answer to a create call; ``token`` is null when a repeated call finds its session ended."""

    session_id: str
    room: str
    livekit_url: str
    token: str | None
    worker_id: str | None
    status: str
    expires_at: float | None
    queue_position: int | None
    estimated_wait_s: float | None
    estimated_wait_range_s: list[float] | None
    session_token: str
    idempotent_replay: bool


class SessionStatus(TypedDict):
    """One session as it is now."""

    session_id: str
    room: str
    livekit_url: str
    status: str
    worker_id: str | None
    node_id: str | None
    pipeline_session_id: str | None
    created_at: float
    updated_at: float
    expires_at: float | None
    participant_count: int
    error: str | None
    reason: str | None
    queue_position: int | None
    estimated_wait_s: float | None
    estimated_wait_range_s: list[float] | None
    attempt: int
    epoch: int


class SessionsFound(TypedDict):
    """One page of a list; with a cursor there may be more, also if the page is empty."""

    sessions: list[SessionStatus]
    cursor: str | None


class Waiting(TypedDict):
    """One place in line; who it is stays out."""

    position: int
    session_id: str
    waiting_s: float
    estimated_wait_s: float | None
    estimated_wait_range_s: list[float] | None


class PoolLine(TypedDict):
    """One pool's line, and what its estimates are made of."""

    pool: str
    length: int
    max_length: int
    oldest_wait_s: float
    slots: int
    slots_taken: int
    usual_hold_s: float | None
    learned_from: int
    waiting: list[Waiting]


class Lineup(TypedDict):
    """Answer to GET /v1/queue."""

    pools: list[PoolLine]


class SessionGone(TypedDict):
    """Answer to DELETE."""

    session_id: str
    status: str


class WebhookHeard(TypedDict):
    """Answer to LiveKit: looked, repeated or ignored."""

    heard: str


class TokenCreated(TypedDict):
    """A token for one more participant, or a fresh one for the controller."""

    session_id: str
    room: str
    livekit_url: str
    token: str
    role: str


class Health(TypedDict):
    """How the whole deployment does, seen from one replica; all counts from one look."""

    status: str
    livekit_connected: bool
    redis_connected: bool
    workers_total: int
    workers_idle: int
    workers_busy: int
    workers_failed: int
    queued_sessions: int
    slots_total: int
    slots_free: int


B = TypeVar("B", bound=Body)


async def read_body(request: Request, shape: type[B]) -> B:
    """Return the JSON body as *shape*, or raise `InvalidRequest` with one sentence."""
    raw = await request.body()
    try:
        parsed = pydantic_core.from_json(raw, allow_inf_nan=False)
    except ValueError as broken:
        raise InvalidRequest(f"The body isn't valid JSON: {broken}.") from broken
    if not isinstance(parsed, dict):
        raise InvalidRequest("The body must be a JSON object.")
    try:
        return shape.model_validate(parsed)
    except ValidationError as wrong:
        raise invalid_body(wrong) from wrong


def whole_number(text: str) -> int | None:
    """Return the number that *text* is, None for anything but a few digits.

    Longer ones mean nothing here, and over some thousand digits Python itself refuses them.
    """
    is_one = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_one else None


def check_identity(identity: str) -> str:
    """Return *identity* unless it could be taken for a worker's."""
    if identity.startswith(WORKER_PREFIX):
        raise ReservedIdentity(why=f"names that begin with {WORKER_PREFIX!r} belong to workers")
    return identity


def idempotency_key(request: Request) -> str | None:
    """Return the Idempotency-Key header, None if there is none."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not 0 < len(key) <= MAX_KEY_CHARS:
        raise InvalidRequest(f"The Idempotency-Key must have 1 to {MAX_KEY_CHARS} characters.")
    return key


class LeanRoute(APIRoute):
    """A route whose endpoint gets the request and the path's parameters, and nothing else.

    The signature and the declared models still describe it in the OpenAPI document; per call the
    framework's dependency layer is left out.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what the framework calls for each request."""
        endpoint: Callable[..., Awaitable[Response]] = self.endpoint

        async def handle(request: Request) -> Response:
            return await endpoint(request, **request.path_params)

        return handle


def body_of(shape: type[BaseModel]) -> dict[str, Any]:
    """Describe a body that an endpoint reads itself, for the OpenAPI document."""
    content = {"application/json": {"schema": shape.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}
