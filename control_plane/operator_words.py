"""What does an operator read of what happened, and of what is wrong? Pure.

The same sentences at the command line and on the operator's page.
"""

from __future__ import annotations

from control_plane.stories import moves_in_s
from shared.facts import NodeFacts, SessionFacts
from shared.gpus import GpuFacts, read_gpus
from shared.states import Admin, Judgement, NodeState, Reason
from shared.store.replies import progress

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
    "node_capacity": "an operator set how many {node} may hold: {why}",
    "node_drain": "an operator drains {node}: its sessions move in {why} s",
    "act": "{who} gave an order for {on}: {why}",
    "key_added": "{who} added the API key {on} ({why})",
    "key_revoked": "{who} revoked the API key {on}",
}


def event_words(
    what: str,
    *,
    node: str = "",
    epoch: int | None = None,
    why: str = "",
    who: str = "",
    on: str = "",
) -> str:
    """Say one entry of the audit trail; an unknown one keeps its own words."""
    template = _EVENTS.get(what)
    if template is None:
        return " ".join(part for part in (what, node, why) if part)
    return template.format(
        node=node,
        epoch=epoch or 0,
        why=why,
        who=who,
        on=on,
        returned=RETURNED_BECAUSE.get(why, why),
        ended=reason_words(why),
    )


def reason_words(reason: str) -> str:
    """Say why a session ended."""
    return ENDED_BECAUSE[Reason(reason)] if reason in ENDED_BECAUSE else reason


def has_first_frame(session: SessionFacts) -> bool:
    """Whether the present assignment has played anything."""
    frame_epoch = session.number("first_frame_epoch")
    return frame_epoch is not None and frame_epoch == session.number("epoch")


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


def gpu_troubles(facts: GpuFacts | None) -> list[str]:
    """Say which GPUs can't be used, and whether any of this may be old."""
    if facts is None:
        return []
    told = [f"GPU {gpu.number}: {gpu.trouble}" for gpu in facts.gpus if gpu.trouble]
    if facts.unknown_s:
        told.append(f"GPU driver silent for {spell(facts.unknown_s)}")
    return told


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


def spell(seconds: float) -> str:
    """Return a duration as "12 s", "3 m 12 s" or "1 h 04 m"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes = whole // 60
    if minutes < 60:
        return f"{minutes} m {whole % 60} s"
    return f"{minutes // 60} h {minutes % 60:02d} m"
