"""note_progress: how a node's service comes up, for people."""

from __future__ import annotations

from shared.node_profile import NodeProgress
from shared.store import replies
from shared.store.replies import progress_json
from tests.support.scenario import World

LOADING = progress_json(
    NodeProgress(step="starting", seconds=12.5, attempt=2, line="shard 3 of 8", error="no card")
)

PROFILE = '{"service":"w.py","mode":"bidirectional","host":"h","pid":7,"release":"1"}'


def life_of(world: World, life: int = 0, *, node_id: str = "n1") -> dict[str, str | int | bytes]:
    """Name a life of a node, the present one unless it's told apart."""
    return {"node_id": node_id, "incarnation": world.lives["n1"].incarnation + life}


def progress_of(world: World) -> NodeProgress | None:
    """What a snapshot tells."""
    _, (nodes, *_) = world.run("snapshot", waiting_shown=0)
    (node,) = (replies.node(row) for row in replies.rows(nodes))
    return node.progress


def test_a_node_tells_how_far_its_service_is(world: World) -> None:
    """It stands in the record until it's taken away."""
    world.add_node("n1", capacity=0, state="loading", profile=PROFILE)
    told = life_of(world)
    assert world.call("note_progress", **told, progress=LOADING)[0] == "noted"
    assert world.changes == {"n:n1 progress": LOADING}
    assert progress_of(world) == NodeProgress(
        step="starting", seconds=12.5, attempt=2, line="shard 3 of 8", error="no card"
    )
    assert world.call("note_progress", **told, progress="")[0] == "noted"
    assert progress_of(world) is None
    assert world.call("note_progress", **told, progress="")[0] == "noted"
    assert world.changes == {}


def test_a_life_that_is_over_tells_nothing(world: World) -> None:
    """Another incarnation, a node that was retired, one that never was."""
    life = world.add_node("n1", capacity=0, state="loading", profile=PROFILE)
    for told in (life_of(world, -1), life_of(world, node_id="n2")):
        assert world.call("note_progress", **told, progress=LOADING)[0] == "gone"
        assert world.changes == {}
    world.run("retire_node", node_id="n1", incarnation=life.incarnation)
    assert world.call("note_progress", **life_of(world), progress=LOADING)[0] == "gone"


def test_what_another_release_tells_is_read_as_far_as_it_is_known(world: World) -> None:
    """Fields may come and go; something unreadable is nothing."""
    world.add_node("n1", capacity=0, state="loading", profile=PROFILE)
    told = life_of(world)
    world.run("note_progress", **told, progress='{"step":"starting","seconds":1,"mood":"good"}')
    assert progress_of(world) == NodeProgress(step="starting", seconds=1.0)
    for text in ("{", "[]", '{"seconds":"x"}'):
        world.run("note_progress", **told, progress=text)
        assert progress_of(world) is None
