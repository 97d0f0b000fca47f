"""Does what deploy/compose.yaml describes work, from the first process to a picture?

Its services as plain processes, with the file's own commands, variables and health checks; one
session is played through its load balancer. So the file can't rot.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Iterator

import httpx
import pytest

from tests.support.compose_file import words_of_the_example
from tests.support.compose_processes import Topology
from tests.support.live_person import LivePerson
from tests.support.replica import SESSIONS
from tests.support.wait import scaled_s, wait_until

pytestmark = pytest.mark.timeout(scaled_s(240))

LONG_S = 60.0


@pytest.fixture(scope="module")
def words() -> dict[str, str]:
    """The ``.env`` file, filled in as the example says."""
    made = {name: secrets.token_hex(32) for name in sorted(words_of_the_example())}
    return {**made, "PUBLIC_IP": "127.0.0.1"}


@pytest.fixture(scope="module")
def topology(tmp_path_factory: pytest.TempPathFactory, words: dict[str, str]) -> Iterator[Topology]:
    """All that this machine can run of it."""
    topology = Topology(tmp_path_factory.mktemp("compose"), words)
    needed = {"redis", "livekit", "nginx"} & set(topology.left_out)
    if needed:
        pytest.skip(f"not everything is installed: {topology.left_out}")
    try:
        topology.start()
        yield topology
    finally:
        topology.close()


async def test_one_session_is_played_through_the_load_balancer(
    topology: Topology, words: dict[str, str]
) -> None:
    """With the admin key of the file. Prometheus reaches each target, and all stop in time."""
    address = f"http://127.0.0.1:{topology.port('nginx', 8080)}"
    person = LivePerson()
    async with httpx.AsyncClient(base_url=address, timeout=LONG_S, trust_env=False) as client:
        assert (await client.post(SESSIONS, json={"identity": "alice"})).status_code == 401
        client.headers["Authorization"] = f"Bearer {words['GREENROOM_ADMIN_KEY']}"

        async def is_ready() -> bool:
            return (await client.get("/v1/service/ready")).status_code == 200

        await wait_until(is_ready, "the deployment is ready", LONG_S)
        created = (await client.post(SESSIONS, json={"identity": "alice"})).json()
        path = f"{SESSIONS}/{created['session_id']}"
        await person.enter(created["livekit_url"], created["token"])
        try:
            await wait_until(lambda: person.frames, "there is a picture", LONG_S)
            assert (await client.get(path)).json()["status"] == "running"
        finally:
            await person.leave()
        assert (await client.delete(path)).json()["status"] in {"closed", "draining"}

        await wait_until(
            lambda: _events_came(client, topology), "LiveKit's events come through, too", LONG_S
        )
        if "prometheus" not in topology.left_out:
            await _all_targets_answer(client, topology)
    assert await asyncio.to_thread(_ended_badly, topology) == {}


async def _events_came(client: httpx.AsyncClient, topology: Topology) -> bool:
    """Tell whether any replica took some of LiveKit's events; none may refuse one."""
    counts = {"counted": 0.0, "refused": 0.0}
    for name in ("replica-1", "replica-2"):
        address = f"http://127.0.0.1:{topology.port(name, 8088)}"
        text = (await client.get(f"{address}/metrics")).text
        for outcome, count in re.findall(r'greenroom_webhooks_total{outcome="(\w+)"} (\S+)', text):
            counts["refused" if outcome == "refused" else "counted"] += float(count)
    assert counts["refused"] == 0
    return counts["counted"] > 0


async def _all_targets_answer(client: httpx.AsyncClient, topology: Topology) -> None:
    query = f"http://127.0.0.1:{topology.port('prometheus', 9090)}/api/v1/query"
    down: list[str] = []

    async def all_up() -> bool:
        try:
            answer = await client.get(query, params={"query": "up"})
        except httpx.TransportError:
            return False
        found = answer.json()["data"]["result"]
        down[:] = [one["metric"]["job"] for one in found if one["value"][1] != "1"]
        return len(found) == 4 and not down

    await wait_until(all_up, f"Prometheus reaches all four targets: {down}", LONG_S)


def _ended_badly(topology: Topology) -> dict[str, str]:
    """Ask all to stop, each within its grace; return what ours said that ended badly."""
    statuses = topology.stop()
    ours = ("replica-1", "replica-2", "node", "metrics-key")
    return {name: topology.log(name)[-2000:] for name in ours if statuses[name] != 0}
