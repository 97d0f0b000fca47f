"""note_play: how a node plays, in its own figures."""

from __future__ import annotations

from shared.play_facts import PlayFacts, play_text, read_play
from shared.store.scripts import Argument
from tests.support.scenario import World

PLAY = play_text(
    PlayFacts(
        playing=2,
        fps=15.9,
        fps_min=14.0,
        chunk_p95_s=0.4,
        in_time=0.975,
        late_p95_s=0.01,
        lease_waiting=3,
    )
)


def test_a_node_tells_how_it_plays(world: World) -> None:
    """It stands in the record until it's taken away."""
    life = world.add_node()
    told: dict[str, Argument] = {"node_id": "n1", "incarnation": life.incarnation}
    assert world.call("note_play", **told, play=PLAY)[0] == "noted"
    assert world.changes == {"n:n1 play": PLAY}
    assert world.call("note_play", **told, play="")[0] == "noted"
    assert world.changes == {"n:n1 play": None}


def test_a_life_that_is_over_tells_nothing(world: World) -> None:
    """Another incarnation, a node that was retired, one that never was."""
    life = world.add_node()
    now: dict[str, Argument] = {"node_id": "n1", "incarnation": life.incarnation}
    others: list[dict[str, Argument]] = [
        {**now, "incarnation": life.incarnation - 1},
        {**now, "node_id": "n2"},
    ]
    for told in others:
        assert world.call("note_play", **told, play=PLAY)[0] == "gone"
        assert world.changes == {}
    world.run("retire_node", **now)
    assert world.call("note_play", **now, play=PLAY)[0] == "gone"


def test_what_is_told_is_read_as_far_as_it_is_known() -> None:
    """Fields may come and go; something unreadable is nothing, and so is a node without players."""
    assert read_play(PLAY) == PlayFacts(
        playing=2,
        fps=15.9,
        fps_min=14.0,
        chunk_p95_s=0.4,
        in_time=0.975,
        late_p95_s=0.01,
        lease_waiting=3,
    )
    assert read_play('{"playing":1,"mood":"good"}') == PlayFacts(playing=1)
    for text in ("", "{", "[]", '{"playing":"x"}', '{"fps":3}'):
        assert read_play(text) is None
    assert play_text(PlayFacts()) == ""


def test_a_fresh_process_has_not_played_yet(world: World) -> None:
    """What the one before it told would stand there until this one plays."""
    life = world.add_node()
    world.run("note_play", node_id="n1", incarnation=life.incarnation, play=PLAY)
    world.kill("n1")
    world.add_node("n1", boot_id="fresh")
    assert world.fact("n:n1", "play") == ""
