"""A slot belongs to one session at a time and is free again only when it is clean."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_node.slots import PoolFull, SlotMisused, SlotPool


def pool(size: int = 3) -> SlotPool[list[str]]:
    """Slots whose storage is a list."""
    return SlotPool([[] for _ in range(size)], name="caches")


def test_the_lowest_slot_is_taken_first() -> None:
    """Each with a storage of its own."""
    slots = pool()
    taken = [slots.take(name) for name in "abc"]
    assert [slot.index for slot in taken] == [0, 1, 2]
    taken[0].storage.append("a's")
    assert [slot.storage for slot in taken] == [["a's"], [], []]


def test_of_those_that_came_back_the_latest_is_taken_first() -> None:
    """Its memory is warm."""
    slots = pool()
    for name in "abc":
        slots.take(name)
    slots.give_back(0)
    slots.give_back(2)
    assert [slots.take(name).index for name in "de"] == [2, 0]


def test_a_full_pool_says_so() -> None:
    """With its size."""
    slots = pool(1)
    slots.take("a")
    with pytest.raises(PoolFull, match="caches is full: all 1 slots are taken"):
        slots.take("b")


def test_a_slot_that_is_given_back_twice_is_an_error() -> None:
    """Else two sessions would get it."""
    slots = pool()
    slots.take("a")
    slots.give_back(0)
    with pytest.raises(SlotMisused, match="slot 0 of caches is free, not taken"):
        slots.give_back(0)
    assert slots.free == 3


@pytest.mark.parametrize("index", [-1, 3])
def test_a_slot_that_isnt_there_is_an_error(index: int) -> None:
    """Also below zero, where Python would count from the end."""
    with pytest.raises(IndexError, match=f"no slot {index}: they go from 0 to 2"):
        pool().give_back(index)


def test_a_slot_is_free_only_after_its_cleanup() -> None:
    """Nobody gets it meanwhile, and nobody else cleans it."""
    slots = pool(1)
    slots.take("a").storage.append("a's")
    with slots.cleaning(0) as storage:
        with pytest.raises(PoolFull):
            slots.take("b")
        with pytest.raises(SlotMisused, match="is cleaning, not taken"):
            slots.give_back(0)
        storage.clear()
    assert slots.take("b").storage == []


def test_a_cleanup_that_fails_quarantines_the_slot() -> None:
    """It stays taken, the error goes on to whoever closes the session, and a person can see why."""
    slots = pool(2)
    slots.take("a")
    with pytest.raises(RuntimeError, match="still in use"), slots.cleaning(0):
        raise RuntimeError("the cache is still in use")
    assert slots.report() == {
        "capacity": 2,
        "free": 1,
        "taken": 0,
        "quarantined": [
            {"slot": 0, "owner": "a", "why": "RuntimeError: the cache is still in use"}
        ],
    }
    assert slots.take("b").index == 1
    with pytest.raises(PoolFull):
        slots.take("c")
    with pytest.raises(SlotMisused, match="is quarantined, not taken"):
        slots.give_back(0)


def test_a_quarantined_slot_comes_back_when_somebody_says_so() -> None:
    """And only such a one."""
    slots = pool(1)
    slots.take("a")
    with pytest.raises(SlotMisused, match="is taken, not quarantined"):
        slots.readmit(0)
    with pytest.raises(KeyError), slots.cleaning(0):
        raise KeyError("a")
    slots.readmit(0)
    assert slots.take("b").index == 0


def test_a_pool_without_slots_is_an_error() -> None:
    """Its name says which."""
    with pytest.raises(ValueError, match="caches has no slots"):
        SlotPool([], name="caches")


@given(
    st.lists(st.tuples(st.sampled_from(["take", "back", "break", "readmit"]), st.integers(0, 3)))
)
@settings(max_examples=100, deadline=None)
def test_no_slot_is_ever_lost_or_given_to_two(steps: list[tuple[str, int]]) -> None:
    """Whatever happens in whatever order."""
    slots = pool(4)
    taken: set[int] = set()
    broken: set[int] = set()
    for what, index in steps:
        if what == "take" and len(taken) + len(broken) < 4:
            got = slots.take("x").index
            assert got not in taken | broken
            taken.add(got)
        elif what == "back" and index in taken:
            slots.give_back(index)
            taken.discard(index)
        elif what == "break" and index in taken:
            with pytest.raises(OSError, match="torn"), slots.cleaning(index):
                raise OSError("torn")
            taken.discard(index)
            broken.add(index)
        elif what == "readmit" and index in broken:
            slots.readmit(index)
            broken.discard(index)
        assert slots.free == 4 - len(taken) - len(broken)


def test_threads_dont_get_one_slot_twice() -> None:
    """Sessions are made on one thread and closed on others."""
    slots = pool(4)
    doubles: list[int] = []
    used: set[int] = set()
    guard = threading.Lock()

    def play() -> None:
        for _ in range(200):
            try:
                index = slots.take("x").index
            except PoolFull:
                continue
            with guard:
                if index in used:
                    doubles.append(index)
                used.add(index)
            with guard:
                used.discard(index)
            slots.give_back(index)

    threads = [threading.Thread(target=play) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (doubles, slots.free) == ([], 4)


def test_a_service_file_may_import_it_by_itself() -> None:
    """It brings in nothing of ours but itself."""
    code = """if True:
        import sys, gpu_node.slots
        ours = ("gpu_node", "shared", "control_plane", "torch", "structlog")
        print(*sorted(name for name in sys.modules if name.split(".")[0] in ours))
        """
    told = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    ).stdout
    assert told.split() == ["gpu_node", "gpu_node.slots"]
