"""API keys, session ids that know their maker, and buckets: the pure parts of access."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.buckets import Buckets
from control_plane.session_owners import SessionOwners
from shared.access_keys import (
    ApiKey,
    Scope,
    check_key_name,
    digest_of,
    id_of,
    new_key,
    scopes_of,
)
from shared.errors import InvalidName
from shared.ids import new_session_id, pool_of

OWNERS = SessionOwners(b"secret")


def test_a_key_names_its_id_and_is_never_made_twice() -> None:
    """The id finds it; the secret has 160 random bits."""
    made = {new_key() for _ in range(1000)}
    assert len(made) == len({id_of(key) for key in made}) == 1000
    assert all(re.fullmatch(r"grk_[a-z2-7]{8}_[a-z2-7]{32}", key) for key in made)
    assert id_of(new_key("admin")) == "admin"


@given(st.text())
def test_whatever_is_sent_either_names_an_id_or_nothing(sent: str) -> None:
    """No text breaks it, and each has a digest of its own."""
    assert id_of(sent) is None or re.fullmatch(r"[a-z2-7]{8}|admin", id_of(sent) or "")
    assert digest_of(sent) == digest_of(sent)
    assert digest_of(sent + "x") != digest_of(sent)


@pytest.mark.parametrize("name", ["", " ", "a b", "-a", "a" * 49, "a\n", "ä"])
def test_a_name_that_could_mislead_is_refused(name: str) -> None:
    """It is shown in lists and trails."""
    with pytest.raises(InvalidName):
        check_key_name(name)


def test_admin_is_all_and_the_others_are_themselves() -> None:
    """A key without scopes, or with made-up ones, can't be."""
    keys = {
        scope: ApiKey(key_id="a", name="a", scopes=scopes_of([scope]), digest="") for scope in Scope
    }
    assert {one: {other for other in Scope if keys[one].allows(other)} for one in Scope} == {
        Scope.CREATE: {Scope.CREATE},
        Scope.READ: {Scope.READ},
        Scope.ADMIN: set(Scope),
    }
    for words in ([], ["root"], ["read", "Admin"]):
        with pytest.raises(InvalidName):
            scopes_of(words)


# Session ids.


def test_a_session_s_id_tells_who_made_it() -> None:
    """To whoever has the secret; for anybody else it is as random as any."""
    made = OWNERS.new_id("a-pool", "k1")
    assert pool_of(made) == "a-pool"
    assert OWNERS.is_owner("k1", made)
    assert not OWNERS.is_owner("k2", made)
    assert not OWNERS.is_owner("", made)
    assert not SessionOwners(b"other").is_owner("k1", made)
    assert len({OWNERS.new_id("p", "k1") for _ in range(1000)}) == 1000


def test_nobody_owns_a_session_of_an_open_replica() -> None:
    """Also not whoever makes keys later on."""
    assert not any(OWNERS.is_owner("k1", OWNERS.new_id("p", "")) for _ in range(1000))


@given(st.text(), st.text())
def test_no_made_up_id_has_an_owner(key_id: str, session_id: str) -> None:
    """Nor does any text break it."""
    assert not OWNERS.is_owner(key_id, session_id)


def test_a_mark_is_bound_to_all_before_it() -> None:
    """It can't be moved to another session, nor to the same one in another pool."""
    made, other = OWNERS.new_id("p", "k1"), new_session_id("p")
    assert not OWNERS.is_owner("k1", other[:-10] + made[-10:])
    assert not OWNERS.is_owner("k1", f"q{made[1:]}")


# Buckets.


def test_a_bucket_is_full_at_first_and_fills_again() -> None:
    """Three at once, then one each two seconds; waiting in vain costs nothing."""
    buckets = Buckets(per_s=0.5, most=3, names_kept=9)
    assert [buckets.take("a", 0.0) for _ in range(4)] == [0, 0, 0, 2.0]
    assert buckets.take("a", 1.0) == 1.0
    assert buckets.take("a", 2.0) == 0
    assert buckets.take("b", 2.0) == 0
    assert [buckets.take("a", 99.0) for _ in range(4)] == [0, 0, 0, 2.0]


def test_only_the_last_names_are_kept() -> None:
    """Strangers can't fill the memory; one who keeps asking stays known."""
    buckets = Buckets(per_s=0.001, most=1, names_kept=10)
    assert buckets.take("loud", 0.0) == 0
    for number in range(1000):
        buckets.take(str(number), 0.0)
        assert buckets.take("loud", 0.0) > 0
    assert len(buckets) == 10
