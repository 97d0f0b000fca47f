"""Which words and which shape tell an operator how something stands? Pure.

The same as on the pages: ● live, ◐ starting, ○ waiting, ■ ended, ▲ attention. Colour follows the
shape and is never the only sign.
"""

from __future__ import annotations

from enum import StrEnum

import typer

from control_plane.cli.gpu_words import gpu_troubles
from control_plane.cli.tables import Cell, spell
from control_plane.stories import moves_in_s
from shared.facts import NodeFacts, SessionFacts
from shared.gpus import read_gpus
from shared.states import Admin, Judgement, NodeState, Reason, SessionState
from shared.store.replies import progress


class Tone(StrEnum):
    """How something stands; the value is its shape."""

    LIVE = "●"
    STARTING = "◐"
    WAITING = "○"
    ENDED = "■"
    ATTENTION = "▲"


_COLOURS = {
    Tone.LIVE: typer.colors.GREEN,
    Tone.STARTING: typer.colors.CYAN,
    Tone.WAITING: typer.colors.YELLOW,
    Tone.ATTENTION: typer.colors.RED,
}

_SESSION_SIGNS = {
    SessionState.QUEUED: (Tone.WAITING, "in line"),
    SessionState.ASSIGNED: (Tone.STARTING, "setting up"),
    SessionState.JOINING_ROOM: (Tone.STARTING, "setting up"),
    SessionState.STARTING_PIPELINE: (Tone.STARTING, "starting"),
    SessionState.RUNNING: (Tone.LIVE, "on stage"),
    SessionState.DRAINING: (Tone.ENDED, "ending"),
    SessionState.CLOSED: (Tone.ENDED, "ended"),
    SessionState.EXPIRED: (Tone.ENDED, "ended"),
    SessionState.FAILED: (Tone.ENDED, "failed"),
}

_NODE_SIGNS = {
    NodeState.LOADING: (Tone.STARTING, "loading"),
    NodeState.IDLE: (Tone.WAITING, "idle"),
    NodeState.BUSY: (Tone.LIVE, "busy"),
    NodeState.ERROR: (Tone.ATTENTION, "error"),
    NodeState.DEAD: (Tone.ENDED, "dead"),
}

ENDED_BECAUSE = {
    Reason.CLIENT_STOP: "the client ended it",
    Reason.COMPLETED: "the show was over",
    Reason.ADMIN: "an operator ended it",
    Reason.NODE_SHUTDOWN: "the machine was taken down",
    Reason.SESSION_TIMEOUT: "its time was up",
    Reason.CONTROLLER_TIMEOUT: "its controller was away too long",
    Reason.ROOM_EMPTY: "everyone had left",
    Reason.QUEUE_ABANDONED: "the client was gone from the line",
    Reason.PAUSE_TIMEOUT: "the pause was too long",
    Reason.TALK_TIMEOUT: "the talk reached its time limit",
    Reason.CONTEXT_FULL: "the talk became too long to go on",
    Reason.JOIN_TIMEOUT: "no node got into its room",
    Reason.START_TIMEOUT: "the world couldn't start in time",
    Reason.RECOVERY_LIMIT: "it kept crashing machines",
    Reason.SERVICE_ERROR: "the world broke",
    Reason.LIVEKIT_ERROR: "the video connection broke",
    Reason.INVALID_CONFIG: "the world refused its settings",
}

RETURNED_BECAUSE = {
    "node_died": "the node died",
    "node_lost_it": "the node no longer had it",
    "node_shutdown": "the node shut down",
    "node_drained": "an operator drained the node",
    "media_lost": "the node lost the media server",
    "join_failed": "the node couldn't get into the room",
    "service_lost": "the model's process died",
    "gpu_lost": "the node lost its GPU",
    "accept_timeout": "the node didn't take it in time",
    "join_timeout": "the node wasn't in the room in time",
    "start_timeout": "the world didn't start in time",
}


_EVENTS = {
    "queued": "came into the line",
    "assigned": "its turn: a slot on {node} (epoch {epoch})",
    "joining_room": "{node} took it; the worker joins the room, waits for the controller",
    "starting_pipeline": "the controller is there; the world is being made",
    "running": "the world runs",
    "first_frame": "the first frame was played",
    "credited": "its time was put off by what a failure took",
    "returned": "back in line with its old ticket, away from {node}: {returned}",
    "adopted": "{node} brought it back after the registry had lost it (epoch {epoch})",
    "rebased": "goes on under epoch {epoch}: a higher one was met in its room",
    "draining": "is to end: {ended} ({why})",
    "ended": "ended: {ended} ({why})",
    "node_registered": "{node} began a life ({epoch})",
    "node_died": "{node} was declared dead: its heartbeat stopped",
    "node_retired": "{node} said goodbye",
    "node_loading": "{node} loads its model",
    "node_idle": "{node} is ready, nobody is on it",
    "node_busy": "{node} has somebody on stage",
    "node_error": "{node} can't serve",
    "node_admin": "an operator set {node} to {why}",
    "node_drain": "an operator drains {node}: its sessions move in {why} s",
}


def event_words(what: str, *, node: str = "", epoch: int | None = None, why: str = "") -> str:
    """Say one entry of the audit trail; an unknown one keeps its own words."""
    template = _EVENTS.get(what)
    if template is None:
        return " ".join(part for part in (what, node, why) if part)
    return template.format(
        node=node,
        epoch=epoch or 0,
        why=why,
        returned=RETURNED_BECAUSE.get(why, why),
        ended=reason_words(why),
    )


def reason_words(reason: str) -> str:
    """Say why a session ended."""
    return ENDED_BECAUSE[Reason(reason)] if reason in ENDED_BECAUSE else reason


def sign(tone: Tone, words: str) -> Cell:
    """Return shape and words, in the colour of the shape."""
    return Cell(f"{tone} {words}", _COLOURS.get(tone))


def session_sign(session: SessionFacts) -> Cell:
    """Say how a session stands."""
    if session.state is None:
        return sign(Tone.ATTENTION, "no record")
    tone, words = _SESSION_SIGNS[session.state]
    if session.state is SessionState.QUEUED and session.position is not None:
        words = f"{ordinal(session.position)} in line"
    if session.state is SessionState.RUNNING and not has_first_frame(session):
        tone, words = Tone.STARTING, "no frame yet"
    return sign(tone, words)


def has_first_frame(session: SessionFacts) -> bool:
    """Whether the present assignment has played anything."""
    frame_epoch = session.number("first_frame_epoch")
    return frame_epoch is not None and frame_epoch == session.number("epoch")


def state_words(state: SessionState) -> str:
    """Return a session's state in words, without its shape."""
    return _SESSION_SIGNS[state][1]


def node_sign(node: NodeFacts) -> Cell:
    """Say how a node stands."""
    if not node.record:
        return sign(Tone.ATTENTION, "no record")
    return sign(*_NODE_SIGNS[NodeState(node.record["state"])])


def node_troubles(node: NodeFacts, registry_ms: int) -> list[str]:
    """Say what keeps a node from being given sessions, and what is wrong with it."""
    troubles = []
    if node.record.get("admin") == Admin.DRAINING:
        moves_s = moves_in_s(node, registry_ms)
        soon = f": its sessions move in {spell(moves_s)}" if moves_s else ""
        troubles.append(f"closed by an operator{soon}")
    if node.record.get("draining") == "1":
        troubles.append("shuts down")
    if node.record.get("state") == NodeState.LOADING:
        troubles.append("still loads its model" + _how_far(node))
    if node.record.get("state") == NodeState.ERROR:
        troubles.append("its model can't serve" + _how_far(node))
    if node.record.get("media_ok") == "0":
        troubles.append("doesn't reach LiveKit")
    if node.record.get("state") != NodeState.ERROR:  # else its reason names them
        troubles += gpu_troubles(read_gpus(node.record.get("gpus", "")))
    rest_s = (node.number("rest") - registry_ms) / 1000
    if rest_s > 0:
        troubles.append(f"rests {rest_s:.0f} s after a failure")
    elif node.record.get("judged") == Judgement.SUSPECT:
        troubles.append("failed often lately")
    if node.lease_ms is not None and node.lease_ms <= registry_ms:
        troubles.append("silent")
    if strangers := node.number("strangers"):
        troubles.append(f"holds {strangers} that aren't its own")
    return troubles


def _how_far(node: NodeFacts) -> str:
    """Say what a node told of its service, from the step to its last line or its error."""
    told = progress(node.record.get("progress", ""))
    if told is None:
        return ""
    attempt = f", attempt {told.attempt}" if told.attempt > 1 else ""
    last = told.error if told.step == "failed" else told.line
    return f" ({told.step.replace('_', ' ')} for {spell(told.seconds)}{attempt})" + (
        f": {last}" if last else ""
    )


def room_words(humans: int | None, empty_s: float | None) -> str:
    """Say who is in a room, and for how long nobody was; nothing while that isn't known."""
    if humans is None:
        return ""
    if humans:
        return f"{people(humans, 'person', 'people')} in the room"
    return "room empty" + ("" if empty_s is None else f" for {spell(empty_s)}")


def ordinal(number: int) -> str:
    """Return "1st", "2nd", "11th"."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def people(number: int, one: str, many: str) -> str:
    """Return "1 session", "2 sessions"."""
    return f"{number} {one if number == 1 else many}"
