"""The comparison that each replica makes by itself: numbers, log lines, nothing else."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from structlog.testing import capture_logs

from control_plane.app import Replica
from gpu_node import metrics as node_metrics
from shared.errors import StoreUnavailable
from shared.ids import new_session_id
from shared.states import Reason
from shared.store import Registry
from tests.support.operator import open_sessions
from tests.support.redis_server import POOL, RawRedis, StartRedis
from tests.support.replica import Client, served, settings_for
from tests.support.room_service import RoomService
from tests.support.wait import wait_until

ALERTS = Path(__file__).parents[2] / "deploy/observability/alerts.yml"


def numbers(text: str, start: str) -> dict[str, float]:
    """Return the samples whose line begins with *start*."""
    found = (line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(start))
    return {name: float(value) for name, value in found}


async def lasting(api: Client) -> dict[str, float]:
    """Return the gauge's samples that aren't zero, by part."""
    text = (await api.get("/metrics")).text
    samples = numbers(text, "greenroom_truth_differences{")
    parts = {re.findall(r'part="(\w+)"', name)[0]: value for name, value in samples.items()}
    return {part: value for part, value in parts.items() if value}


async def checks(api: Client) -> dict[str, float]:
    """Return how many checks had which outcome."""
    samples = numbers((await api.get("/metrics")).text, "greenroom_truth_checks_total{")
    return {re.findall(r'outcome="(\w+)"', name)[0]: value for name, value in samples.items()}


async def test_a_difference_is_counted_and_told_once(
    replica: tuple[Replica, Client], registry: Registry, raw_redis: RawRedis
) -> None:
    """Until it is gone; health doesn't depend on it."""
    parts, api = replica
    watch = parts.truth_watch()
    (waiting,) = await open_sessions(registry, 1)
    await watch.check(again_after_s=0)
    assert await lasting(api) == {}
    ticket = raw_redis.zscore(f"gr:{{{POOL}}}:q", waiting)
    raw_redis.zrem(f"gr:{{{POOL}}}:q", waiting)
    health = (await api.get("/v1/service/health")).json()
    with capture_logs() as logs:
        await watch.check(again_after_s=0)
        await watch.check(again_after_s=0)
    assert await lasting(api) == {"place": 1}
    assert [(line["event"], line["part"], line["subject"]) for line in logs] == [
        ("truth_differs", "place", waiting)
    ]
    assert (await api.get("/v1/service/health")).json() == health
    raw_redis.zadd(f"gr:{{{POOL}}}:q", {waiting: float(str(ticket))})
    with capture_logs() as logs:
        await watch.check(again_after_s=0)
    assert await lasting(api) == {}
    assert [line["event"] for line in logs] == ["truth_agrees_again"]
    assert await checks(api) == {"agrees": 2, "differs": 2, "unavailable": 0}
    await registry.cancel(waiting, Reason.CLIENT_STOP)


async def test_many_differences_don_t_drown_the_log(
    replica: tuple[Replica, Client], registry: Registry, raw_redis: RawRedis
) -> None:
    """All are counted, twenty are told."""
    parts, api = replica
    watch = parts.truth_watch()
    sessions = await open_sessions(registry, 10)
    line, deadlines, record = (f"gr:{{{POOL}}}:{part}" for part in ("q", "dl", "s"))
    raw_redis.rename(line, f"{line}-hidden")
    for name in sessions:
        raw_redis.zincrby(deadlines, 1, name)
        raw_redis.expire(f"{record}:{name}", 900)
    with capture_logs() as logs:
        await watch.check(again_after_s=0)
    assert await lasting(api) == {"place": 10, "deadline": 10, "lifetime": 10}
    assert len(logs) == 21
    assert logs[-1]["more"] == 10
    raw_redis.rename(f"{line}-hidden", line)
    for name in sessions:
        raw_redis.zincrby(deadlines, -1, name)
        raw_redis.persist(f"{record}:{name}")
        await registry.cancel(name, Reason.CLIENT_STOP)


async def test_rooms_are_compared_while_livekit_answers(
    replica: tuple[Replica, Client], room_service: RoomService
) -> None:
    """A room of nobody is seen; an outage of LiveKit hides only the rooms."""
    parts, api = replica
    watch = parts.truth_watch()
    metadata = json.dumps({"deployment": "test", "epoch": 1})
    room_service.list_room(new_session_id(POOL), metadata, participants=1)
    await watch.check(again_after_s=0)
    assert await lasting(api) == {"room": 1}
    room_service.down = True
    await parts.vitals.probe_rooms()
    await watch.check(again_after_s=0)
    assert await lasting(api) == {}
    assert await checks(api) == {"agrees": 1, "differs": 1, "unavailable": 0}


async def test_an_outage_is_no_difference(
    start_redis: StartRedis, room_service: RoomService
) -> None:
    """It is counted as what it is, and what was found before stands."""
    server = start_redis()
    async with served(settings_for(server.url, room_service.url)) as (parts, api):
        watch = parts.truth_watch()
        await watch.check(again_after_s=0)
        server.kill()
        with pytest.raises(StoreUnavailable):
            await watch.check(again_after_s=0)
        assert await checks(api) == {"agrees": 1, "differs": 0, "unavailable": 1}


@pytest.mark.parametrize(("interval_s", "looks"), [(0.02, True), (0, False)])
async def test_a_replica_checks_by_itself_unless_told_not_to(
    redis_url: str, room_service: RoomService, interval_s: float, looks: bool
) -> None:
    """Again and again; 0 turns it off."""
    settings = settings_for(redis_url, room_service.url, audit_interval_s=interval_s)
    seen: list[str] = []
    async with served(settings) as (parts, api):
        if looks:

            async def has_checked() -> bool:
                return (await checks(api))["agrees"] >= 3

            await wait_until(has_checked, "the replica has compared three times")
        else:
            parts.registry.observe(lambda script, _s: seen.append(script))
            await wait_until(lambda: seen.count("sweep_nodes") > 3, "it sweeps", timeout_s=20)
            assert set((await checks(api)).values()) == {0}


async def test_alerts_ask_for_numbers_that_are_there(api: Client) -> None:
    """Every name in the rules is served, by replicas or by nodes."""
    named = set(re.findall(r"greenroom_\w+", ALERTS.read_text(encoding="utf-8")))
    node_metrics.model_slots(free=0, quarantined=0, leaked=0)
    text = (await api.get("/metrics")).text + generate_latest().decode()
    # A sample's own name: of a histogram those of its parts.
    served_names = set(re.findall(r"^(greenroom_\w+)", text, re.MULTILINE))
    served_names |= set(re.findall(r"^# TYPE (greenroom_\w+)", text, re.MULTILINE))
    assert named
    assert named <= served_names


def test_a_slot_whose_clean_up_hangs_is_an_alert() -> None:
    """By the series that counts just those slots."""
    assert 'greenroom_slots{kind="quarantined"}) > 0' in ALERTS.read_text(encoding="utf-8")


def test_alerts_are_well_formed() -> None:
    """As Prometheus itself judges."""
    if (promtool := shutil.which("promtool")) is None:
        pytest.skip("promtool is not installed (Debian's package is prometheus)")
    with contextlib.suppress(subprocess.CalledProcessError):
        subprocess.run([promtool, "check", "rules", str(ALERTS)], check=True, capture_output=True)
        return
    pytest.fail("promtool refuses the rules")
