"""How does an operator make API keys and take them away, and what stands in the trail?"""

from __future__ import annotations

import pytest

from shared.access_keys import digest_of
from shared.store import Registry
from shared.store.keys import ACCESS
from tests.support.operator import Operator, open_sessions
from tests.support.redis_server import POOL


async def test_a_key_is_shown_once_and_listed_without_its_secret(operator: Operator) -> None:
    """What is kept is its digest."""
    told = await operator.says("keys", "add", "backend", "--scope", "read", "--scope", "create")
    assert told.status == 0
    first, key, last = told.lines
    assert first == "backend may create, read. This is its key; it is shown only now:"
    _, key_id, secret = key.split("_")
    assert last == f"greenroom keys revoke {key_id} takes it away."
    listed = await operator.says("keys")
    assert key_id in listed.text
    assert "create, read" in listed.text
    assert secret not in listed.text
    assert digest_of(key) not in listed.text


async def test_programs_get_the_same_as_json(operator: Operator, registry: Registry) -> None:
    """The key stands in the answer to add alone."""
    made = (await operator.says("keys", "add", "ci", "--scope", "admin", "--json")).json
    kept = (await registry.access.keys())[made["key_id"]]
    assert kept.digest == digest_of(made.pop("key"))
    assert (await operator.says("keys", "--json")).json == {"keys": [made]}
    told = await operator.says("keys", "revoke", made["key_id"], "--json")
    assert told.json == {"key_id": made["key_id"], "revoked": True}
    assert (await operator.says("keys", "--json")).json == {"keys": []}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "backend"), "scope"),
        (("add", "backend", "--scope", "root"), "create, read, admin"),
        (("add", "a b", "--scope", "read"), "name of a key"),
        (("revoke", "abcdefgh"), "no API key"),
    ],
)
async def test_mistakes_are_told(
    operator: Operator, arguments: tuple[str, ...], words: str
) -> None:
    """With something to try."""
    told = await operator.says("keys", *arguments)
    assert told.status == 2
    assert words in told.lines[0]
    assert told.lines[1].startswith("Try: greenroom keys")


async def test_a_whole_key_is_revoked_by_the_id_in_it(operator: Operator) -> None:
    """Whoever found a key in the open pastes it; its secret is never repeated."""
    made = (await operator.says("keys", "add", "ci", "--scope", "read", "--json")).json
    told = await operator.says("keys", "revoke", made["key"])
    assert told.text.startswith(f"The key {made['key_id']} is revoked")
    again = await operator.says("keys", "revoke", made["key"])
    assert again.lines[0] == f"There is no API key '{made['key_id']}'."
    secret = made["key"].split("_")[2]
    bare = await operator.says("keys", "revoke", secret)
    assert (bare.status, bare.lines[0]) == (2, "This is no id of an API key.")
    assert all(secret not in one.text for one in (told, again, bare))


async def test_without_keys_the_list_says_how_to_make_one(operator: Operator) -> None:
    """An empty table would say nothing."""
    assert "keys add" in (await operator.says("keys")).text


async def test_the_trail_tells_who_made_and_revoked_a_key(
    operator: Operator, registry: Registry
) -> None:
    """Under the tag of all keys; the key itself isn't in it."""
    made = (await operator.says("keys", "add", "ci", "--scope", "read", "--json")).json
    await operator.says("keys", "revoke", made["key_id"])
    added, revoked = await registry.trail.latest(ACCESS, 9)
    assert (added.what, added.on, added.why) == ("key_added", made["key_id"], "ci: read")
    assert (revoked.what, revoked.on) == ("key_revoked", made["key_id"])
    assert "@" in added.who == revoked.who
    told = await operator.says("events", "--pool", ACCESS)
    assert f"{added.who} added the API key {made['key_id']} (ci: read)" in told.text
    assert made["key"] not in told.text


async def test_the_trail_tells_who_gave_an_order_and_how_it_went(
    operator: Operator, registry: Registry
) -> None:
    """One that could not be given, since there is no such node, is none."""
    (session,) = await open_sessions(registry, 1)
    await operator.says("cancel", session)
    await operator.says("drain", "node-z")
    acts = [event for event in await registry.trail.latest(POOL, 9) if event.what == "act"]
    assert [(act.on, act.why) for act in acts] == [(session, "cancel: done")]
    told = await operator.says("events")
    assert f"gave an order for {session}: cancel: done" in " ".join(told.text.split())
