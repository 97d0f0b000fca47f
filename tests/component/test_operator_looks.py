"""What does an operator see who looks at a running system?

A real Redis, a played node, the commands as they are typed; no replica is needed for any of it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.events import Event
from shared.records import Owner
from shared.states import Reason
from shared.store import Registry, inspection, trail
from tests.support.operator import Operator, open_sessions
from tests.support.played_node import PlayedNode
from tests.support.redis_server import POOL, RawRedis, RedisServer, StartRedis
from tests.support.replica import BeginNode
from tests.support.wait import scaled_s, wait_until, wait_until_sync

SESSION_KEYS = {
    "session_id", "state", "position", "ticket", "node_id", "epoch", "attempt", "created_at",
    "admitted_at", "first_frame_at", "ended_at", "state_for_s", "people", "empty_for_s",
    "limit_in_s", "moves_in_s", "reason", "error", "returned_because",
}  # fmt: skip
NODE_KEYS = {
    "node_id", "state", "judged", "admin", "moves_in_s", "draining", "media_ok", "capacity",
    "used", "quarantined", "is_free", "incarnation", "beat_age_s", "rest_s", "profile", "progress",
    "play",
    "gpus", "gpus_unknown_for_s",
    "sessions",
}  # fmt: skip


def owner(node: PlayedNode, session_id: str) -> Owner:
    """Who a played node is for one of its sessions."""
    return Owner(
        node_id=node.node_id,
        incarnation=node.incarnation,
        session_id=session_id,
        epoch=node.residents[session_id].epoch,
    )


async def test_ps_lists_who_is_on_stage_and_who_waits(
    registry: Registry, operator: Operator, begin_node: BeginNode
) -> None:
    """State in words and shapes, the node, and whether anybody is in the room."""
    node = await begin_node(capacity=2)
    playing, empty, waiting = await open_sessions(registry, 3)
    await node.play(playing)
    await registry.note_first_frame(owner(node, playing))
    await node.play(empty)
    await node.see(empty, controller=False, participants=0)
    told = await operator.says("ps")
    assert told.status == 0
    assert told.lines[0] == "Pool default: 3 live sessions"
    by_session = {line.split()[0]: line for line in told.lines[2:]}
    assert "● on stage" in by_session[playing]
    assert "◐ no frame yet" in by_session[empty]
    assert "room empty for" in by_session[empty]
    assert "○ 1st in line" in by_session[waiting]
    assert max(map(len, told.lines)) <= 100
    listed = (await operator.says("ps", "--json")).json
    assert (listed["pool"], listed["total"]) == ("default", 3)
    assert all(row.keys() == SESSION_KEYS for row in listed["sessions"])
    assert {row["session_id"]: row["people"] for row in listed["sessions"]} == {
        playing: 1,
        empty: 0,
        waiting: None,
    }


async def test_an_empty_pool_is_no_mistake(operator: Operator) -> None:
    """Nothing is there, and that is said."""
    assert (await operator.says("ps")).text == "Pool default: 0 live sessions\n"
    assert (await operator.says("queue")).text == "Pool default: 0 wait; 0 of 0 slots taken\n"
    assert (await operator.says("nodes")).text == "Pool default: 0 live nodes; 0 of 0 slots taken\n"
    assert (await operator.says("events")).text == ""
    assert (await operator.says("queue", "--json")).json == {
        "pool": "default",
        "total": 0,
        "waiting": [],
    }


async def test_queue_lists_the_line_in_order(
    registry: Registry, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the size of a page; more than wanted are counted."""
    monkeypatch.setattr(inspection, "PAGE", 3)
    names = await open_sessions(registry, 10)
    told = await operator.says("queue", "--limit", "8")
    assert told.lines[0].startswith("Pool default: 10 wait, the first for 0 s; 0 of 0 slots taken")
    assert [line.split()[1] for line in told.lines[2:10]] == names[:8]
    assert told.lines[10] == "… and 2 more (--limit shows them)"
    listed = (await operator.says("queue", "--json")).json
    assert [row["position"] for row in listed["waiting"]] == list(range(1, 11))
    assert (await operator.says("ps", "--json")).json["total"] == 10


async def test_nodes_show_slots_and_what_keeps_one_from_serving(
    registry: Registry, operator: Operator, begin_node: BeginNode
) -> None:
    """Slots as squares; an operator's word stands beside the node's own state."""
    node = await begin_node(capacity=3)
    await begin_node(node_id="node-b")
    (first,) = await open_sessions(registry, 1)
    await node.play(first)
    await registry.set_node_admin(POOL, "node-b", "draining")  # type: ignore[arg-type]
    told = await operator.says("nodes")
    assert told.lines[0] == "Pool default: 2 live nodes; 1 of 4 slots taken"
    assert "● busy" in told.lines[2]
    assert "■□□ 1/3" in told.lines[2]
    assert "my_world.py" in told.lines[2]
    assert told.lines[3].endswith("closed by an operator")
    listed = (await operator.says("nodes", "--json")).json["nodes"]
    assert all(row.keys() == NODE_KEYS for row in listed)
    assert listed[0]["sessions"] == [first]
    assert (listed[1]["admin"], listed[1]["is_free"]) == ("draining", False)


@pytest.mark.parametrize("command", ["ps", "queue", "nodes"])
async def test_a_pool_that_was_never_used_is_told_as_such(
    operator: Operator, begin_node: BeginNode, registry: Registry, command: str
) -> None:
    """With those that were: a slip of the fingers would look like a calm system."""
    await begin_node()
    await begin_node(pool="talk", node_id="node-t")
    told = await operator.says(command, "--pool", "defualt")
    assert told.lines[1].endswith("has ever used this pool; there are: default, talk.")
    assert "ever used" not in (await operator.says(command)).text
    assert "ever used" not in (await operator.says(command, "--pool", "defualt", "--json")).text


async def test_explain_says_what_a_waiting_session_waits_for(
    registry: Registry, operator: Operator, begin_node: BeginNode
) -> None:
    """Who is ahead, who holds the slots, and since when nobody is in the room there."""
    node = await begin_node(capacity=1)
    holder, ahead, waiting = await open_sessions(registry, 3)
    await node.play(holder)
    await node.see(holder, controller=False, participants=0)
    told = await operator.says("explain", waiting)
    assert told.lines[0].startswith(f"{waiting}  ○ 2nd in line, for 0 s")
    assert f"  1 session is ahead of it: {ahead}." in told.lines
    assert "  1 of 1 slot is taken, by:" in told.lines
    (held,) = (line for line in told.lines if holder in line)
    assert "room empty for 0 s" in held
    assert max(map(len, told.lines)) <= 100
    story = (await operator.says("explain", waiting, "--json")).json
    assert story["waits_for"]["ahead"] == [ahead]
    assert story["waits_for"]["holders"][0]["people"] == 0
    assert [step["what"] for step in story["steps"]] == ["queued"]
    assert story["complete"]


async def test_explain_tells_of_a_death_and_of_an_end(
    registry: Registry, operator: Operator, begin_node: BeginNode
) -> None:
    """Who had it, what died, why it came back, why it ended, where the time went."""
    first = await begin_node(node_id="node-a", ttl_s=0.2)
    (name,) = await open_sessions(registry, 1)
    await first.play(name)
    await registry.note_first_frame(owner(first, name))

    async def is_dead() -> bool:
        return bool((await registry.sweep_nodes(POOL)).dead_nodes)

    await wait_until(is_dead, "the node is declared dead")
    second = await begin_node(node_id="node-b")
    await second.play(name)
    await second.end(name, Reason.SERVICE_ERROR, "out of paint")
    told = await operator.says("explain", name)
    assert told.lines[0].startswith(f"{name}  ■ failed, 0 s ago")
    assert "It ended because the world broke (service_error)." in told.lines
    assert "The error: out of paint" in told.lines
    story = "\n".join(told.lines)
    for sentence in (
        "its turn: a slot on node-a",
        "the first frame was played",
        "back in line with its old ticket, away from node-a: the node died",
        "node-a was declared dead: its heartbeat stopped",
        "its turn: a slot on node-b",
        "ended: the world broke (service_error)",
    ):
        assert sentence in story
    spent = (await operator.says("explain", name, "--json")).json["spent_s"]
    assert spent["played"] > 0
    assert set(spent) == {
        "waiting", "joining", "starting", "to_first_frame", "played", "ending",
    }  # fmt: skip


async def test_explain_remembers_what_only_the_trail_knows(
    registry: Registry, operator: Operator, raw_redis: RawRedis
) -> None:
    """An hour after its end a session's record is gone."""
    (name,) = await open_sessions(registry, 1)
    await registry.cancel(name, Reason.CLIENT_STOP)
    for kind in ("s", "sd", "sp"):
        raw_redis.delete(f"gr:{{default}}:{kind}:{name}")
    told = await operator.says("explain", name)
    assert told.lines[0] == f"{name}  its record is gone, the trail still knows it"
    assert "ended: the client ended it (client_stop)" in told.text


@pytest.mark.parametrize(
    ("arguments", "sentence", "advice"),
    [
        (("explain", "default-" + "x" * 26), "There is no session", "greenroom ps"),
        (("explain", "nonsense"), "no valid session id", "greenroom ps"),
        (("ps", "--pool", "a,b"), "one pool at a time", "--pool a"),
        (("ps", "--pool", "Ä"), "no valid pool", "--pool default"),
        (("receipt", "--since", "soon"), "no time that can be read", "--since 10m"),
        (("receipt", "--since", "1m", "--until", "2m"), "ends before it begins", "--since 1h"),
        (("receipt", "--verify", "nowhere"), "can't be read", "greenroom receipt"),
    ],
)
async def test_a_mistake_is_one_sentence_and_one_thing_to_try(
    operator: Operator, arguments: tuple[str, ...], sentence: str, advice: str
) -> None:
    """Never a traceback."""
    told = await operator.says(*arguments)
    assert told.status == 2
    complaint, hint = told.lines
    assert sentence in complaint
    assert hint.startswith(f"Try: {advice}")


@pytest.mark.parametrize("command", ["ps", "keys"])
async def test_a_registry_that_is_out_is_told(command: str) -> None:
    """And where else to look."""
    away = Operator("redis://127.0.0.1:1/0")
    told = await away.says(command)
    assert told.status == 2
    assert told.lines[0] == "The registry can't be reached (no connection)."
    assert told.lines[1] == "Try: the same with --redis-url redis://HOST:6379/0"


async def test_a_data_folder_without_a_registry_is_told(tmp_path: Path) -> None:
    """Nothing was started there, and none was named."""
    told = await Operator("", GREENROOM_DATA_DIR=str(tmp_path)).says("nodes")
    assert told.status == 2
    assert "Nothing has been started with the data folder" in told.lines[0]


@pytest.mark.parametrize("kept", ["lock", "deployment-id", "node-id"])
async def test_a_data_folder_whose_registry_is_elsewhere_is_told(tmp_path: Path, kept: str) -> None:
    """Something was started there, with a Redis that was named then."""
    (tmp_path / kept).touch()
    told = await Operator("", GREENROOM_DATA_DIR=str(tmp_path)).says("nodes")
    assert told.status == 2
    assert "keeps no Redis" in told.lines[0]
    assert told.lines[1].startswith("Try: the same with --redis-url")


async def test_events_shows_the_last_ones(
    registry: Registry, operator: Operator, begin_node: BeginNode
) -> None:
    """In words, or as JSON lines that carry each session's ticket."""
    await begin_node()
    (name,) = await open_sessions(registry, 1)
    told = await operator.says("events", "-n", "2")
    assert [line.split("  ", 2)[1:] for line in told.lines[:1]] == [[name, "came into the line"]]
    assert "its turn: a slot on node-a" in told.lines[1]
    lines = [json.loads(line) for line in (await operator.says("events", "--json")).lines]
    assert [line["what"] for line in lines] == ["node_registered", "queued", "assigned"]
    record = await registry.read(name)
    assert lines[1]["ticket"] == lines[2]["ticket"] == record.ticket


async def test_the_trail_is_read_in_pages(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is left out or comes twice at a page's edge."""
    monkeypatch.setattr(trail, "PAGE", 3)
    names = await open_sessions(registry, 7)
    events: list[Event] = [event async for event in registry.trail.read(POOL)]
    assert [event.session_id for event in events] == names


def _heed_ctrl_c() -> None:
    """Tests that a shell runs in the background ignore it, and their children would, too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Following:
    """``greenroom events -f`` as a process of its own."""

    def __init__(self, redis_url: str, folder: Path) -> None:
        self._told = folder / "told"
        self._complained = folder / "complained"
        with self._told.open("w") as told, self._complained.open("w") as complained:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "control_plane.cli.main", "events", "-f", "--json"],
                env={**os.environ, "GREENROOM_REDIS_URL": redis_url, "PYTHONUNBUFFERED": "1"},
                stdout=told,
                stderr=complained,
                preexec_fn=_heed_ctrl_c,  # noqa: PLW1509 - it only sets a signal
            )

    @property
    def told(self) -> str:
        return self._told.read_text()

    @property
    def complained(self) -> str:
        return self._complained.read_text()


@pytest.fixture
def server(start_redis: StartRedis) -> RedisServer:
    """A server that survives its own death."""
    return start_redis("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def following(server: RedisServer, tmp_path: Path) -> Iterator[Following]:
    """Somebody who follows."""
    follower = Following(server.url, tmp_path)
    yield follower
    follower.process.kill()
    follower.process.wait()


async def test_events_follows_through_a_restart_and_ends_with_ctrl_c(
    server: RedisServer, following: Following
) -> None:
    """It says that the registry is away, goes on where it was, and exits with 0."""
    registry = Registry.connect(server.url)
    (before,) = await open_sessions(registry, 1)
    wait_until_sync(lambda: before in following.told, "the first entry is told", 15)
    server.kill()
    away = "The registry doesn't answer; waiting for it."
    wait_until_sync(lambda: away in following.complained, "it says that the registry is away", 15)
    server.start()
    (after,) = await open_sessions(registry, 1)
    await registry.aclose()
    wait_until_sync(lambda: after in following.told, "it goes on", 15)
    told = [json.loads(line)["session_id"] for line in following.told.splitlines()]
    assert told == [before, after]
    following.process.send_signal(signal.SIGINT)
    assert following.process.wait(scaled_s(40)) == 0
    assert "Traceback" not in following.complained
