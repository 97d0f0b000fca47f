"""How do a session and a node look in a list, to people and to programs? Pure.

The JSON of programs is stable: names stay, new ones may come. Times are float Unix seconds of the
registry's server, durations are seconds. Who a person is isn't in it.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from control_plane.cli.gpu_words import gpu_words, gpus_json
from control_plane.cli.tables import Cell, Column
from control_plane.cli.words import node_sign, session_sign
from control_plane.operator_words import (
    RETURNED_BECAUSE,
    has_first_frame,
    node_troubles,
    room_words,
    spell,
)
from control_plane.stories import moves_in_s, room_of
from shared.facts import NodeFacts, PoolFacts, SessionFacts
from shared.gpus import read_gpus
from shared.play_facts import PlayFacts, read_play
from shared.states import SessionState
from shared.store.replies import progress

SESSION_COLUMNS = (
    Column(title="SESSION"),
    Column(title="STATE"),
    Column(title="FOR", numeric=True),
    Column(title="NODE", may_shrink=True),
    Column(title="AGE", numeric=True),
    Column(title="NOTE", may_shrink=True),
)
QUEUE_COLUMNS = (
    Column(title="PLACE", numeric=True),
    Column(title="SESSION"),
    Column(title="WAITING", numeric=True),
    Column(title="AGE", numeric=True),
    Column(title="NOTE", may_shrink=True),
)
NODE_COLUMNS = (
    Column(title="NODE"),
    Column(title="STATE"),
    Column(title="SLOTS"),
    Column(title="GPU"),
    Column(title="BEAT", numeric=True),
    Column(title="SERVICE", may_shrink=True),
    Column(title="RELEASE", may_shrink=True),
    Column(title="NOTE", may_shrink=True),
)
TOP_COLUMNS = (
    Column(title="NODE"),
    Column(title="STATE"),
    Column(title="SLOTS"),
    Column(title="LEAST FPS", numeric=True),
    Column(title="CHUNK 95 %", numeric=True),
    Column(title="IN TIME", numeric=True),
    Column(title="LATE 95 %", numeric=True),
    Column(title="GPU"),
    Column(title="BEAT", numeric=True),
    Column(title="NOTE", may_shrink=True),
)
_MOST_SQUARES = 12


def session_row(facts: PoolFacts, session: SessionFacts) -> list[Cell]:
    """One line of ``ps``."""
    return [
        Cell(session.session_id),
        session_sign(session),
        Cell(spell(state_s(facts, session))),
        Cell(session.node_id),
        Cell(spell(_since(facts, session.number("created")))),
        Cell("; ".join(_notes(facts, session))),
    ]


def queue_row(facts: PoolFacts, session: SessionFacts) -> list[Cell]:
    """One line of ``queue``."""
    return [
        Cell(str(session.position or "")),
        Cell(session.session_id),
        Cell(spell(state_s(facts, session))),
        Cell(spell(_since(facts, session.number("created")))),
        Cell("; ".join(_notes(facts, session))),
    ]


def node_row(facts: PoolFacts, node: NodeFacts) -> list[Cell]:
    """One line of ``nodes``."""
    profile = node_profile(node)
    return [
        Cell(node.node_id),
        node_sign(node),
        Cell(squares(node)),
        Cell(gpu_words(read_gpus(node.record.get("gpus", "")))),
        Cell(f"{beat_age_s(facts, node):.1f} s"),
        Cell(str(profile.get("service", ""))),
        Cell(str(profile.get("release", ""))),
        Cell("; ".join(node_troubles(node, facts.registry_ms))),
    ]


def top_row(facts: PoolFacts, node: NodeFacts) -> list[Cell]:
    """One line of ``top``: how the node stands and plays."""
    play = read_play(node.record.get("play", "")) or PlayFacts()
    return [
        Cell(node.node_id),
        node_sign(node),
        Cell(squares(node)),
        Cell(_figure(play.fps_min, ".1f")),
        Cell(_figure(play.chunk_p95_s, ".3f", " s")),
        Cell(_figure(play.in_time, ".0%")),
        Cell(_figure(play.late_p95_s, ".3f", " s")),
        Cell(gpu_words(read_gpus(node.record.get("gpus", "")))),
        Cell(f"{beat_age_s(facts, node):.1f} s"),
        Cell("; ".join(node_troubles(node, facts.registry_ms))),
    ]


def _figure(value: float | None, form: str, unit: str = "") -> str:
    return "" if value is None else f"{value:{form}}{unit}"


def squares(node: NodeFacts) -> str:
    """Return slots as small shapes: ■ taken, ▲ not confirmed as empty, □ free; then the numbers."""
    used, capacity = len(node.members), node.capacity
    quarantined = sum(member.quarantined for member in node.members)
    numbers = f"{used}/{capacity}"
    if max(used, capacity) > _MOST_SQUARES:
        return numbers + (f" (▲ {quarantined})" if quarantined else "")
    free = max(0, capacity - used)
    return f"{'■' * (used - quarantined)}{'▲' * quarantined}{'□' * free} {numbers}".strip()


def state_s(facts: PoolFacts, session: SessionFacts) -> float:
    """Return for how long a session has been in its state."""
    if session.state is SessionState.RUNNING:
        return _since(facts, session.number("started"))
    return _since(facts, session.number("updated"))


def beat_age_s(facts: PoolFacts, node: NodeFacts) -> float:
    """Return how long ago a node was heard, in registry time."""
    return max(0, facts.registry_ms - node.number("beat")) / 1000


def session_json(facts: PoolFacts, session: SessionFacts) -> dict[str, object]:
    """Return a session as programs get it."""
    people, empty_s = room_of(session, facts.registry_ms)
    first_frame = session.number("first_frame") if has_first_frame(session) else None
    return {
        "session_id": session.session_id,
        "state": session.state,
        "position": session.position,
        "ticket": session.number("ticket"),
        "node_id": session.node_id or None,
        "epoch": session.number("epoch"),
        "attempt": session.number("attempt"),
        "created_at": _seconds(session.number("created")),
        "admitted_at": _seconds(session.number("admitted")),
        "first_frame_at": _seconds(first_frame),
        "ended_at": _seconds(session.number("ended")),
        "state_for_s": round(state_s(facts, session), 3),
        "people": people,
        "empty_for_s": empty_s,
        "limit_in_s": limit_in_s(facts, session),
        "moves_in_s": session_moves_in_s(facts, session),
        "reason": session.record.get("reason"),
        "error": session.texts.get("error"),
        "returned_because": session.record.get("back"),
    }


def node_json(facts: PoolFacts, node: NodeFacts) -> dict[str, object]:
    """Return a node as programs get it."""
    return {
        "node_id": node.node_id,
        "state": node.record.get("state"),
        "judged": node.record.get("judged", "ok"),
        "admin": node.record.get("admin", "open"),
        "moves_in_s": moves_in_s(node, facts.registry_ms),
        "draining": node.record.get("draining") == "1",
        "media_ok": node.record.get("media_ok") == "1",
        "capacity": node.capacity,
        "used": len(node.members),
        "quarantined": sum(member.quarantined for member in node.members),
        "is_free": node.free_score is not None,
        "incarnation": node.number("inc"),
        "beat_age_s": beat_age_s(facts, node),
        "rest_s": max(0, node.number("rest") - facts.registry_ms) / 1000,
        "profile": node_profile(node),
        "progress": asdict(told) if (told := progress(node.record.get("progress", ""))) else None,
        "play": asdict(play) if (play := read_play(node.record.get("play", ""))) else None,
        **gpus_json(read_gpus(node.record.get("gpus", ""))),
        "sessions": [member.session_id for member in node.members if not member.quarantined],
    }


def node_profile(node: NodeFacts) -> dict[str, object]:
    """Return what a node said of itself when its life began."""
    try:
        profile = json.loads(node.record.get("profile") or "{}")
    except ValueError:
        return {}
    return profile if isinstance(profile, dict) else {}


def _notes(facts: PoolFacts, session: SessionFacts) -> list[str]:
    notes = []
    back = session.record.get("back")
    if session.state is SessionState.QUEUED and back:
        notes.append(f"back: {RETURNED_BECAUSE.get(back, back)}")
    elif (attempt := session.number("attempt") or 1) > 1:
        notes.append(f"attempt {attempt}")
    humans, empty_s = room_of(session, facts.registry_ms)
    if humans == 0:
        notes.append(room_words(humans, empty_s))
    if session.state is SessionState.DRAINING:
        notes.append(session.record.get("reason", ""))
    elif (moves_s := session_moves_in_s(facts, session)) is not None:
        notes.append(f"moves in {spell(moves_s)}")
    return notes


def session_moves_in_s(facts: PoolFacts, session: SessionFacts) -> float | None:
    """Return in how many seconds a live drain of its node moves a session; None: not."""
    if not session.node_id or not session.is_live:
        return None
    node = next((one for one in facts.nodes if one.node_id == session.node_id), None)
    return moves_in_s(node, facts.registry_ms)


def limit_in_s(facts: PoolFacts, session: SessionFacts) -> float | None:
    """Return how long a session may still last; None: for ever, or its time stands still."""
    limit_ms = session.deadlines().get("session")
    return None if limit_ms is None else max(0, limit_ms - facts.registry_ms) / 1000


def _since(facts: PoolFacts, at_ms: int | None) -> float:
    return 0.0 if at_ms is None else max(0, facts.at_ms - at_ms) / 1000


def _seconds(at_ms: int | None) -> float | None:
    return None if at_ms is None else at_ms / 1000
