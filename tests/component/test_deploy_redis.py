"""Is the shipped Redis set-up one that Greenroom runs on, and is its read-only user read-only?

The real server, started by `deploy/redis/start` with the shipped configuration and users.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import redis

from shared.store import Registry
from tests.support.node_process import node_process
from tests.support.operator import Operator, open_sessions
from tests.support.played_node import PlayedNode
from tests.support.redis_server import POOL, RawRedis
from tests.support.replica_process import ReplicaProcess, replica_environment
from tests.support.scenario import World
from tests.support.wait import wait_until, wait_until_sync
from tests.support.whole_life import live

START = Path(__file__).parents[2] / "deploy/redis/start"
PAGE = START.parents[1] / "README.md"
USERS = ("greenroom", "inspector", "operator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """A server that was started as the files say."""

    socket: Path

    def url(self, user: str) -> str:
        """Return the address for one of the users."""
        return f"unix://{user}:word-of-{user}@{self.socket}"

    def client(self, user: str) -> RawRedis:
        """Return a plain client of one of the users; the caller closes it."""
        return redis.Redis.from_url(self.url(user), decode_responses=True)


@pytest.fixture
def profile() -> str:
    """Which configuration; a test may ask for the other one."""
    return "redis.conf"


@contextmanager
def started(profile: str, folder: Path) -> Iterator[Shipped]:
    """Run it with one of the configurations, on a socket and in a folder of the test's own."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server isn't installed, and the start script calls it by that name")
    server = Shipped(socket=folder / "redis.sock")
    passwords = {f"REDIS_{user.upper()}_PASSWORD": f"word-of-{user}" for user in USERS}
    place = ("--port", "0", "--unixsocket", str(server.socket))
    folders = {"REDIS_DATA_DIR": str(folder), "REDIS_USERS_FILE": str(folder / "users.acl")}
    process = subprocess.Popen(
        [str(START), profile, *place, "--loglevel", "warning"],
        env={**os.environ, **passwords, **folders},
        stdout=subprocess.DEVNULL,
    )
    with server.client("operator") as client:

        def serves() -> bool:
            assert process.poll() is None, "it ended at once"
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False

        try:
            wait_until_sync(serves, "the shipped Redis answers", timeout_s=20)
            yield server
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def shipped(profile: str, tmp_path: Path) -> Iterator[Shipped]:
    """The shipped server, for the length of the test."""
    with started(profile, tmp_path) as server:
        yield server


@pytest.mark.parametrize(
    ("profile", "sync"), [("redis.conf", "everysec"), ("redis-strict.conf", "always")]
)
def test_the_profiles_hold_what_their_names_promise(shipped: Shipped, sync: str) -> None:
    """Nothing is evicted, everything is logged, and the strict one syncs each write."""
    with shipped.client("operator") as operator:
        told = operator.config_get("*")
    assert told["appendfsync"] == sync
    assert (told["appendonly"], told["maxmemory-policy"]) == ("yes", "noeviction")


def test_every_script_runs_as_the_user_of_replicas_and_nodes(shipped: Shipped) -> None:
    """The shortest life of a pool in which each script is called."""
    with shipped.client("greenroom") as raw:
        live(World(raw))


async def test_a_node_and_a_replica_come_up_as_that_user(shipped: Shipped, tmp_path: Path) -> None:
    """Their checks of the server, beats, subscriptions and sweeps are all allowed."""
    url = shipped.url("greenroom")
    registry = Registry.connect(url)
    replica = ReplicaProcess(replica_environment(url, tmp_path / "replica"))
    try:
        async with node_process(url, registry, tmp_path), httpx.AsyncClient() as client:
            address = replica.address()

            async def sees_the_node() -> bool:
                health = (await client.get(f"{address}/v1/service/health")).json()
                assert health["redis_connected"], health
                return bool(health["workers_total"] == 1 and health["concerns"] == [])

            await wait_until(sees_the_node, "the replica sees the node")
    finally:
        replica.close()
        await registry.aclose()
    with shipped.client("operator") as operator:
        assert operator.acl_log() == []


async def test_the_inspector_sees_everything_and_changes_nothing(shipped: Shipped) -> None:
    """The commands that look work; those that act, and raw writes, are refused."""
    registry = Registry.connect(shipped.url("greenroom"))
    node = await PlayedNode.begin(registry, shipped.url("greenroom"), node_id="node-a", capacity=1)
    playing, waiting = await open_sessions(registry, 2)
    await node.play(playing)
    inspector = Operator(shipped.url("inspector"))
    for command in (("ps",), ("queue",), ("nodes",), ("events",), ("explain", waiting), ("redis",)):
        told = await inspector.says(*command)
        assert told.status == 0, (command, told.text)
    assert waiting in (await inspector.says("ps")).text
    for command in (("cancel", waiting), ("drain", "node-a")):
        told = await inspector.says(*command)
        assert (told.status, "let our user do that" in told.text) == (2, True), told.text
    with shipped.client("inspector") as raw:
        for refused in (
            ("SET", f"gr:{{{POOL}}}:q", "x"),
            ("EVAL", "return redis.call('DEL', KEYS[1])", 1, f"gr:{{{POOL}}}:q"),
            ("EVAL", "return redis.call('DEL', KEYS[1] .. 'q')", 1, f"gr:{{{POOL}}}:"),
            ("PUBLISH", f"gr:{{{POOL}}}:w:node-a", "x"),
            ("CONFIG", "GET", "requirepass"),
            ("FLUSHALL",),
        ):
            with pytest.raises(redis.ResponseError, match=r"(?i)permission|can.t run"):
                raw.execute_command(*refused)
    assert list((await registry.snapshot(POOL)).waiting) == [waiting]
    await registry.aclose()


def test_nobody_gets_in_without_a_name(shipped: Shipped) -> None:
    """The default user is off, and nobody reads keys of other systems."""
    stranger = redis.Redis(unix_socket_path=str(shipped.socket))
    with stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
    for user in ("greenroom", "inspector"):
        with shipped.client(user) as raw, pytest.raises(redis.exceptions.NoPermissionError):
            raw.get("somebody-elses")


async def test_a_backup_brings_back_the_line(tmp_path: Path) -> None:
    """By the commands of the page, into a server whose disk was lost.

    Redis replays what scripts wrote as its default user, and drops in silence what that one may
    not do: so it is off, and may do everything.
    """
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    commands = re.findall(r"^(redis-cli|tar) (.+?)(?: +#.*)?$", PAGE.read_text(), re.MULTILINE)
    assert [program for program, _ in commands].count("tar") == 1
    with started("redis.conf", old) as server:
        registry = Registry.connect(server.url("greenroom"))
        waiting = await open_sessions(registry, 3)
        with server.client("operator") as operator:
            for program, arguments in commands:
                if program == "redis-cli" and "--user operator" in arguments:
                    operator.execute_command(*arguments.split()[2:])
        await registry.aclose()
        shutil.copytree(old / "appendonlydir", new / "appendonlydir")
    with started("redis.conf", new) as server:
        registry = Registry.connect(server.url("inspector"))
        assert list((await registry.snapshot(POOL)).waiting) == list(waiting)
        await registry.aclose()
