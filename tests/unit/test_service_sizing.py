"""What a service says of its capacity reaches people, and nothing fits means no start."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gpu_node.services.sizing import PROFILE_MAX_BYTES, numbers_of, plain_profile
from shared.errors import ServiceLoadFailed
from tests.support.hosting import hosted
from tests.support.synthetic_service import Journal, SyntheticService

GIB = 2**30
FULL_DEVICE = {
    "device_index": 1,
    "free_bytes": 5 * GIB,
    "reusable_reserved_bytes": GIB // 2,
    "transient_headroom_bytes": 2 * GIB,
    "safety_margin_bytes": 4 * GIB,
    "persistent_bytes_per_session": 4 * GIB,
}


class Sized(SyntheticService):
    """Answers what the test says; with a profile of its own if there is one."""

    def __init__(self, answer: object) -> None:
        super().__init__(Journal())
        self.answer = answer

    def configure_session_capacity(self, max_sessions: int | None) -> Any:
        return self.answer


async def test_what_the_hook_answers_is_the_profile() -> None:
    """Beside the number that counts."""
    async with hosted(Sized({"effective_capacity": 2, "computed_capacity": 9})) as host:
        capacity = await host.capacity(None)
    assert capacity.sessions == 2
    assert capacity.profile == {"effective_capacity": 2, "computed_capacity": 9}


async def test_a_profile_of_its_own_wins() -> None:
    """`session_capacity_profile` is what the reference copies into the metadata."""

    class Profiled(Sized):
        def session_capacity_profile(self) -> dict[str, Any]:
            return {"pool": "fixed"}

    async with hosted(Profiled({"effective_capacity": 2})) as host:
        assert (await host.capacity(1)).profile == {"pool": "fixed"}


async def test_no_room_for_a_session_is_a_failed_start_with_the_numbers() -> None:
    """Of the device that limits."""
    answer = {
        "effective_capacity": 0,
        "limiting_device": 1,
        "devices": [{"device_index": 0, "free_bytes": 60 * GIB}, FULL_DEVICE],
    }
    async with hosted(Sized(answer)) as host:
        with pytest.raises(ServiceLoadFailed) as caught:
            await host.capacity(None)
    assert str(caught.value) == (
        "svc.py has no room for a session: device 1 has 5.00 GiB free, 0.50 GiB reusable, "
        "2.00 GiB transient, 4.00 GiB margin, 4.00 GiB per session."
    )


@pytest.mark.parametrize(
    "answer", [None, 3, {}, {"effective_capacity": -1}, {"effective_capacity": True}]
)
async def test_an_answer_without_a_number_is_a_failed_start(answer: object) -> None:
    """It says what is expected."""
    async with hosted(Sized(answer)) as host:
        with pytest.raises(ServiceLoadFailed, match="whole number effective_capacity"):
            await host.capacity(None)


@pytest.mark.parametrize(
    "profile", [{"x": object()}, {"x": math.nan}, {"x": "y" * 2 * PROFILE_MAX_BYTES}]
)
def test_a_profile_that_cant_be_shown_is_left_out(profile: dict[str, Any]) -> None:
    """The number counts all the same."""
    assert plain_profile(profile) is None


def test_the_raw_facts_are_left_out_of_a_large_profile_first() -> None:
    """The rest is what an operator looks at."""
    profile = {"effective_capacity": 1, "snapshots": ["x" * PROFILE_MAX_BYTES]}
    assert plain_profile(profile) == {"effective_capacity": 1}
    assert plain_profile({"pair": (1, 2)}) == {"pair": [1, 2]}


@pytest.mark.parametrize(
    "profile", [None, {}, {"devices": []}, {"devices": [3]}, {"devices": "many"}]
)
def test_a_profile_without_devices_has_no_numbers(profile: dict[str, Any] | None) -> None:
    """Then the sentence ends before them."""
    assert numbers_of(profile) == ""
