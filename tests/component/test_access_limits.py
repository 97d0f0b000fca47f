"""How often may a key, a session's token and a wrong key be used?"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from starlette.requests import Request

from control_plane.access import CLIENT, Caller
from control_plane.api import auth
from control_plane.rate_limits import SESSION_BURST, RateLimits, Use
from shared.access_errors import RateLimited
from shared.access_keys import Scope, new_key
from shared.store import Registry
from tests.support.closed import ADMIN_KEY, add_key, bearer, closed
from tests.support.manual_clock import ManualClock
from tests.support.redis_server import RawRedis, StartRedis
from tests.support.replica import SESSIONS, Client, assert_problem
from tests.support.room_service import RoomService

BODY = {"identity": "alice"}
SOMEBODY = Caller(key_id="k1", name="backend")


async def uses(limits: RateLimits, use: Use, caller: Caller = SOMEBODY) -> int:
    """Return how many uses are let through at once, up to a thousand."""
    for number in range(1000):
        try:
            await limits.count(caller, use, "default-a")
        except RateLimited:
            return number
    return 1000


async def test_all_replicas_together_let_through_what_one_would(registry: Registry) -> None:
    """Five seconds' worth at once; creating and reading are counted apart, and so are keys."""
    one, other = (
        RateLimits(registry=registry, creates_per_s=2, reads_per_s=0.001) for _ in range(2)
    )
    begun_s = time.monotonic()
    creates = [await uses(limits, Use.CREATE) for limits in (one, other, one)]
    flowed_in = 2 * (time.monotonic() - begun_s) + 1
    assert creates[0] >= 10
    assert sum(creates) <= 10 + flowed_in
    assert [await uses(limits, Use.READ) for limits in (one, other)] == [1, 0]
    assert await uses(other, Use.READ, Caller(key_id="k2", name="other")) == 1


async def test_a_busy_key_costs_redis_ten_calls_a_second(registry: Registry) -> None:
    """A portion is a tenth of a second's worth."""
    drawn: list[str] = []
    registry.observe(lambda script, _seconds: drawn.append(script))
    limits = RateLimits(registry=registry, creates_per_s=0, reads_per_s=1000)
    assert await uses(limits, Use.READ) == 1000
    assert len(drawn) == 10
    assert await uses(limits, Use.CREATE) == 1000  # 0: no limit
    assert len(drawn) == 10


async def test_who_was_refused_isn_t_looked_up_again_before_its_time(registry: Registry) -> None:
    """A flood of one key reaches Redis no more than a trickle would."""
    clock = ManualClock()
    limits = RateLimits(registry=registry, creates_per_s=0.001, reads_per_s=0, clock=clock)
    assert await uses(limits, Use.CREATE) == 1
    drawn: list[str] = []
    registry.observe(lambda script, _seconds: drawn.append(script))
    for _ in range(100):
        assert await uses(limits, Use.CREATE) == 0
    assert drawn == []


async def test_without_redis_each_replica_counts_for_itself(start_redis: StartRedis) -> None:
    """The limit holds, as far as one replica can see."""
    server, clock = start_redis(), ManualClock()
    registry = Registry.connect(server.url)
    limits = RateLimits(registry=registry, creates_per_s=2, reads_per_s=2, clock=clock)
    server.kill()
    assert await uses(limits, Use.READ) == 10
    clock.move(1.0)
    assert await uses(limits, Use.READ) == 2
    await registry.aclose()


async def test_a_session_s_token_is_counted_where_it_is_used(registry: Registry) -> None:
    """One client's page that runs wild costs Redis nothing but what it lets through."""
    clock = ManualClock()
    limits = RateLimits(registry=registry, creates_per_s=1, reads_per_s=1, clock=clock)
    assert await uses(limits, Use.READ, CLIENT) == SESSION_BURST


# Over HTTP.


@pytest_asyncio.fixture
async def slow(redis_url: str, room_service: RoomService) -> AsyncIterator[Client]:
    """A closed replica with narrow limits."""
    options = {"create_rate": 0.01, "read_rate": 0.01, "queue_size": 99}
    async with closed(redis_url, room_service.url, **options) as (_, api):
        yield api


async def test_one_call_too_many_is_told_when_to_come_back(
    slow: Client, registry: Registry
) -> None:
    """429 with Retry-After; other keys go on, and so does what the session's token is for."""
    key = await add_key(registry, Scope.CREATE)
    answers = [await slow.post(SESSIONS, json=BODY, headers=bearer(key)) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 429]
    problem = assert_problem(answers[1], 429, "rate_limited")
    assert problem["retryable"] is True
    assert 1 <= int(answers[1].headers["retry-after"]) <= 100
    assert (await slow.post(SESSIONS, json=BODY, headers=bearer(ADMIN_KEY))).status_code == 202
    made = answers[0].json()
    look = f"{SESSIONS}/{made['session_id']}"
    looks = [await slow.get(look, headers=bearer(made["session_token"])) for _ in range(9)]
    assert {answer.status_code for answer in looks} == {200}


async def test_wrong_keys_slow_their_address_down_and_nobody_else(
    slow: Client, registry: Registry
) -> None:
    """A right key passes from the same address, since a proxy may stand there."""
    key = await add_key(registry, Scope.READ)
    metrics = "/v1/service/metrics"
    answers = [await slow.get(metrics, headers=bearer(new_key())) for _ in range(21)]
    statuses = [answer.status_code for answer in answers]
    assert statuses[: auth.WRONG_AT_ONCE - 1] == [401] * (auth.WRONG_AT_ONCE - 1)
    late = await slow.get(metrics, headers=bearer("grk_nonsense"))
    while late.status_code == 401:  # what flowed in while the first ones waited for Redis
        late = await slow.get(metrics, headers=bearer("grk_nonsense"))
    assert_problem(late, 429, "rate_limited")
    assert late.headers["retry-after"]
    right = await slow.get(metrics, headers=bearer(key))
    assert right.status_code == 200
    assert 'greenroom_access_refused_total{reason="bad_api_key"}' in right.text


async def test_what_is_kept_of_a_limit_goes_by_itself(
    slow: Client, registry: Registry, raw_redis: RawRedis
) -> None:
    """No key in Redis stays behind for an API key that is used no more."""
    key = await add_key(registry, Scope.CREATE)
    await slow.post(SESSIONS, json=BODY, headers=bearer(key))
    (bucket,) = raw_redis.keys("*rate:*")
    left = raw_redis.pttl(bucket)
    assert isinstance(left, int)
    assert 0 < left <= 100_000


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2"),
        ("", ""),
    ],
)
def test_an_ipv6_network_is_one_address(address: str, kept: str) -> None:
    """Whoever has one has 2**64 of them."""
    scope: dict[str, object] = {
        "type": "http",
        "headers": [],
        "client": (address, 1) if address else None,
    }
    assert auth._address_of(Request(scope)) == kept
