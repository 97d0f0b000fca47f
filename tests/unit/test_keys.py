"""The key table: every key belongs to one row, and nothing else does."""

from __future__ import annotations

import pytest

from shared.errors import InvalidName
from shared.ids import new_node_id, new_session_id
from shared.store.keys import (
    KEY_TABLE,
    assignments_channel,
    image_key,
    kind_of,
    prefix,
    request_key,
)

SAMPLES = {"<sid>": new_session_id("default"), "<nid>": new_node_id(), "<hash>": "ab12"}


@pytest.mark.parametrize("row", KEY_TABLE, ids=lambda row: str(row.suffix))
def test_every_row_knows_its_own_keys(row: object) -> None:
    """And no key belongs to two rows."""
    for kind in KEY_TABLE:
        name = kind.suffix
        for hole, sample in SAMPLES.items():
            name = name.replace(hole, sample)
        assert (kind_of(prefix("default") + name) is row) == (kind is row)


@pytest.mark.parametrize(
    "key",
    [
        "q",
        "gr:default:q",
        "gr:{}:q",
        "gr:{Default}:q",
        "gr:{default}:",
        "gr:{default}:x",
        "gr:{default}:q:1",
        "gr:{default}:s:",
        "gr:{default}:s:A",
        "gr:{default}:idem:xyz",
        "gr:{default}:ns:n1\n",
        "other:{default}:q",
    ],
)
def test_a_foreign_key_has_no_row(key: str) -> None:
    """The leak check names it."""
    assert kind_of(key) is None


def test_a_pool_is_one_hash_tag() -> None:
    """So all its keys lie in one slot of a cluster."""
    names = (image_key, request_key)
    keys = [build("p", new_session_id("p")) for build in names] + [assignments_channel("p", "n1")]
    assert all(key.startswith("gr:{p}:") for key in keys)
    with pytest.raises(InvalidName):
        prefix("a}b")


def test_what_is_kept_for_ever_is_said() -> None:
    """Everything else has an owner or a time to live; one kind per name empties itself instead."""
    lasting = {row.suffix for row in KEY_TABLE if row.lasting}
    assert lasting >= {"q", "nodes", "free", "dl", "ctr", "ev"}
    assert {suffix for suffix in lasting if "<" in suffix} == {"id:<hash>"}
