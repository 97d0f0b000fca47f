"""What is the shortest life of a pool in which every script is called?

For tests of what lies between a caller and the scripts: the way there, the server's mode. A new
script needs a line here; whoever lives this life checks that none is missing.
"""

from __future__ import annotations

from shared.store.scripts import Argument, all_names
from tests.support.scenario import World, sid


def live(world: World) -> None:
    """Live it; every call's answer that later ones depend on is checked."""
    life = world.add_node(capacity=2)
    _tell_of_itself(world, life.incarnation)
    world.run("put_image", session_id=sid("a"), image=b"jpeg", budget_bytes=99)
    key = {"idempotency_hash": "ab12", "fingerprint": "f1"}
    world.bring("a", "running", **key)
    world.bring("b", "joining_room")
    world.open("c", "d")
    world.beat()
    world.run("note_first_frame", **world.frame("a"))
    world.run("credit_session", **world.owner("a"), lost_ms=700)
    world.run("rebase_epoch", **world.owner("a"), seen=world.epoch("a") + 1)
    world.run("set_node_admin", **world.order("n1", "open"))
    world.run("set_node_capacity", **world.limit("n1", 2))
    world.run("inspect", session_ids=sid("a"), node_ids="n1")
    world.run("touch_sessions", session_ids=sid("c"), replica="r1")
    world.run("read_line", most_waiting=9, most_tickets=9, most_residents=9)
    world.session("c")
    world.run("settle_waiting", session_id=sid("c"), version=1, lease=1, present=1)
    world.run("note_estimate", session_id=sid("c"), middle_ms=2, low_ms=1, high_ms=3)
    world.run("count_people", session_id=sid("c"), epoch=0, people=1)
    world.open("e", identity_hash="ab12", most_waiting=1)
    world.run("cancel_waiting", session_id=sid("e"), reason="admin")
    for place in ("q", "n:n1", "ended"):
        world.run("list_sessions", place=place, after="0", count=9)
    world.run("give_back", **world.giving("b", "join_failed", capacity=1))
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    world.run("end_session", **world.owner("a"), reason="completed", error="late")
    world.pass_time(7)
    world.run("sweep_deadlines", budget=64)
    world.run("snapshot", waiting_shown=9)
    world.kill("n1")
    bundle = world.bundle("b")
    second = world.add_node("n1", boot_id="boot-2", previous=life.incarnation)
    _be_let_in(world)
    world.run("retire_node", node_id="n1", incarnation=second.incarnation)
    assert world.line() == "bcd"
    third = world.add_node("n2")
    claim = world.claim(third.node_id, "b", world.epoch("b") + 1, bundle)
    assert world.run("adopt_session", **claim)[0] == "adopted"
    assert world.called == set(all_names())


def _tell_of_itself(world: World, incarnation: int) -> None:
    """What a node says beside its beats."""
    world.run("note_progress", node_id="n1", incarnation=incarnation, progress="{}")
    world.run("note_play", node_id="n1", incarnation=incarnation, play="{}")


def _be_let_in(world: World) -> None:
    """What is written about those who may use the system."""
    new: dict[str, Argument] = {"key_id": "k1", "record": "{}", "told": "a: read", "who": "ann"}
    world.run("add_key", **new, most=9)
    world.run("revoke_key", key_id="k1", who="ann")
    world.run("draw_allowance", holder_hash="ab12", per_1000_s=1, most=1, wanted=1)
    world.run("note_act", act_id="a1", act="drain", subject="n1", who="ann", outcome="done")
