"""draw_allowance: no more is drawn than flows in, over all replicas together."""

from __future__ import annotations

from shared.store.scripts import Argument
from tests.support.redis_server import RawRedis
from tests.support.scenario import World

HOLDER: dict[str, Argument] = {"holder_hash": "ab12", "per_1000_s": 2_000, "most": 10}


def test_no_more_is_drawn_than_flows_in(world: World) -> None:
    """A full bucket at first, then two a second, and never more than it holds."""
    assert world.run("draw_allowance", **HOLDER, wanted=4) == ("drawn", ["4"])
    assert world.run("draw_allowance", **HOLDER, wanted=9) == ("drawn", ["6"])
    assert world.run("draw_allowance", **HOLDER, wanted=1) == ("dry", ["500"])
    world.now_ms += 499
    assert world.run("draw_allowance", **HOLDER, wanted=1) == ("dry", ["1"])
    world.now_ms += 1
    assert world.run("draw_allowance", **HOLDER, wanted=1) == ("drawn", ["1"])
    world.now_ms += 60_000
    assert world.run("draw_allowance", **HOLDER, wanted=99) == ("drawn", ["10"])


def test_a_refused_draw_changes_nothing(world: World) -> None:
    """So that asking in vain does not put off the next one."""
    world.run("draw_allowance", **HOLDER, wanted=10)
    assert world.call("draw_allowance", **HOLDER, wanted=1)[0] == "dry"
    assert world.changes == {}


def test_a_clock_that_is_put_back_gives_nothing(world: World) -> None:
    """Nor does it take anything away."""
    world.run("draw_allowance", **HOLDER, wanted=9)
    world.now_ms -= 3_600_000
    assert world.run("draw_allowance", **HOLDER, wanted=9) == ("drawn", ["1"])
    assert world.run("draw_allowance", **HOLDER, wanted=1)[0] == "dry"


def test_an_empty_bucket_fills_from_a_clock_that_was_put_back(world: World) -> None:
    """Whoever comes back after what he was told gets something, an hour's step or not."""
    world.run("draw_allowance", **HOLDER, wanted=10)
    world.now_ms -= 3_600_000
    assert world.run("draw_allowance", **HOLDER, wanted=1) == ("dry", ["500"])
    world.now_ms += 500
    assert world.run("draw_allowance", **HOLDER, wanted=1) == ("drawn", ["1"])


def test_holders_don_t_share_and_a_bucket_goes_when_it_is_full(
    world: World, raw_redis: RawRedis
) -> None:
    """Its lifetime is the time that it takes to fill."""
    world.run("draw_allowance", **HOLDER, wanted=10)
    assert world.run("draw_allowance", **HOLDER | {"holder_hash": "cd"}, wanted=1)[0] == "drawn"
    left_ms = raw_redis.pttl(f"{world.prefix}rate:ab12")
    assert isinstance(left_ms, int)
    assert 4_000 < left_ms <= 5_000
