"""Did a test leave the registry sound, without a key that nobody owns?

Looked at after every test that had a Redis, when all its replicas and nodes are closed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.support.audit import violations
from tests.support.key_dump import read_all
from tests.support.redis_server import StartRedis


@pytest.fixture(autouse=True)
def _no_key_is_left_over(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test after which any server that it used holds a leak or a contradiction."""
    urls: list[str] = []
    if "redis_url" in request.fixturenames:
        urls.append(request.getfixturevalue("redis_url"))
    started: StartRedis | None = None
    if "start_redis" in request.fixturenames:
        started = request.getfixturevalue("start_redis")
    yield
    urls += [server.url for server in started.running()] if started else []
    for url in urls:
        with redis.Redis.from_url(url, decode_responses=True) as client:
            found = violations(read_all(client))
        assert not found, "the registry contradicts itself:\n" + "\n".join(found)
