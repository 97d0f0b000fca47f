"""What does each call of the API take, answer and refuse, beyond what its route says?

One row for each, read when the OpenAPI document is made; a test fails if a route has no row. Here
stand who may call it, which problems are its own, and what an example looks like (`examples`).
Problems that follow from who may call, from a body or from Redis needn't be named again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from control_plane.api.queue import DEFAULT_LIMIT, MOST_PLACES
from control_plane.api.service_shapes import (
    ServiceHealth,
    ServiceMetadata,
    ServiceNumbers,
    ServiceReady,
)
from control_plane.listing import MOST_AT_ONCE
from shared.errors import (
    AssetBudgetSpent,
    BadWebhook,
    BodyTooLarge,
    Busy,
    GreenroomError,
    IdempotencyMismatch,
    IdentityLimit,
    InvalidImage,
    InvalidName,
    InvalidRequest,
    NodeChanged,
    NotWaiting,
    ReplicaStopping,
    ReservedIdentity,
    RoomsUnavailable,
    SessionEnded,
    UnknownNode,
    UnknownPool,
    UnknownSession,
)
from shared.states import SessionState

Schema = dict[str, object]


class Who(StrEnum):
    """Who may make a call of a closed replica."""

    ANYBODY = "anybody"
    CREATE = "an API key with the scope create"
    READ = "an API key with the scope read"
    ADMIN = "an API key with the scope admin"
    LOOK = "the session's own session_token, or an API key with the scope read"
    OWN = "the session's own session_token, or the API key that created it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A query parameter or header that the endpoint reads itself."""

    name: str
    says: str
    schema: Schema = field(default_factory=lambda: {"type": "string"})
    place: str = "query"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One row."""

    who: Who
    problems: tuple[type[GreenroomError], ...] = ()
    parameters: tuple[Parameter, ...] = ()
    answers: Mapping[int, type] = field(default_factory=dict)
    """Shapes that the route itself doesn't name."""
    text: str = ""
    """The media type of an answer that isn't JSON."""
    needs_redis: bool = True


_POOL = Parameter(name="pool", says="One pool instead of all that are served here.")
_LAST_ID = Parameter(
    name="Last-Event-ID", says="The id of the last event that was seen.", place="header"
)
_STATES = "|".join(SessionState)


def _limit(most: int) -> Parameter:
    says = "How many to answer at most."
    schema: Schema = {"type": "integer", "minimum": 1, "maximum": most, "default": DEFAULT_LIMIT}
    return Parameter(name="limit", says=says, schema=schema)


_OF_ORDERS = (UnknownNode, InvalidName, NodeChanged, UnknownPool)
CALLS: Mapping[tuple[str, str], Call] = {
    ("post", "/v1/stream/sessions"): Call(
        who=Who.CREATE,
        problems=(
            Busy, IdentityLimit, IdempotencyMismatch, ReservedIdentity, UnknownPool, InvalidImage,
            RoomsUnavailable, AssetBudgetSpent,
        ),
        parameters=(
            Parameter(
                name="Idempotency-Key",
                says="Made by the caller. The same key and body give the same session again.",
                schema={"type": "string", "minLength": 1, "maxLength": 255},
                place="header",
            ),
        ),
    ),
    ("get", "/v1/stream/sessions"): Call(
        who=Who.ADMIN,
        problems=(InvalidRequest, UnknownPool),
        parameters=(
            Parameter(
                name="status",
                says="Only those in these states, with commas between them.",
                schema={"type": "string", "pattern": f"^({_STATES})(,({_STATES}))*$"},
            ),
            _POOL,
            _limit(MOST_AT_ONCE),
            Parameter(name="cursor", says="From the page before."),
        ),
    ),
    ("get", "/v1/stream/sessions/{session_id}"): Call(who=Who.LOOK),
    ("delete", "/v1/stream/sessions/{session_id}"): Call(who=Who.OWN),
    ("get", "/v1/stream/sessions/{session_id}/events"): Call(
        who=Who.LOOK, problems=(ReplicaStopping,), parameters=(_LAST_ID,), text="text/event-stream"
    ),
    ("post", "/v1/stream/sessions/{session_id}/tokens"): Call(
        who=Who.OWN, problems=(SessionEnded, ReservedIdentity)
    ),
    ("get", "/v1/stream/sessions/{session_id}/story"): Call(
        who=Who.ADMIN, problems=(UnknownSession,)
    ),
    ("post", "/v1/stream/sessions/{session_id}/cancel"): Call(
        who=Who.ADMIN, problems=(UnknownSession,)
    ),
    ("get", "/v1/queue"): Call(
        who=Who.ADMIN,
        problems=(InvalidRequest, UnknownPool),
        parameters=(_POOL, _limit(MOST_PLACES)),
    ),
    ("delete", "/v1/queue/{session_id}"): Call(
        who=Who.ADMIN, problems=(UnknownSession, NotWaiting)
    ),
    ("get", "/v1/nodes"): Call(who=Who.ADMIN, problems=(UnknownPool,), parameters=(_POOL,)),
    ("get", "/v1/nodes/{node_id}"): Call(
        who=Who.ADMIN, problems=(UnknownNode, InvalidName, UnknownPool), parameters=(_POOL,)
    ),
    ("post", "/v1/nodes/{node_id}/drain"): Call(
        who=Who.ADMIN, problems=_OF_ORDERS, parameters=(_POOL,)
    ),
    ("post", "/v1/nodes/{node_id}/resume"): Call(
        who=Who.ADMIN, problems=_OF_ORDERS, parameters=(_POOL,)
    ),
    ("put", "/v1/nodes/{node_id}/capacity"): Call(
        who=Who.ADMIN, problems=_OF_ORDERS, parameters=(_POOL,)
    ),
    ("get", "/v1/admin/overview"): Call(who=Who.ADMIN),
    ("get", "/v1/admin/events"): Call(
        who=Who.ADMIN,
        problems=(ReplicaStopping,),
        parameters=(
            _LAST_ID,
            Parameter(
                name="identities", says="1: also who everybody is.", schema={"enum": ["0", "1"]}
            ),
        ),
        text="text/event-stream",
    ),
    ("post", "/v1/livekit/webhook"): Call(
        who=Who.ANYBODY,
        problems=(BadWebhook, BodyTooLarge),
        parameters=(
            Parameter(name="Authorization", says="LiveKit's own signature.", place="header"),
        ),
    ),
    ("get", "/v1/stream/health"): Call(who=Who.ANYBODY, needs_redis=False),
    ("get", "/v1/service/health"): Call(
        who=Who.ANYBODY, answers={200: ServiceHealth}, needs_redis=False
    ),
    ("get", "/v1/service/ready"): Call(
        who=Who.ANYBODY, answers={200: ServiceReady, 503: ServiceReady}, needs_redis=False
    ),
    ("get", "/v1/service/metadata"): Call(
        who=Who.ANYBODY, answers={200: ServiceMetadata}, needs_redis=False
    ),
    ("get", "/v1/service/metrics"): Call(who=Who.READ, text="text/plain"),
    ("get", "/v1/service/metrics/json"): Call(who=Who.READ, answers={200: ServiceNumbers}),
}  # fmt: skip
