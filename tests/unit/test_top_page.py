"""What stands on the page of ``greenroom top``?"""

from __future__ import annotations

from dataclasses import replace

from control_plane.cli.top_page import Look, page, page_json
from control_plane.numbers import numbers_of
from shared.facts import PoolFacts
from shared.records import Snapshot
from shared.states import SessionState

TOTALS = {
    "opened": 40, "assigned": 38, "ended_completed": 20, "ended_service_error": 3,
    "returned_node_died": 2, "nodes_died": 1, "kill_le_20": 2, "kill_ms": 24_000,
}  # fmt: skip


def look(at_s: float, **totals: int) -> Look:
    """A look at an empty pool with these totals."""
    snapshot = Snapshot(
        pool="default",
        nodes=(),
        states={SessionState.QUEUED: 3},
        waiting=(),
        queued=3,
        oldest_wait_s=192.0,
        totals={**TOTALS, **totals},
    )
    facts = PoolFacts(pool="default", at_ms=0, registry_ms=0, sessions=(), nodes=(), counters={})
    return Look(at_s=at_s, numbers=numbers_of(snapshot), facts=facts)


def cells(lines: list[str], name: str) -> list[str]:
    """What stands behind a name."""
    return next(line for line in lines if line.startswith(name))[len(name) :].split()


def test_lately_is_what_came_since_the_look_before() -> None:
    """In a column of its own, which says how long that is."""
    lines = list(page(look(250.0, opened=44, ended_service_error=4), look(100.0)))
    assert "LAST 2 M 30 S" in lines[3]
    assert cells(lines, "came") == ["4", "44"]
    assert cells(lines, "failed") == ["1", "4"]
    assert cells(lines, "kill to first frame") == ["0", "–", "–", "2", "15", "s", "20", "s"]
    assert max(map(len, lines)) <= 100


def test_one_look_has_no_lately() -> None:
    """What isn't known isn't a column of zeros."""
    lines = list(page(look(100.0), None))
    assert "LAST" not in "\n".join(lines)
    assert cells(lines, "came") == ["40"]
    assert lines[0] == "Pool default: 3 wait, the first for 3 m 12 s; 0 on stage"


def test_a_registry_that_began_anew_is_no_negative_number() -> None:
    """All that it has counted came lately."""
    before = look(100.0)
    anew = replace(look(110.0), numbers=replace(before.numbers, opened=2, returned=0))
    lines = list(page(anew, before))
    assert cells(lines, "came") == ["2", "2"]
    told = page_json(anew, before)["lately"]
    assert isinstance(told, dict)
    assert told["counts"]["opened"] == 2
    assert told["seconds"] == 10.0


def test_nodes_that_aren_t_shown_are_counted() -> None:
    """Nobody thinks that these are all."""
    lines = list(page(replace(look(1.0), more_nodes=7), None))
    assert lines[-1] == "… and 7 more nodes (--limit shows them)"
