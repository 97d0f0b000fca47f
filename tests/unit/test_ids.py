"""Names carry their own routing, and a wrong one is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InvalidName
from shared.ids import (
    WorkerIdentity,
    check_node_id,
    check_pool,
    new_boot_ids,
    new_node_id,
    new_session_id,
    parse_worker_identity,
    pool_of,
    room_of,
    session_of_room,
)

pools = st.from_regex(r"\A[a-z0-9-]{1,32}\Z")
node_ids = st.from_regex(r"\A[a-z0-9][a-z0-9-]{0,47}\Z")


@given(pool=pools)
def test_a_session_id_names_its_pool(pool: str) -> None:
    """Whatever dashes the pool has: it is split at the last one that can be."""
    assert pool_of(new_session_id(pool)) == pool


def test_session_ids_can_t_be_guessed_and_never_meet() -> None:
    """130 random bits."""
    ids = {new_session_id("default") for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(one.rsplit("-", 1)[1]) == 26 for one in ids)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "default",
        "default-",
        "-" + "a" * 26,
        "default-" + "a" * 25,
        "default-" + "A" * 26,
        "default-" + "1" * 26,
        "x" * 33 + "-" + "a" * 26,
        "gr:{x}-" + "a" * 26,
        "default-" + "a" * 26 + "\n",
    ],
)
def test_what_is_no_session_id_is_refused(name: str) -> None:
    """Keys and rooms are built from it, so nothing else may pass."""
    with pytest.raises(InvalidName):
        pool_of(name)


@pytest.mark.parametrize("name", ["", "Default", "a" * 33, "a_b", "a}b", "a b", "pool\n", "ä"])
def test_what_is_no_pool_is_refused(name: str) -> None:
    """A pool is the hash tag of its keys."""
    with pytest.raises(InvalidName):
        check_pool(name)


@pytest.mark.parametrize("name", ["", "-a", "a" * 49, "Node", "a.b", "a\n"])
def test_what_is_no_node_id_is_refused(name: str) -> None:
    """A node id ends up in keys, channels and identities."""
    with pytest.raises(InvalidName):
        check_node_id(name)


def test_made_names_are_valid() -> None:
    """And each is another one."""
    assert check_node_id(new_node_id()) != new_node_id()
    one, other = new_boot_ids(), new_boot_ids()
    first, second = next(one), next(one)
    assert first.endswith(".1")
    assert second == first.removesuffix(".1") + ".2"
    assert next(other) != first


def test_a_refusal_names_the_rule_and_cuts_what_was_given() -> None:
    """A megabyte of nonsense doesn't come back."""
    with pytest.raises(InvalidName, match="1 to 32 of a-z") as refused:
        check_pool("X" * 1_000_000)
    assert len(str(refused.value)) < 200


def test_a_room_names_its_session() -> None:
    """One room serves a session for life."""
    session_id = new_session_id("default")
    assert session_of_room(room_of(session_id)) == session_id


@pytest.mark.parametrize("room", ["", "tf-world-", "lobby", "default-" + "a" * 26, "tf-world-x"])
def test_a_foreign_room_is_no_session_s(room: str) -> None:
    """Rooms of others are left alone."""
    assert session_of_room(room) is None


@given(node_id=node_ids, epoch=st.integers(0, 10**15 - 1), attempt=st.integers(0, 999_999))
def test_a_worker_s_identity_is_read_from_the_right(node_id: str, epoch: int, attempt: int) -> None:
    """A node id may end in numbers and dashes."""
    identity = WorkerIdentity(node_id=node_id, epoch=epoch, attempt=attempt)
    assert parse_worker_identity(str(identity)) == identity


def test_the_newer_worker_has_the_higher_order() -> None:
    """The epoch first, then the attempt to join."""
    orders = [
        WorkerIdentity(node_id="n", epoch=epoch, attempt=attempt).order
        for epoch, attempt in ((1, 9), (2, 1), (2, 2), (10, 1))
    ]
    assert orders == sorted(orders)


@pytest.mark.parametrize(
    "identity", ["", "ann", "telefuser-n1", "telefuser-n1-1", "telefuser--1-1", "telefuser-n1-x-1"]
)
def test_other_identities_are_no_worker_s(identity: str) -> None:
    """A name that only begins like one says nothing."""
    assert parse_worker_identity(identity) is None
