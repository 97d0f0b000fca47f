"""What does a create call cost beside a POST that does nothing?

Many short rounds, bare and ours in turns, so that whatever else the machine does hits both. Every
call of ours has a key, an Idempotency-Key that nobody used, and is admitted at once.
"""

from __future__ import annotations

import json
import statistics
import uuid
from dataclasses import dataclass
from urllib.parse import urlsplit

from scripts.benchmarks.api.load import Cpu, Round, cpu_of, play, request
from scripts.benchmarks.api.venue import open_venue

SLOTS = 1_000_000
_BODY = json.dumps({
    "identity": "person-0123456789abcdef",
    "role": "controller",
    "prompt": "A harbour town at dusk, lamps in the fog, slow walk along the quay",
    "config": {"fps": 16, "width": 832, "height": 480, "seed": 7},
}).encode()  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Medians over all rounds, and the medians of each round's own ratios."""

    rounds: int
    bare: Round
    ours: Round
    cost_ratio: float
    """Requests for the same processor time of the server, by the bare one's."""
    rate_ratio: float
    """Requests per second by the bare one's."""
    p99_ratio: float
    redis_us: float
    """Processor time of Redis for one call."""


async def measure(rounds: int, seconds: float) -> Create:
    """Play so many pairs of rounds, each side so long."""
    bare: list[Round] = []
    ours: list[Round] = []
    redis_us: list[float] = []
    async with open_venue(QUEUE_SIZE="100") as venue:
        path = urlsplit(venue.replica.url).path + "/v1/stream/sessions"

        def create() -> bytes:
            return request(path, {**venue.headers, "Idempotency-Key": uuid.uuid4().hex}, _BODY)

        plain = request("/sessions", {}, _BODY)
        for number in range(rounds + 1):
            await venue.begin_node(SLOTS, again=True)
            first = await play(venue.bare.url, venue.bare.pid, lambda: plain, seconds)
            with cpu_of(venue.redis.pid) as redis:
                second = await play(venue.replica.url, venue.replica.pid, create, seconds)
            if number:  # the first one warms everything up
                bare.append(first)
                ours.append(second)
                redis_us.append(_per_call(redis, second))
    pairs = list(zip(bare, ours, strict=True))
    return Create(
        rounds=rounds,
        bare=_median(bare),
        ours=_median(ours),
        cost_ratio=statistics.median(one.cpu_us / two.cpu_us for one, two in pairs),
        rate_ratio=statistics.median(two.per_s / one.per_s for one, two in pairs),
        p99_ratio=statistics.median(two.p99_ms / one.p99_ms for one, two in pairs),
        redis_us=statistics.median(redis_us),
    )


def _per_call(cpu: Cpu, found: Round) -> float:
    return 1e6 * cpu.spent_s / (found.per_s * cpu.wall_s)


def _median(rounds: list[Round]) -> Round:
    return Round(
        per_s=statistics.median(one.per_s for one in rounds),
        p99_ms=statistics.median(one.p99_ms for one in rounds),
        cpu_us=statistics.median(one.cpu_us for one in rounds),
    )
