"""Who is in the room, and which workers are older?"""

from __future__ import annotations

from gpu_node.roster import Occupant, Roster, may_control, occupant
from shared.ids import WorkerIdentity
from shared.records import Presence

ME = WorkerIdentity(node_id="node-a", epoch=10, attempt=2)


def roster(*present: Occupant) -> Roster:
    """What worker (10, 2) knows when these are present."""
    made = Roster(ME, "alice")
    for one in present:
        made.enter(one)
    return made


def human(sid: str, identity: str) -> Occupant:
    """Somebody with a viewer's token."""
    return occupant(sid, identity, {"gr.role": "viewer"})


def worker(epoch: int, attempt: int, sid: str = "W") -> Occupant:
    """Somebody with a worker's token."""
    attributes = {"gr.role": "worker", "gr.epoch": str(epoch), "gr.attempt": str(attempt)}
    return occupant(sid, f"telefuser-n-{epoch}-{attempt}", attributes)


def test_humans_are_counted_and_workers_are_not() -> None:
    """A human is whoever isn't signed as a worker, whatever the name."""
    present = roster(human("1", "alice"), human("2", "telefuser-x-9-9"), worker(9, 1))
    assert present.presence(connected=True) == Presence(
        connected=True, controller=True, participants=2
    )


def test_a_reload_counts_once_and_its_late_leave_changes_nothing() -> None:
    """The old connection's end arrives after the new one is there."""
    present = roster(human("1", "alice"), human("2", "alice"))
    assert present.presence(connected=True).participants == 1
    present.leave("1")
    assert present.presence(connected=True).controller
    present.leave("2")
    assert not present.presence(connected=True).controller


def test_older_workers_are_those_of_lower_epoch_then_attempt() -> None:
    """A worker without a readable order is older than everybody."""
    nameless = occupant("4", "x", {"gr.role": "worker"})
    present = roster(worker(9, 9, "1"), worker(10, 1, "2"), worker(10, 2, "3"), nameless)
    assert present.older_workers() == ("telefuser-n-9-9", "telefuser-n-10-1", "x")
    assert not present.superseded()


def test_a_newer_worker_supersedes() -> None:
    """Of a higher epoch, or of the same and a higher attempt."""
    assert roster(worker(10, 3)).superseded()
    assert roster(worker(11, 1)).superseded()


def test_only_a_higher_epoch_outranks() -> None:
    """A later attempt of the same epoch is this node's own ghost."""
    assert roster(worker(10, 3)).outranked_by() is None
    assert roster(worker(9, 1, "1"), worker(12, 1, "2"), worker(11, 4, "3")).outranked_by() == 12


def test_a_name_alone_makes_no_worker() -> None:
    """Somebody named like a newer worker neither supersedes nor is removed."""
    present = roster(human("1", "telefuser-n-99-1"), human("2", "telefuser-n-1-1"))
    assert not present.superseded()
    assert present.older_workers() == ()


def test_replacing_forgets_who_isnt_there() -> None:
    """After a reconnect only the new list counts."""
    present = roster(human("1", "alice"))
    present.replace([human("2", "bob")])
    assert present.knows("2")
    assert not present.knows("1")


def test_only_the_named_controller_may_control() -> None:
    """Never somebody without a name or with a worker's."""
    assert may_control("alice", "alice")
    assert not may_control("bob", "alice")
    assert not may_control("", "")
    assert not may_control("telefuser-a", "telefuser-a")
