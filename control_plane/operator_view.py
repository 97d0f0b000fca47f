"""How do pools, nodes and sessions look to an operator? Pure.

For the operator's page and ``/v1/nodes``. Instants are wall times of the registry's server, so that
what nobody touches looks the same from one look to the next. What moves all the time all the same
(heartbeats, gauges, estimates) is named apart: a look that differs in nothing else needn't be sent
as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from control_plane.estimates import Forecast
from control_plane.operator_shapes import (
    GpuSight,
    NodeSight,
    Overview,
    PlaceSight,
    PoolCounts,
    PoolSight,
    ProgressSight,
    SessionSight,
)
from control_plane.operator_words import has_first_frame, node_troubles
from control_plane.stories import moves_in_s, room_of
from shared.facts import NodeFacts, PoolFacts, SessionFacts
from shared.gpus import read_gpus
from shared.play_facts import PlayFacts, read_play
from shared.records import SessionRecord, Snapshot
from shared.states import Admin
from shared.store.replies import progress

MOVING_OF_NODE = (
    "beat_at",
    "troubles",
    "progress",
    "gpus",
    "gpus_unknown_for_s",
    "lease_waiting",
    "fps",
    "late_p95_s",
)
MOVING_OF_PLACE = ("estimated_wait_s", "estimated_wait_range_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setbacks:
    """What went wrong in a pool of late."""

    failed: int
    nodes_lost: int
    since_ms: int
    """From when on that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReading:
    """All that was read of one pool."""

    snapshot: Snapshot
    facts: PoolFacts
    """The nodes and sessions that are shown."""
    line: Sequence[SessionRecord]
    """The first ones in line."""
    forecast: Forecast
    setbacks: Setbacks


def pool_sight(reading: PoolReading, max_waiting: int) -> PoolSight:
    """Return how a pool looks."""
    facts = reading.facts
    return {
        "pool": facts.pool,
        "max_waiting": max_waiting,
        "counts": _counts(reading),
        "line": [place_sight(one, reading.forecast) for one in reading.line if one.position],
        "nodes": [node_sight(facts, one) for one in facts.nodes if one.record],
        "sessions": [session_sight(facts, one) for one in facts.sessions if one.state],
    }


def node_sight(facts: PoolFacts, node: NodeFacts) -> NodeSight:
    """Return how a node looks."""
    record, profile = node.record, _profile(node)
    moves_s = moves_in_s(node, facts.registry_ms)
    gpus = read_gpus(record.get("gpus", ""))
    play = read_play(record.get("play", "")) or PlayFacts()
    told = progress(record.get("progress", ""))
    registered_ms = node.number("registered")
    return {
        "node_id": node.node_id,
        "version": record.get("order", ""),
        "state": record.get("state", ""),
        "judged": record.get("judged", "ok"),
        "admin": record.get("admin", Admin.OPEN),
        "draining": record.get("draining") == "1",
        "media_ok": record.get("media_ok") == "1",
        "is_free": node.free_score is not None,
        "moves_at": None if moves_s is None else _wall(facts, node.number("drain_at")),
        "capacity": node.capacity,
        "reported_capacity": node.number("capacity"),
        "admin_capacity": node.number("admin_capacity") if "admin_capacity" in record else None,
        "used": len(node.members),
        "quarantined": sum(member.quarantined for member in node.members),
        "strangers": node.number("strangers"),
        "sessions": [one.session_id for one in node.members if not one.quarantined],
        "service": profile.get("service", ""),
        "mode": profile.get("mode", ""),
        "release": profile.get("release", ""),
        "host": profile.get("host", ""),
        "incarnation": node.number("inc"),
        "registered_at": registered_ms / 1000 if registered_ms else None,
        "beat_at": _wall(facts, node.number("beat")),
        "troubles": node_troubles(node, facts.registry_ms),
        "progress": None if told is None else _progress(asdict(told)),
        "gpus": [_gpu(asdict(one)) for one in gpus.gpus] if gpus else [],
        "gpus_unknown_for_s": gpus.unknown_s if gpus else 0,
        "lease_waiting": play.lease_waiting,
        "fps": play.fps,
        "late_p95_s": play.late_p95_s,
    }


def session_sight(facts: PoolFacts, session: SessionFacts) -> SessionSight:
    """Return how a session looks."""
    people, _ = room_of(session, facts.registry_ms) if session.is_live else (None, None)
    has_frame = has_first_frame(session) or not session.is_live
    reason = session.record.get("reason")
    return {
        "session_id": session.session_id,
        "identity": session.texts.get("identity"),
        "state": session.state or "",
        "node_id": session.node_id or None,
        "attempt": session.number("attempt") or 1,
        "epoch": session.number("epoch") or 0,
        "people": people,
        "created_at": _seconds(session.number("created")),
        "admitted_at": _seconds(session.number("admitted")),
        "assigned_at": _seconds(session.number("assigned")),
        "first_frame_at": _seconds(session.number("first_frame")) if has_frame else None,
        "ended_at": _seconds(session.number("ended")),
        "reason": reason or None,
        "error": session.texts.get("error") or None,
        "returned_because": session.record.get("back") or None,
    }


def place_sight(record: SessionRecord, forecast: Forecast) -> PlaceSight:
    """Return how a place in line looks."""
    position = record.position or 0
    estimate = forecast.of(position)
    return {
        "position": position,
        "session_id": record.session_id,
        "identity": record.identity or None,
        "waiting_since": record.ticket / 1000,
        "created_at": record.created_at_s,
        "attempt": record.attempt,
        "returned_because": record.returned_because,
        "estimated_wait_s": estimate.middle_s if estimate else None,
        "estimated_wait_range_s": estimate.range_s if estimate else None,
    }


def moving_part(overview: Overview) -> dict[str, Any]:
    """Return of *overview* only what moves all the time."""
    return {
        "at": overview["at"],
        "pools": [
            {
                "pool": pool["pool"],
                "nodes": [_only(one, "node_id", *MOVING_OF_NODE) for one in pool["nodes"]],
                "line": [_only(one, "session_id", *MOVING_OF_PLACE) for one in pool["line"]],
            }
            for pool in overview["pools"]
        ],
    }


def lasting_part(overview: Overview) -> list[dict[str, Any]]:
    """Return of *overview* only what changes when something happens."""
    return [
        {
            **pool,
            "counts": _without(pool["counts"], "counted_since"),
            "nodes": [_without(one, *MOVING_OF_NODE) for one in pool["nodes"]],
            "line": [_without(one, *MOVING_OF_PLACE) for one in pool["line"]],
        }
        for pool in overview["pools"]
    ]


def without_identities(overview: Overview) -> Overview:
    """Return *overview* without saying who anybody is."""
    pools: list[PoolSight] = [
        {
            **pool,
            "line": [{**one, "identity": None} for one in pool["line"]],
            "sessions": [{**one, "identity": None} for one in pool["sessions"]],
        }
        for pool in overview["pools"]
    ]
    return {"at": overview["at"], "pools": pools}


def _counts(reading: PoolReading) -> PoolCounts:
    snapshot, line = reading.snapshot, reading.line
    states: dict[str, int] = {}
    for node in snapshot.nodes:
        states[node.state] = states.get(node.state, 0) + 1
    return {
        "waiting": snapshot.queued,
        "waiting_since": line[0].ticket / 1000 if line and snapshot.queued else None,
        "sessions": {str(state): count for state, count in snapshot.states.items()},
        "nodes": states,
        "nodes_closed": sum(node.admin is Admin.DRAINING for node in snapshot.nodes),
        "slots": sum(node.capacity for node in snapshot.nodes),
        "slots_taken": sum(node.used for node in snapshot.nodes),
        "quarantined": sum(node.quarantined for node in snapshot.nodes),
        "failed": reading.setbacks.failed,
        "nodes_lost": reading.setbacks.nodes_lost,
        "counted_since": reading.setbacks.since_ms / 1000,
    }


def _wall(facts: PoolFacts, registry_ms: int) -> float:
    """Turn an instant of registry time into the server's wall time."""
    return (facts.at_ms - facts.registry_ms + registry_ms) / 1000


def _profile(node: NodeFacts) -> dict[str, str]:
    try:
        profile = json.loads(node.record.get("profile") or "{}")
    except ValueError:
        return {}
    return {name: str(value) for name, value in profile.items()} if profile else {}


def _progress(told: dict[str, Any]) -> ProgressSight:
    return {
        "step": told["step"],
        "seconds": told["seconds"],
        "attempt": told["attempt"],
        "line": told["line"],
        "error": told["error"],
    }


def _gpu(told: dict[str, Any]) -> GpuSight:
    return {
        "number": told["number"],
        "uuid": told["uuid"],
        "name": told["name"],
        "used_mib": told["used_mib"],
        "total_mib": told["total_mib"],
        "busy_percent": told["busy_percent"],
        "temperature_c": told["temperature_c"],
        "ecc_errors": told["ecc_errors"],
        "xid": told["xid"],
        "trouble": told["trouble"],
    }


def _seconds(at_ms: int | None) -> float | None:
    return None if at_ms is None else at_ms / 1000


def _only(whole: Any, *names: str) -> dict[str, Any]:
    return {name: whole[name] for name in names}


def _without(whole: Any, *names: str) -> dict[str, Any]:
    return {name: value for name, value in whole.items() if name not in names}
