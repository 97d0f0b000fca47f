"""How does an operator ask over HTTP what became of one session?"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from control_plane.api.answers import json_answer
from control_plane.api.auth import Guard, Scope, known_id
from control_plane.api.bodies import LeanRoute
from control_plane.explanations import Explained, explained
from control_plane.operator_shapes import SessionSight
from control_plane.operator_view import session_sight
from control_plane.operator_words import event_words, node_troubles, reason_words
from control_plane.stories import Holder, Obstacles, Step
from shared.facts import PoolFacts
from shared.store import Registry

STEPS_SHOWN = 200
HOLDERS_SHOWN = 50


class StoryStep(TypedDict):
    """One thing that happened, in words, and how long the session stayed that way."""

    at: float
    what: str
    says: str
    node_id: str
    epoch: int | None
    lasted_s: float | None


class SlotHolder(TypedDict):
    """One slot that is taken; ``people`` and ``empty_s`` are null while they aren't known."""

    node_id: str
    session_id: str
    state: str | None
    quarantined: bool
    held_s: float | None
    people: int | None
    empty_s: float | None


class WaitsFor(TypedDict):
    """What a waiting session waits for; ``closed`` says why nodes are given nobody."""

    position: int
    ahead: list[str]
    slots: int
    slots_taken: int
    a_slot_is_free: bool
    holders: list[SlotHolder]
    closed: list[str]


class SessionStory(TypedDict):
    """What became of one session so far; ``complete`` is false if its beginning is forgotten."""

    session_id: str
    session: SessionSight | None
    ended_because: str | None
    waits_for: WaitsFor | None
    steps: list[StoryStep]
    complete: bool
    spent_s: dict[str, float]


def story_routes(*, access: Guard, registry: Registry, pools: tuple[str, ...]) -> APIRouter:
    """Return the route of one session's story."""
    router = APIRouter(route_class=LeanRoute, tags=["operator"])

    @router.get("/v1/stream/sessions/{session_id}/story", responses={200: {"model": SessionStory}})
    async def tell_story(request: Request, session_id: str) -> Response:
        """Tell why a session waits or ended, who had it, and where its time went."""
        await access.require(request, Scope.ADMIN)
        return json_answer(_story(await explained(registry, known_id(session_id, pools))))

    return router


def _story(told: Explained) -> SessionStory:
    story, session = told.story, told.session
    reason = session.record.get("reason") if session else None
    return {
        "session_id": story.session_id,
        "session": session_sight(told.facts, session) if session else None,
        "ended_because": reason_words(reason) if reason else None,
        "waits_for": _waits_for(told.facts, told.obstacles) if told.obstacles else None,
        "steps": [_step(step) for step in story.steps[-STEPS_SHOWN:]],
        "complete": story.complete and len(story.steps) <= STEPS_SHOWN,
        "spent_s": {str(phase): seconds for phase, seconds in story.spent_s.items()},
    }


def _step(step: Step) -> StoryStep:
    return {
        "at": step.at_ms / 1000,
        "what": step.what,
        "says": event_words(step.what, node=step.node_id, epoch=step.epoch, why=step.why),
        "node_id": step.node_id,
        "epoch": step.epoch,
        "lasted_s": step.lasted_s,
    }


def _waits_for(facts: PoolFacts, obstacles: Obstacles) -> WaitsFor:
    return {
        "position": obstacles.position,
        "ahead": list(obstacles.ahead),
        "slots": obstacles.slots,
        "slots_taken": obstacles.taken,
        "a_slot_is_free": obstacles.servable,
        "holders": [_holder(one) for one in obstacles.holders[:HOLDERS_SHOWN]],
        "closed": [
            f"{node.node_id}: {', '.join(node_troubles(node, facts.registry_ms)) or 'not ready'}"
            for node in obstacles.closed
        ],
    }


def _holder(holder: Holder) -> SlotHolder:
    return {
        "node_id": holder.node_id,
        "session_id": holder.session_id,
        "state": holder.state,
        "quarantined": holder.quarantined,
        "held_s": holder.held_s,
        "people": holder.people,
        "empty_s": holder.empty_s,
    }
