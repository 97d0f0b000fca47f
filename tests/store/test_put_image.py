"""put_image: an image ahead of its session."""

from __future__ import annotations

from tests.support.scenario import World, sid


def test_an_unclaimed_image_lives_for_a_minute(world: World) -> None:
    """Nothing is counted until a session claims it."""
    reply = world.call("put_image", session_id=sid("a"), image=b"jpeg", budget_bytes=4)
    assert reply == ("ok", [])
    assert world.changes == {"a:a": "jpeg", "a:a ttl": "60"}


def test_over_the_budget_nothing_is_kept(world: World) -> None:
    """Images of live sessions count, in bytes."""
    world.run("put_image", session_id=sid("a"), image=b"jpeg", budget_bytes=7)
    world.open("a")
    reply = world.call("put_image", session_id=sid("b"), image=b"jpeg", budget_bytes=7)
    assert reply == ("over", [])
    assert world.changes == {}


def test_a_late_repeat_leaves_a_session_s_image_alone(world: World) -> None:
    """The session owns it by then, or has ended and wants none."""
    world.run("put_image", session_id=sid("a"), image=b"jpeg", budget_bytes=99)
    world.open("a")
    late: dict[str, str | int | bytes] = {
        "session_id": sid("a"),
        "image": b"other",
        "budget_bytes": 99,
    }
    assert world.call("put_image", **late) == ("ok", [])
    assert world.changes == {}
    world.run("cancel_session", session_id=sid("a"), reason="client_stop")
    assert world.call("put_image", **late) == ("ok", [])
    assert world.changes == {}
