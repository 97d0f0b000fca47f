"""Why does a session wait, who had it, what died, why did it end, where did the time go?

``explain SID`` tells one session's story from the registry alone: its record, the audit trail, and
who holds the slots that it waits for.
"""

from __future__ import annotations

from collections.abc import Iterator

import typer

from control_plane.cli import rows
from control_plane.cli.looking import Json, show_json, show_table
from control_plane.cli.options import Given, takes
from control_plane.cli.registry_access import REGISTRY_FLAGS, asked
from control_plane.cli.tables import Cell, Column, clock, finely, hanging
from control_plane.cli.words import session_sign, state_words
from control_plane.explanations import Explained, explained
from control_plane.operator_words import (
    event_words,
    node_troubles,
    people,
    reason_words,
    room_words,
    spell,
)
from control_plane.stories import (
    Holder,
    Obstacles,
    Phase,
    Step,
    Story,
    room_of,
)
from shared.facts import PoolFacts
from shared.states import SessionState

_SLOTS_SHOWN = 20

_PHASE_WORDS = {
    Phase.WAITING: "in line",
    Phase.JOINING: "set up",
    Phase.STARTING: "starting",
    Phase.TO_FIRST_FRAME: "until the first frame",
    Phase.PLAYED: "played",
    Phase.ENDING: "ending",
}
_HOLDER_COLUMNS = (
    Column(title="  NODE", may_shrink=True),
    Column(title="SESSION"),
    Column(title="STATE"),
    Column(title="HELD FOR", numeric=True),
    Column(title="ROOM", may_shrink=True),
)


@takes(REGISTRY_FLAGS)
def explain(session_id: str, as_json: Json = False, *, given: Given) -> None:
    """Tell the story of one session: why it waits or ended, who had it, where the time went."""
    told = asked(
        given, lambda registry, _pool: explained(registry, session_id), session_id=session_id
    )
    if as_json:
        show_json(_json(told))
        return
    typer.echo("\n".join(_head(told)))
    if told.obstacles is not None:
        typer.echo("\nWhy it waits")
        typer.echo("\n".join(_obstacle_lines(told.facts, told.obstacles)))
        holders = told.obstacles.holders
        show_table(_HOLDER_COLUMNS, [_holder_row(one) for one in holders[:_SLOTS_SHOWN]])
        if len(holders) > _SLOTS_SHOWN:
            typer.echo(f"  … and {len(holders) - _SLOTS_SHOWN} more (--json has them)")
    typer.echo("\nWhat happened")
    typer.echo("\n".join(_step_lines(told.story)))
    typer.echo("\nWhere the time went")
    typer.echo("\n".join(_spent_lines(told.story)))


# --- for people ---------------------------------------------------------------------------------


def _head(told: Explained) -> Iterator[str]:
    session = told.session
    if session is None:
        yield f"{told.story.session_id}  its record is gone, the trail still knows it"
        return
    lasts = spell(rows.state_s(told.facts, session))
    since = f"for {lasts}" if session.is_live else f"{lasts} ago"
    yield f"{session.session_id}  {session_sign(session).text}, {since}"
    reason = session.record.get("reason")
    if not session.is_live and reason:
        yield from hanging("", f"It ended because {reason_words(reason)} ({reason}).")
        if error := session.texts.get("error"):
            yield from hanging("", f"The error: {error}")
    elif session.state is SessionState.DRAINING and reason:
        yield from hanging(
            "",
            f"It is ending because {reason_words(reason)} ({reason}); {session.node_id} cleans up.",
        )
    elif session.node_id:
        room = room_words(*room_of(session, told.facts.registry_ms))
        attempt = session.number("attempt")
        yield f"On {session.node_id}, attempt {attempt}{f'; {room}' if room else ''}."
        moves_s = rows.session_moves_in_s(told.facts, session)
        if moves_s is not None:
            yield f"An operator drains {session.node_id}: it moves in {spell(moves_s)}."


def _obstacle_lines(facts: PoolFacts, obstacles: Obstacles) -> Iterator[str]:
    if obstacles.position > 1:
        names = ", ".join(obstacles.ahead)
        rest = obstacles.position - 1 - len(obstacles.ahead)
        more = f" and {rest} more" if rest else ""
        count = people(obstacles.position - 1, "session is", "sessions are")
        yield from hanging("  ", f"{count} ahead of it: {names}{more}.")
    else:
        yield "  Nobody is ahead of it."
    if obstacles.servable:
        yield "  A slot is free: whoever is first gets it in this moment."
    elif obstacles.slots:
        slots = people(obstacles.slots, "slot is", "slots are")
        yield f"  {obstacles.taken} of {slots} taken, by:"
    else:
        yield "  No node takes sessions."
    for node in obstacles.closed:
        troubles = ", ".join(node_troubles(node, facts.registry_ms)) or "isn't ready"
        yield from hanging("  ", f"{node.node_id} is given none: {troubles}.")


def _holder_row(holder: Holder) -> list[Cell]:
    if holder.quarantined:
        state = "▲ not confirmed as empty"
    else:
        state = state_words(holder.state) if holder.state else "no record"
    room = room_words(holder.people, holder.empty_s)
    held = "" if holder.held_s is None else spell(holder.held_s)
    return [
        Cell(f"  {holder.node_id}"),
        Cell(holder.session_id),
        Cell(state),
        Cell(held),
        Cell(room),
    ]


def _step_lines(story: Story) -> Iterator[str]:
    if not story.complete:
        yield "  (the beginning is no longer in the audit trail)"
    for step in story.steps:
        lasted = "" if step.lasted_s is None else finely(step.lasted_s)
        words = event_words(step.what, node=step.node_id, epoch=step.epoch, why=step.why)
        yield from hanging(f"  {clock(step.at_ms)}  {lasted:>9}  ", words)


def _spent_lines(story: Story) -> Iterator[str]:
    for phase, seconds in story.spent_s.items():
        if seconds > 0:
            yield f"  {_PHASE_WORDS[phase]:22} {finely(seconds):>9}"


# --- for programs -------------------------------------------------------------------------------


def _json(told: Explained) -> dict[str, object]:
    obstacles = told.obstacles
    return {
        "session_id": told.story.session_id,
        "session": rows.session_json(told.facts, told.session) if told.session else None,
        "waits_for": None if obstacles is None else _obstacles_json(told.facts, obstacles),
        "steps": [_step_json(step) for step in told.story.steps],
        "complete": told.story.complete,
        "spent_s": dict(told.story.spent_s),
    }


def _obstacles_json(facts: PoolFacts, obstacles: Obstacles) -> dict[str, object]:
    return {
        "position": obstacles.position,
        "ahead": list(obstacles.ahead),
        "slots": obstacles.slots,
        "taken": obstacles.taken,
        "a_slot_is_free": obstacles.servable,
        "holders": [
            {
                "node_id": one.node_id,
                "session_id": one.session_id,
                "state": one.state,
                "quarantined": one.quarantined,
                "held_s": one.held_s,
                "people": one.people,
                "empty_s": one.empty_s,
            }
            for one in obstacles.holders
        ],
        "given_none": {
            node.node_id: node_troubles(node, facts.registry_ms) for node in obstacles.closed
        },
    }


def _step_json(step: Step) -> dict[str, object]:
    return {
        "at": step.at_ms / 1000,
        "what": step.what,
        "node_id": step.node_id or None,
        "epoch": step.epoch,
        "why": step.why or None,
        "lasted_s": step.lasted_s,
    }
