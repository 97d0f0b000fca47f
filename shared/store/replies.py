"""How does a script's reply become a record? Pure.

The one place that knows the order of fields of ``lua/include/record.lua`` and of the node replies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import cast

from pydantic_core import to_json

from shared.node_profile import NodeProfile, NodeProgress
from shared.records import (
    Assignment,
    Ending,
    Kill,
    NodeRecord,
    Return,
    SessionLimits,
    SessionRecord,
    SessionRequest,
)
from shared.states import Admin, Judgement, NodeState, Reason, SessionState
from shared.waiting import Line, Suspect


def fields(value: object) -> list[str]:
    """Narrow one nested list of a reply to what all our scripts send: text."""
    return cast("list[str]", value)


def rows(value: object) -> list[list[str]]:
    """Narrow a list of lists of a reply."""
    return cast("list[list[str]]", value)


def session(value: object) -> SessionRecord:
    """Decode ``session_fields`` of ``lua/include/record.lua``."""
    (
        sid, state, ticket, epoch, version, attempt, created, updated, node, position, expires,
        participants, reason, back, identity, pipeline_session_id, error,
    ) = fields(value)  # fmt: skip
    return SessionRecord(
        session_id=sid,
        state=SessionState(state),
        identity=identity,
        ticket=int(ticket),
        epoch=int(epoch),
        version=int(version),
        attempt=int(attempt),
        created_at_s=int(created) / 1000,
        updated_at_s=int(updated) / 1000,
        node_id=node or None,
        position=int(position) if position else None,
        expires_at_s=int(expires) / 1000 if expires else None,
        pipeline_session_id=pipeline_session_id or None,
        participants=int(participants or 0),
        reason=Reason(reason) if reason else None,
        error=error or None,
        returned_because=back or None,
    )


def assignments(value: object) -> tuple[Assignment, ...]:
    """Decode ``{sid, epoch}`` rows."""
    return tuple(Assignment(session_id=sid, epoch=int(epoch)) for sid, epoch in rows(value))


def kills(value: object) -> tuple[Kill, ...]:
    """Decode ``{sid, epoch, reason}`` rows of a beat's reply."""
    return tuple(
        Kill(session_id=sid, epoch=int(epoch), reason=reason) for sid, epoch, reason in rows(value)
    )


def returns(value: object) -> tuple[Return, ...]:
    """Decode ``{sid, epoch, why}`` rows of a sweep's reply."""
    return tuple(
        Return(session_id=sid, epoch=int(epoch), why=why) for sid, epoch, why in rows(value)
    )


def endings(value: object) -> tuple[Ending, ...]:
    """Decode ``{sid, reason, why}`` rows of a sweep's reply."""
    return tuple(Ending(session_id=sid, reason=Reason(reason)) for sid, reason, _ in rows(value))


def suspects(value: object) -> tuple[Suspect, ...]:
    """Decode ``{sid, version, lease}`` rows of a sweep's reply."""
    return tuple(
        Suspect(session_id=sid, version=int(version), lease_ms=int(lease))
        for sid, version, lease in rows(value)
    )


def node(value: object) -> NodeRecord:
    """Decode a node of ``snapshot``."""
    (
        nid, state, judged, draining, incarnation, capacity, used, quarantined, media_ok, beat_age,
        profile, start_ms, admin, told,
    ) = fields(value)  # fmt: skip
    return NodeRecord(
        node_id=nid,
        state=NodeState(state),
        judged=Judgement(judged or Judgement.OK),
        admin=Admin(admin or Admin.OPEN),
        draining=draining == "1",
        incarnation=int(incarnation),
        capacity=int(capacity),
        used=int(used),
        quarantined=int(quarantined),
        media_ok=media_ok == "1",
        beat_age_s=int(beat_age) / 1000,
        profile=NodeProfile(**json.loads(profile), start_timeout_s=int(start_ms or 0) / 1000),
        progress=progress(told),
    )


def pairs(value: object) -> Iterable[tuple[str, int]]:
    """Decode ``{name, count, name, count, ...}``."""
    flat = fields(value)
    return ((name, int(count)) for name, count in zip(flat[::2], flat[1::2], strict=True))


def line(pool: str, reply: Sequence[object]) -> Line:
    """Decode the reply of ``read_line``."""
    at, waiting, tickets, queued, slots, taken, held, holds = reply
    return Line(
        pool=pool,
        at_s=int(str(at)) / 1000,
        waiting=tuple(fields(waiting)),
        tickets=tuple(int(float(ticket)) for ticket in fields(tickets)),
        queued=int(str(queued)),
        slots=int(str(slots)),
        taken=int(str(taken)),
        held_s=tuple(int(ms) / 1000 for ms in fields(held)),
        holds_s=tuple(int(ms) / 1000 for ms in fields(holds)),
    )


def profile_json(profile: NodeProfile) -> str:
    """What ``n:<nid>`` keeps of a profile; start limit and capacity have fields of their own."""
    return json.dumps(
        {
            "service": profile.service,
            "mode": profile.mode,
            "host": profile.host,
            "pid": profile.pid,
            "release": profile.release,
        }
    )


def progress_json(progress: NodeProgress) -> str:
    """What ``n:<nid>`` keeps of a progress."""
    return json.dumps(
        {
            "step": progress.step,
            "seconds": round(progress.seconds, 1),
            "attempt": progress.attempt,
            "line": progress.line,
            "error": progress.error,
        }
    )


def progress(text: str) -> NodeProgress | None:
    """Decode what a node told, perhaps of another release; None for nothing or nonsense."""
    try:
        told = json.loads(text or "null")
        return NodeProgress(
            step=str(told["step"]),
            seconds=float(told["seconds"]),
            attempt=int(told.get("attempt", 1)),
            line=str(told.get("line", "")),
            error=str(told.get("error", "")),
        )
    except (ValueError, TypeError, KeyError):
        return None


def request_json(request: SessionRequest) -> bytes:
    """What ``sp:<sid>`` keeps of a request."""
    return to_json(
        {
            "identity": request.identity,
            "config": request.config,
            "prompt": request.prompt,
            "image_path": request.image_path,
        }
    )


def request(raw: bytes) -> SessionRequest:
    """Decode ``sp:<sid>``."""
    return SessionRequest(**json.loads(raw))


def limits(value: SessionLimits) -> dict[str, int]:
    """Limits as script arguments, in whole milliseconds."""
    return {
        "d_queued": round(value.queued_s * 1000),
        "d_assigned": round(value.assigned_s * 1000),
        "d_joining": round(value.joining_s * 1000),
        "d_controller": round(value.controller_s * 1000),
        "d_room_empty": round(value.room_empty_s * 1000),
        "d_starting": round(value.starting_s * 1000),
        "d_session": round(value.session_s * 1000),
        "d_draining": round(value.draining_s * 1000),
    }
