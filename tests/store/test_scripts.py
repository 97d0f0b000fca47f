"""Do all scripts keep the rules of the house, and survive what a server does to them?"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import redis

from shared.records import OpenRequest, SessionLimits, SessionRequest
from shared.store import Registry
from shared.store.keys import KEY_TABLE
from shared.store.scripts import UnknownReply, all_names, load
from tests.support.lua_headers import LUA, header
from tests.support.played_node import PlayedNode
from tests.support.redis_server import POOL, RawRedis, StartRedis
from tests.support.scenario import World, sid

FILES = sorted(LUA.rglob("*.lua"))
TESTS = Path(__file__).parent

MAY_BE_REFUSED_FOR_MEMORY = {"add_key", "open_session", "put_image"}
READ_ONLY = {
    "inspect",
    "list_sessions",
    "read_bundle",
    "read_line",
    "read_session",
    "snapshot",
}


# Headers.


@pytest.mark.parametrize("script", all_names())
def test_every_header_says_what_the_script_does(script: str) -> None:
    """Purpose, KEYS, ARGV, what it touches, replies, their fields, what it publishes."""
    told = header(script)
    assert told.shebang.startswith("#!lua")
    assert told.purpose.endswith((".", ":", ","))
    expected = {"KEYS", "ARGV", "Touches", "Replies", "Fields", "Publishes", "Include"}
    assert expected <= told.fields.keys()
    assert told.fields["KEYS"] == "prefix"
    assert told.words("ARGV")[0] == "now_ms"
    assert set(told.words("Touches")) <= {row.suffix for row in KEY_TABLE}


@pytest.mark.parametrize("script", all_names())
def test_every_reply_is_one_that_the_header_lists(script: str) -> None:
    """And the other way round: no word is listed that no line returns."""
    text = (LUA / f"{script}.lua").read_text()
    returned = set(re.findall(r"(?:return|reply =|with_move\(n,) \{'(\w+)'", text))
    if computed := re.search(r"return \{\S.* and '(\w+)' or '(\w+)'", text):
        returned |= set(computed.groups())
    if script == "give_back":
        returned |= {"returned", "ended"}  # what include/ending.lua made of it
    assert returned == set(header(script).words("Replies"))


@pytest.mark.parametrize("script", all_names())
def test_every_reply_word_has_a_test(script: str) -> None:
    """Each word stands in an assertion of the script's own test file."""
    tree = ast.parse((TESTS / f"test_{script}.py").read_text())
    asserted = {
        constant.value
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Assert | ast.Assign)
        for constant in ast.walk(statement)
        if isinstance(constant, ast.Constant)
    }
    assert set(header(script).words("Replies")) <= asserted


def test_readers_can_t_write_and_only_newcomers_are_refused_for_memory() -> None:
    """A full server must still free slots; it may refuse what makes it fuller."""
    no_writes = {name for name in all_names() if "no-writes" in header(name).shebang}
    allow_oom = {name for name in all_names() if "allow-oom" in header(name).shebang}
    assert no_writes == READ_ONLY
    assert set(all_names()) - allow_oom - no_writes == MAY_BE_REFUSED_FOR_MEMORY


# Style.


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(LUA)))
def test_every_file_is_short(file: Path) -> None:
    """Under a hundred lines of at most a hundred and twenty characters, headers apart."""
    lines = file.read_text().splitlines()
    assert len(lines) < 100
    assert [line for line in lines if len(line) > 120 and not line.startswith("-- ")] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(LUA)))
def test_keys_are_built_in_one_place(file: Path) -> None:
    """Only core.lua knows the prefix; a key given to Redis comes from its builder or a local."""
    text = file.read_text()
    if file.name != "core.lua":
        assert not re.search(r"KEYS\b|\bprefix\b", re.sub(r"^--.*$", "", text, flags=re.MULTILINE))
    keys = re.findall(r"redis\.call\('(?!TIME|INFO)[A-Z]+', ([^,)]+)", text)
    literals = [key for key in keys if not re.match(r"key\('?\w+|[A-Za-z_]\w*$", key)]
    assert literals == []
    kinds = {row.suffix.split(":")[0] for row in KEY_TABLE} | {"w", "r"}
    assert set(re.findall(r"\bkey\('(\w+)'", text)) <= kinds


# Calls.


def test_arguments_go_by_name() -> None:
    """Nobody counts ARGV; a name too many or too few is a mistake of ours, and loud."""
    script = load("cancel_session")
    assert script.arguments({"session_id": "a", "reason": "admin"}) == [b"0", b"a", b"admin"]
    with pytest.raises(KeyError):
        script.arguments({"session_id": "a"})
    with pytest.raises(KeyError):
        script.arguments({"session_id": "a", "reason": "admin", "why": "x"})


@pytest.mark.parametrize("reply", [[b"maybe"], b"ended"])
def test_an_unknown_word_raises(reply: object) -> None:
    """The caller never goes on with an answer that it doesn't understand."""
    with pytest.raises(UnknownReply):
        load("end_session").check(reply)


def opening(letter: str) -> OpenRequest:
    """One request to open a session."""
    return OpenRequest(
        pool=POOL,
        session_id=sid(letter),
        request=SessionRequest(identity="ann"),
        limits=SessionLimits(),
        queue_size=9,
    )


async def test_a_flushed_script_cache_is_refilled(
    registry: Registry, redis_url: str, raw_redis: RawRedis
) -> None:
    """A restart or failover forgets all scripts; nobody notices, on either connection."""
    node = await PlayedNode.begin(registry, redis_url, capacity=2)
    for letter in "ab":
        raw_redis.script_flush()
        await registry.open(opening(letter))
        raw_redis.script_flush()
        await node.beat()
    assert set(node.residents) == {sid("a"), sid("b")}
    await node.retire()


def test_a_full_server_refuses_newcomers_and_frees_slots(start_redis: StartRedis) -> None:
    """Over its memory limit everything goes on but what would need more of it."""
    server = start_redis()
    with server.client() as client:
        world = World(client)
        world.add_node()
        world.bring("a", "running")
        client.config_set("maxmemory", 1)
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            world.run("open_session", **world.opening("b"))
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            world.run("put_image", session_id=sid("b"), image=b"jpeg", budget_bytes=99)
        assert world.beat()[0] == "ok"
        assert world.run("touch_sessions", session_ids=sid("a"), replica="r1")[0] == "ok"
        assert world.run("snapshot", waiting_shown=9)[0] == "ok"
        world.run("cancel_session", session_id=sid("a"), reason="client_stop")
        done = world.run("end_session", **world.owner("a"), reason="completed", error="")
        assert done[0] == "ended"
