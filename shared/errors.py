"""What can go wrong, and what does the caller see?

    GreenroomError
    ├── InvalidRequest          422  the caller must change the request
    │   ├── InvalidName         422
    │   ├── UnknownPool         422
    │   ├── ReservedIdentity    422
    │   ├── InvalidImage        422
    │   └── BodyTooLarge        413
    ├── NotAllowed              401 / 403
    │   ├── BadSessionToken     403
    │   ├── (access_errors)     401 / 403  no key, a wrong one, one that may not do this
    │   ├── BadWebhook          401
    │   ├── ForeignHost         403
    │   └── ForeignOrigin       403
    ├── NotFound                404
    │   ├── UnknownSession      404
    │   └── UnknownNode         404
    ├── Conflict                409  the thing is in another state than the caller thought
    │   ├── IllegalMove         409  a state machine refused
    │   ├── SessionEnded        409
    │   ├── NotWaiting          409
    │   ├── NodeChanged         409
    │   └── IdempotencyMismatch 409
    ├── Busy                    429  normal refusal: the line is full
    │   └── IdentityLimit       429  one identity has as many sessions as it may
    ├── Unavailable             503  try again; nothing is lost
    │   ├── StoreUnavailable    503
    │   ├── RoomsUnavailable    503
    │   ├── AssetBudgetSpent    503
    │   └── ReplicaStopping     503
    ├── ServiceFault            500  the model service broke its contract
    │   ├── ServiceLoadFailed   500
    │   │   └── ServiceStartFailed 500  perhaps another try helps
    │   │   └── GraphFault      500  its stages don't fit together
    │   ├── StageFailed         500  a stage of its pipeline raised, or its actor is dead
    │   │   └── ActorDied       500  nothing comes from the actor any more
    │   ├── PipelineMisuse      500  it called its own pipeline wrongly
    │   ├── InvalidConfig       500  it refused what the client asked for
    │   ├── ServiceLost         500  its process died; the session can go on elsewhere
    │   └── BadChunk            500
    └── StartupError                 an operator's mistake: exit 2 and one sentence

Those about keys and how often they may be used are in `access_errors`.

Each class has a stable ``code``, an HTTP ``status`` and says whether the same call may be tried
again (``retryable``). Messages are made of named fields; identities and prompts never enter them.
"""

from __future__ import annotations

from typing import ClassVar


class GreenroomError(Exception):
    """Base of all errors that Greenroom raises on purpose."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False


class InvalidRequest(GreenroomError):
    """The request itself is wrong; repeating it can't help."""

    code = "invalid_request"
    status = 422


class InvalidName(InvalidRequest):
    """A pool, node or session name breaks the naming rules."""

    code = "invalid_name"

    def __init__(self, *, what: str, name: str, allowed: str) -> None:
        super().__init__(f"{name[:80]!r} is no valid {what}: use {allowed}.")
        self.what = what


class UnknownPool(InvalidRequest):
    """The replica doesn't serve this pool."""

    code = "unknown_pool"

    def __init__(self, *, pool: str, served: tuple[str, ...]) -> None:
        super().__init__(
            f"Pool {pool[:40]!r} isn't served here; choose one of: {', '.join(served)}."
        )


class ReservedIdentity(InvalidRequest):
    """An identity that belongs to the controller or to workers."""

    code = "reserved_identity"

    def __init__(self, *, why: str) -> None:
        super().__init__(f"This identity can't be used: {why}.")


class InvalidImage(InvalidRequest):
    """The image can't be used."""

    code = "invalid_image"

    def __init__(self, *, why: str) -> None:
        super().__init__(f"The image can't be used: {why}.")


class BodyTooLarge(InvalidRequest):
    """The request body is over the limit."""

    code = "body_too_large"
    status = 413

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(f"The request body is over {limit_bytes // 1024 // 1024} MiB.")


class NotAllowed(GreenroomError):
    """The caller may not do this."""

    code = "not_allowed"
    status = 403


class BadSessionToken(NotAllowed):
    """The session token is missing, forged, or for another session."""

    code = "bad_session_token"

    def __init__(self) -> None:
        super().__init__(
            "This call needs the session's own session_token: send it as 'Authorization: Bearer …'."
        )


class BadWebhook(NotAllowed):
    """What says that it comes from the media server isn't signed with its key."""

    code = "bad_webhook"
    status = 401

    def __init__(self) -> None:
        super().__init__(
            "This isn't signed with our LiveKit key: let LiveKit's webhook use the same api_key."
        )


class ForeignHost(NotAllowed):
    """A request under a host name that isn't this machine's: perhaps a rebound DNS name."""

    code = "foreign_host"

    def __init__(self) -> None:
        super().__init__(
            "This server only listens on this machine: reach it as localhost or 127.0.0.1."
        )


class ForeignOrigin(NotAllowed):
    """A page of another origin tried to change something."""

    code = "foreign_origin"

    def __init__(self) -> None:
        super().__init__("A page of another origin can't do this; name it in --cors-origins first.")


class NotFound(GreenroomError):
    """There is no such thing."""

    code = "not_found"
    status = 404


class UnknownSession(NotFound):
    """No session has this id (any more)."""

    code = "unknown_session"

    def __init__(self, *, session_id: str) -> None:
        super().__init__(
            f"There is no session {session_id[:64]!r}; ended ones are kept for an hour."
        )


class UnknownNode(NotFound):
    """No node has this id (any more)."""

    code = "unknown_node"

    def __init__(self, *, node_id: str, pool: str) -> None:
        super().__init__(f"There is no node {node_id[:64]!r} in the pool {pool!r}.")


class Conflict(GreenroomError):
    """The thing is in another state than the caller thought."""

    code = "conflict"
    status = 409


class IllegalMove(Conflict):
    """A state machine refused a move."""

    code = "illegal_move"

    def __init__(self, *, machine: str, source: str, target: str) -> None:
        super().__init__(f"{machine} can't go from {source} to {target}.")
        self.source = source


class SessionEnded(Conflict):
    """The session is over, so no token is given out for it."""

    code = "session_ended"

    def __init__(self, *, reason: str) -> None:
        super().__init__(f"The session has ended ({reason}); create a new one.")


class NotWaiting(Conflict):
    """The session doesn't stand in line (any more)."""

    code = "not_waiting"

    def __init__(self, *, session_id: str, state: str) -> None:
        super().__init__(f"Session {session_id[:64]!r} isn't in line any more: it is {state}.")


class NodeChanged(Conflict):
    """An order for a node was given on an older sight of it."""

    code = "node_changed"

    def __init__(self, *, node_id: str) -> None:
        super().__init__(
            f"The version that this order names isn't the present one of {node_id[:64]!r}; perhaps "
            "somebody else has just given an order: look again before yours."
        )


class IdempotencyMismatch(Conflict):
    """The same idempotency key came with another body."""

    code = "idempotency_mismatch"

    def __init__(self) -> None:
        super().__init__(
            "This Idempotency-Key was used with another body; use a new key for a new request."
        )


class Busy(GreenroomError):
    """No slot and no place in line. ``detail`` is compatible: no_idle_worker or queue_full."""

    code = "busy"
    status = 429
    retryable = True

    def __init__(self, *, detail: str, retry_after_s: int) -> None:
        super().__init__(f"All stages are taken ({detail}); try again in {retry_after_s} s.")
        self.detail = detail
        self.retry_after_s = retry_after_s


class IdentityLimit(Busy):
    """One identity has as many waiting or active sessions as it may."""

    code = "identity_limit"

    def __init__(self, *, retry_after_s: int) -> None:
        super().__init__(detail="identity_limit", retry_after_s=retry_after_s)
        self.args = ("This identity has as many sessions as it may; end one of them first.",)


class Unavailable(GreenroomError):
    """Something behind us is out; nothing is lost and the same call may be repeated."""

    code = "unavailable"
    status = 503
    retryable = True
    retry_after_s: ClassVar[int] = 2


class StoreUnavailable(Unavailable):
    """Redis doesn't answer, or not yet."""

    code = "store_unavailable"

    def __init__(self, *, why: str, damaged: bool = False) -> None:
        fault = "holds what Greenroom never wrote: " if damaged else "can't be reached ("
        super().__init__(f"The registry {fault}{why}{'.' if damaged else '); try again.'}")
        self.why, self.damaged = why, damaged


class RoomsUnavailable(Unavailable):
    """LiveKit doesn't answer."""

    code = "rooms_unavailable"

    def __init__(self, *, why: str) -> None:
        self.why = why
        super().__init__(f"The media server can't be reached ({why}); try again.")


class AssetBudgetSpent(Unavailable):
    """The pool's byte budget for images is used up."""

    code = "asset_budget_spent"

    def __init__(self) -> None:
        super().__init__("Too many images are waiting; try again in a moment or without an image.")


class ReplicaStopping(Unavailable):
    """The replica that was asked is about to end; any other one answers."""

    code = "replica_stopping"

    def __init__(self) -> None:
        super().__init__("This replica is stopping; the same call again will reach another one.")


class ServiceFault(GreenroomError):
    """The model service broke its contract."""

    code = "service_error"


class ServiceLoadFailed(ServiceFault):
    """The service file can't be loaded or started."""

    code = "service_load_failed"


class GraphFault(ServiceLoadFailed):
    """A graph of stages that can't run."""

    code = "graph_fault"

    def __init__(self, *, faults: tuple[str, ...]) -> None:
        super().__init__(" ".join(faults))
        self.faults = faults


class StageFailed(ServiceFault):
    """A stage of a service's pipeline raised, or the actor that runs it is dead."""

    code = "stage_failed"

    def __init__(self, *, stage: str, what: str) -> None:
        super().__init__(f"Stage {stage!r} failed: {what}")
        self.stage, self.what = stage, what


class ActorDied(StageFailed):
    """Whatever runs a stage is gone; raised by a stage, it ends every session of the pipeline."""

    code = "actor_died"


class PipelineMisuse(ServiceFault):
    """A service called its own pipeline in a way that can't be right."""

    code = "pipeline_misuse"


class ServiceStartFailed(ServiceLoadFailed):
    """The file is a service, but it didn't come up: memory or a disk may be free in a moment."""

    code = "service_start_failed"


class InvalidConfig(ServiceFault):
    """The model service refused the session's config."""

    code = "invalid_config"


class ServiceLost(ServiceFault):
    """The process of the model service has died with all that it held; sessions return."""

    code = "service_lost"


class BadChunk(ServiceFault):
    """A chunk whose media can't be published."""

    code = "bad_chunk"


class StartupError(GreenroomError):
    """An operator's mistake that stops a process before it runs: exit 2, one sentence."""

    code = "startup"

    def __init__(self, message: str, *, try_: str | None = None) -> None:
        super().__init__(message)
        self.try_ = try_
