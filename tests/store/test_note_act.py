"""note_act: what an admin did is written down."""

from __future__ import annotations

from shared.store.scripts import Argument
from tests.support.scenario import World


def test_an_act_is_noted_once_however_often_it_is_told(world: World) -> None:
    """Also when others came between."""
    act: dict[str, Argument] = {
        "act_id": "a1",
        "act": "drain",
        "subject": "n1",
        "who": "ann (k1)",
        "outcome": "done",
    }
    assert world.call("note_act", **act)[0] == "noted"
    assert world.changes == {"ev 1": "act drain: done"}
    world.run("note_act", **act | {"act_id": "a2"})
    assert world.call("note_act", **act)[0] == "noted"
    assert world.changes == {}
