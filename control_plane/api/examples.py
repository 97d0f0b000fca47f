"""What does a call look like, and what its answer?

Shown in the OpenAPI document and its page. A test holds each against its schema.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping

from control_plane.api.problems import problem as answer_for
from shared.errors import GreenroomError

Example = dict[str, object]

SESSION_ID = "default-kq3mzw5v2h7dctnxr4byeaup6s"
NODE_ID = "node-4f2a91c7"
PATH: Mapping[str, str] = {"session_id": SESSION_ID, "node_id": NODE_ID}
_NOW_S = 1_790_000_000.0
_TOKEN = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEifQ.…"  # noqa: S105 - none at all
_PLACE: Example = {
    "session_id": SESSION_ID,
    "room": f"tf-world-{SESSION_ID}",
    "livekit_url": "wss://media.example.org",
}
_ASSIGNED: Example = {
    **_PLACE,
    "token": _TOKEN,
    "worker_id": NODE_ID,
    "status": "assigned",
    "expires_at": _NOW_S + 1800,
    "queue_position": None,
    "estimated_wait_s": None,
    "estimated_wait_range_s": None,
    "session_token": f"gst1.{SESSION_ID}.c2lnbmVkLWJ5LXRoZS1zZXJ2ZXI",
    "idempotent_replay": False,
}
_STATUS: Example = {
    **_PLACE,
    "status": "running",
    "worker_id": NODE_ID,
    "node_id": NODE_ID,
    "pipeline_session_id": "world-17",
    "created_at": _NOW_S,
    "updated_at": _NOW_S + 9.25,
    "expires_at": _NOW_S + 1800,
    "participant_count": 2,
    "error": None,
    "reason": None,
    "queue_position": None,
    "estimated_wait_s": None,
    "estimated_wait_range_s": None,
    "attempt": 1,
    "epoch": 1_790_000_001_250,
}
_HEALTH: Example = {
    "status": "healthy",
    "livekit_connected": True,
    "redis_connected": True,
    "workers_total": 3,
    "workers_idle": 1,
    "workers_busy": 2,
    "workers_failed": 0,
    "queued_sessions": 0,
    "slots_total": 12,
    "slots_free": 5,
}
_SERVICE: Example = {"service_type": "stream", "transport": "livekit", **_HEALTH}
_GONE: Example = {"session_id": SESSION_ID, "status": "closed"}
_ORDER: Example = {"version": "open:1790000000000"}
_NODE = "/v1/nodes/{node_id}"
_SESSIONS = "/v1/stream/sessions"
_SESSION = f"{_SESSIONS}/{{session_id}}"

BODIES: Mapping[tuple[str, str], Mapping[str, Example]] = {
    ("post", _SESSIONS): {
        "least": {"summary": "The least", "value": {"identity": "ada"}},
        "world": {
            "summary": "A world with its own settings",
            "value": {
                "identity": "ada",
                "role": "controller",
                "prompt": "a quiet harbour at dawn",
                "config": {"fps": 16, "seed": 7},
                "pool": "default",
            },
        },
    },
    ("post", f"{_SESSION}/tokens"): {
        "viewer": {"summary": "Somebody who watches", "value": {"identity": "grace"}},
        "controller": {"summary": "A fresh token for the owner", "value": {"role": "controller"}},
    },
    ("post", f"{_NODE}/drain"): {
        "stay": {"summary": "Sessions play on here", "value": {**_ORDER, "in_s": None}},
        "move": {"summary": "They move after a minute", "value": {**_ORDER, "in_s": 60}},
    },
    ("post", f"{_NODE}/resume"): {"open": {"summary": "Open it", "value": _ORDER}},
    ("put", f"{_NODE}/capacity"): {
        "fewer": {"summary": "At most two", "value": {**_ORDER, "capacity": 2}},
        "all": {"summary": "As many as it says", "value": {**_ORDER, "capacity": None}},
    },
}

ANSWERS: Mapping[tuple[str, str, str], object] = {
    ("post", _SESSIONS, "200"): _ASSIGNED,
    ("post", _SESSIONS, "202"): {
        **_ASSIGNED,
        "worker_id": None,
        "status": "queued",
        "expires_at": None,
        "queue_position": 3,
        "estimated_wait_s": 95.0,
        "estimated_wait_range_s": [40.0, 170.0],
    },
    ("get", _SESSIONS, "200"): {"sessions": [_STATUS], "cursor": None},
    ("get", _SESSION, "200"): _STATUS,
    ("delete", _SESSION, "200"): _GONE,
    ("post", f"{_SESSION}/cancel", "200"): _GONE,
    ("post", f"{_SESSION}/tokens", "200"): {**_PLACE, "token": _TOKEN, "role": "viewer"},
    ("get", "/v1/queue", "200"): {
        "pools": [
            {
                "pool": "default",
                "length": 1,
                "max_length": 100,
                "oldest_wait_s": 12.5,
                "slots": 12,
                "slots_taken": 12,
                "usual_hold_s": 410.0,
                "learned_from": 57,
                "waiting": [
                    {
                        "position": 1,
                        "session_id": SESSION_ID,
                        "waiting_s": 12.5,
                        "estimated_wait_s": 30.0,
                        "estimated_wait_range_s": [5.0, 70.0],
                    }
                ],
            }
        ]
    },
    ("delete", "/v1/queue/{session_id}", "200"): _GONE,
    ("post", "/v1/livekit/webhook", "200"): {"heard": "looked"},
    ("get", "/v1/stream/health", "200"): _HEALTH,
    ("get", "/v1/service/health", "200"): {**_SERVICE, "ready": True, "concerns": []},
    ("get", "/v1/service/ready", "200"): {**_SERVICE, "ready": True, "stopping": False},
}

TEXTS: Mapping[str, str] = {
    "text/event-stream": (
        'event: queued\nid: 1790000000000\ndata: {"status":"queued","position":3,"eta":95.0}\n\n'
        'event: assigned\nid: 1790000095000\ndata: {"status":"assigned"}\n'
    ),
    "text/plain": (
        "# TYPE greenroom_queue_depth gauge\n"
        'greenroom_queue_depth{pool="default"} 3.0\n'
    ),
}  # fmt: skip

_NAMED: Mapping[str, object] = {
    "allowed": "1 to 32 of a-z, 0-9 and '-'",
    "detail": "queue_full",
    "key_id": "abcdefgh",
    "limit_bytes": 16 * 1024 * 1024,
    "name": "A",
    "node_id": NODE_ID,
    "pool": "elsewhere",
    "reason": "completed",
    "retry_after_s": 5,
    "scope": "admin",
    "served": ("default",),
    "session_id": SESSION_ID,
    "state": "running",
    "what": "create calls with this key",
    "why": "no answer in time",
}
"""By the names that errors give to what they are made of."""


def problem(kind: type[GreenroomError]) -> Example:
    """Return the body with which an error of *kind* is answered."""
    given = [name for name in inspect.signature(kind.__init__).parameters if name in _NAMED]
    error = kind(**{name: _NAMED[name] for name in given})
    if not error.args:
        error.args = ("The field 'identity' is missing.",)
    body: Example = json.loads(bytes(answer_for(error, session_id=SESSION_ID).body))
    return body
