"""How many sessions fit: TeleFuser's formulas, with its worked numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_node.capacity import (
    GIB,
    Budget,
    CapacityPlan,
    Envelope,
    NoRoom,
    Policy,
    Settled,
    Snapshot,
    batched_capacity,
    cache_bytes,
    calibrated_session_bytes,
    kv_bytes,
    plan_capacity,
)


def seen(
    device: int = 0,
    role: str = "denoise",
    *,
    free: int,
    transient: int = 0,
    cached: int = 0,
    process: int | None = None,
) -> Snapshot:
    """A snapshot of an 80 GiB card; sizes in GiB."""
    used = 10
    return Snapshot(
        device_index=device,
        device_name="card",
        process_id=hash((device, role)) if process is None else process,
        role=role,
        total_bytes=80 * GIB,
        free_bytes=free * GIB,
        allocated_bytes=used * GIB,
        reserved_bytes=(used + cached) * GIB,
        peak_allocated_bytes=(used + transient) * GIB,
        peak_reserved_bytes=(used + transient + cached) * GIB,
    )


FOUR = {"denoise": Budget(persistent_bytes=4 * GIB)}
EIGHT = {"denoise": Budget(persistent_bytes=8 * GIB)}


def test_the_tightest_device_decides_and_the_operator_only_lowers() -> None:
    """60 GiB with 2 + 1 of transients hold 13, 50 GiB with 2 hold 11; asked for 6 it is 6."""
    cards = [
        seen(0, free=60, transient=2),
        seen(0, "vae_decode", free=60, transient=1),
        seen(1, free=50, transient=2),
    ]
    plan = plan_capacity(cards, FOUR, limit=6)
    assert [device.computed_capacity for device in plan.devices] == [13, 11]
    assert (plan.computed_capacity, plan.effective_capacity) == (11, 6)
    assert (plan.limiting_device, plan.configured_limit) == (1, 6)
    assert plan_capacity(cards, FOUR, limit=40).effective_capacity == 11
    assert plan_capacity(cards, FOUR).effective_capacity == 11


def test_what_the_pools_replace_isnt_charged_twice() -> None:
    """25 GiB free, all 8 of the transient come from caches that will be in the pool: 2 fit."""
    budget = {"denoise": Budget(persistent_bytes=8 * GIB, replaced_bytes=8 * GIB)}
    plan = plan_capacity([seen(free=25, transient=8)], budget)
    assert plan.computed_capacity == 2
    assert plan.devices[0].raw_transient_headroom_bytes == 8 * GIB
    assert plan.devices[0].transient_headroom_bytes == 0


def test_what_the_allocator_has_cached_is_used_first() -> None:
    """24 GiB free and 4 cached, 2 transient: 2 of 8 GiB fit."""
    plan = plan_capacity([seen(free=24, cached=4, transient=2)], EIGHT)
    assert plan.computed_capacity == 2
    assert plan.devices[0].reusable_reserved_bytes == 4 * GIB


def test_a_cache_is_its_own_processs_alone() -> None:
    """What one process has cached doesn't make room in the other."""
    cards = [
        seen(free=24, cached=0, transient=2),
        seen(0, "vae_decode", free=24, cached=4),
    ]
    assert plan_capacity(cards, EIGHT).computed_capacity == 2
    assert plan_capacity([seen(free=24, cached=8, transient=2)], EIGHT).computed_capacity == 3


def test_the_margin_is_a_share_of_the_card_but_never_less_than_two_gib() -> None:
    """Ten per cent of 80 GiB are 8."""
    worker = {"denoise": Budget(persistent_bytes=GIB)}
    policy = Policy(margin_percent=10, least_margin_bytes=0, most_sessions=2)
    plan = plan_capacity([seen(free=60)], worker, policy=policy)
    assert (plan.devices[0].safety_margin_bytes, plan.computed_capacity) == (8 * GIB, 2)
    assert Policy().margin_bytes(80 * GIB) == 4 * GIB
    assert Policy().margin_bytes(24 * GIB) == 2 * GIB
    assert Policy().margin_bytes(40 * GIB + 19) == 2 * GIB


def test_no_more_than_64_are_looked_for() -> None:
    """However small a session is."""
    assert (
        plan_capacity([seen(free=60)], {"denoise": Budget(persistent_bytes=1)}).computed_capacity
        == 64
    )


def test_each_role_has_its_own_budget() -> None:
    """Both processes of a card count."""
    cards = [
        seen(0, free=60, transient=2),
        seen(0, "vae_encode", free=60),
        seen(1, "vae_decode", free=50),
    ]
    budgets = {
        "denoise": Budget(persistent_bytes=4 * GIB),
        "vae_encode": Budget(persistent_bytes=2 * GIB),
        "vae_decode": Budget(persistent_bytes=3 * GIB),
    }
    plan = plan_capacity(cards, budgets)
    assert plan.devices[0].persistent_bytes_by_role == {"denoise": 4 * GIB, "vae_encode": 2 * GIB}
    assert plan.devices[0].persistent_bytes_per_session == 6 * GIB
    assert plan.devices[1].persistent_bytes_by_role == {"vae_decode": 3 * GIB}
    assert (plan.computed_capacity, plan.limiting_device) == (9, 0)


def test_a_card_without_a_budgeted_role_limits_by_what_isnt_tracked() -> None:
    """20 GiB free hold four sessions that take 4 GiB beside any process."""
    cards = [seen(0, free=60, transient=2), seen(2, "vae_decode", free=20)]
    plan = plan_capacity(
        cards, {"denoise": Budget(persistent_bytes=2 * GIB)}, untracked_bytes=4 * GIB
    )
    assert (plan.computed_capacity, plan.limiting_device) == (4, 2)
    assert plan.devices[1].persistent_bytes_by_role == {}
    assert plan.devices[1].untracked_bytes_per_session == 4 * GIB


def test_two_snapshots_of_one_process_count_once() -> None:
    """The role denoise wins; else the first."""
    twice = [
        seen(0, "pipeline_session", free=50, process=7),
        seen(0, "denoise", free=50, transient=2, process=7),
        seen(0, "pipeline", free=50, process=7),
    ]
    plan = plan_capacity(twice, FOUR)
    assert plan.computed_capacity == 11
    assert plan.devices[0].persistent_bytes_by_role == {"denoise": 4 * GIB}


def test_of_equal_devices_the_first_one_limits() -> None:
    """Its number is told."""
    assert plan_capacity([seen(1, free=50), seen(0, free=50)], FOUR).limiting_device == 0


def test_no_room_for_one_session_says_all_numbers() -> None:
    """What is free, reusable, transient, kept back and needed."""
    with pytest.raises(NoRoom) as caught:
        plan_capacity([seen(free=10, transient=4, cached=1)], FOUR, untracked_bytes=GIB)
    assert str(caught.value) == (
        "not one session fits on device 0 (card): 10.00 GiB are free and 1.00 GiB reusable; "
        "a session keeps 5.00 GiB, a request needs 4.00 GiB for a moment, and 4.00 GiB stay free"
    )


@pytest.mark.parametrize(("limit", "sessions"), [(None, 1), (3, 3), (100, 64)])
def test_without_cuda_the_operators_number_counts_or_one(limit: int | None, sessions: int) -> None:
    """There is nothing to compute, and no device that limits."""
    plan = plan_capacity([], {}, limit=limit)
    assert (plan.effective_capacity, plan.limiting_device, plan.devices) == (sessions, None, ())


def test_the_metadata_has_the_names_of_the_reference() -> None:
    """So that a dashboard for one reads the other."""
    told = plan_capacity([seen(free=50)], FOUR).metadata(kv_size=128)
    assert set(told) == {
        "computed_capacity",
        "effective_capacity",
        "configured_limit",
        "limiting_device",
        "devices",
        "kv_size",
    }
    assert set(told["devices"][0]) == {
        "device_index",
        "device_name",
        "total_bytes",
        "free_bytes",
        "reusable_reserved_bytes",
        "raw_transient_headroom_bytes",
        "transient_headroom_bytes",
        "safety_margin_bytes",
        "persistent_bytes_per_session",
        "persistent_bytes_by_role",
        "untracked_bytes_per_session",
        "computed_capacity",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Policy(margin_percent=-1),
        lambda: Policy(margin_percent=100),
        lambda: Policy(least_margin_bytes=-1),
        lambda: Policy(most_sessions=0),
        lambda: Budget(persistent_bytes=-1),
        lambda: Budget(persistent_bytes=0, replaced_bytes=-1),
        lambda: plan_capacity([], {}, limit=0),
        lambda: plan_capacity([], {}, untracked_bytes=-1),
        lambda: batched_capacity(free_bytes=1, session_bytes=0, workspace_bytes=0, max_batch=1),
        lambda: batched_capacity(free_bytes=1, session_bytes=1, workspace_bytes=0, max_batch=0),
    ],
)
def test_a_number_out_of_range_is_an_error(wrong: object) -> None:
    """With its name."""
    with pytest.raises(ValueError, match=r"\w+ is -?\d+; it"):
        wrong()  # type: ignore[operator]


@given(
    free=st.integers(0, 80),
    persistent=st.integers(1, 20),
    transient=st.integers(0, 10),
    cached=st.integers(0, 10),
    untracked=st.integers(0, 3),
)
@settings(max_examples=100, deadline=None)
def test_what_is_promised_fits_and_one_more_doesnt(
    free: int, persistent: int, transient: int, cached: int, untracked: int
) -> None:
    """The definition itself, for any numbers."""
    try:
        plan = plan_capacity(
            [seen(free=free, transient=transient, cached=cached)],
            {"denoise": Budget(persistent_bytes=persistent * GIB)},
            untracked_bytes=untracked * GIB,
        )
        sessions = plan.computed_capacity
    except NoRoom:
        sessions = 0

    def needed(n: int) -> int:
        return n * untracked + max(n * persistent + transient - cached, 0) + 4

    assert sessions == 0 or needed(sessions) <= free
    assert sessions == 64 or needed(sessions + 1) > free


# --- bytes per session --------------------------------------------------------------------------


def test_keys_and_values_are_kept_for_the_longest_sequence() -> None:
    """Per rank: bytes per token × tokens."""
    assert kv_bytes(28_080, 1024) == 28_080 * 1024


def test_an_observed_cache_entry_gets_a_tenth_more() -> None:
    """Rounded up, per entry."""
    assert cache_bytes([100, 1, 11], 2) == (110 + 2 + 13) * 2


def test_batches_need_a_workspace_per_chunk_of_a_batch_only() -> None:
    """ABot: 90 % of what is free; never below one."""

    def fit(free: int, session: int, workspace: int, batch: int) -> int:
        return batched_capacity(
            free_bytes=free, session_bytes=session, workspace_bytes=workspace, max_batch=batch
        )

    assert fit(100, 10, 10, 4) == 5
    assert fit(100, 10, 5, 4) == 7
    assert fit(100, 10, 0, 1) == 9
    assert fit(10, 100, 100, 4) == 1


@given(st.integers(0, 500), st.integers(1, 50), st.integers(0, 50), st.integers(1, 8))
@settings(max_examples=100, deadline=None)
def test_a_batched_capacity_is_the_largest_that_fits(
    free: int, session: int, workspace: int, batch: int
) -> None:
    """By trying them all."""
    fitting = [
        n for n in range(1, 600) if n * session + min(n, batch) * workspace <= free * 9 // 10
    ]
    assert batched_capacity(
        free_bytes=free, session_bytes=session, workspace_bytes=workspace, max_batch=batch
    ) == max(fitting, default=1)


def test_a_measured_session_counts_if_it_is_larger_than_the_computed_one() -> None:
    """Which gets 35 % on top."""
    assert calibrated_session_bytes(analytic_bytes=100, measured_bytes=120) == 135
    assert calibrated_session_bytes(analytic_bytes=100, measured_bytes=150) == 150
    assert calibrated_session_bytes(analytic_bytes=3, measured_bytes=0) == 5


# --- what is fixed afterwards -------------------------------------------------------------------


def test_a_session_that_asks_for_more_than_was_planned_is_refused() -> None:
    """It wouldn't fit into its slot."""
    envelope = Envelope(max_fps=16, max_duration_seconds=60)
    envelope.check(fps=16, duration_seconds=60)
    with pytest.raises(ValueError, match="fps is 17; this service offers up to 16"):
        envelope.check(fps=17, duration_seconds=1)
    with pytest.raises(ValueError, match="would last 61 s; this service offers up to 60 s"):
        envelope.check(fps=1, duration_seconds=61)


def test_a_capacity_is_set_once() -> None:
    """Again with the same limit is fine; with another one, or with sessions, it isn't."""
    settled = Settled()
    asked: list[int | None] = []

    def make(limit: int | None) -> CapacityPlan:
        asked.append(limit)
        return plan_capacity([], {}, limit=limit)

    with pytest.raises(ValueError, match="while 2 sessions live"):
        settled.settle(4, make, live=2)
    first = settled.settle(4, make)
    assert settled.settle(4, make, live=2) is first
    assert asked == [4]
    with pytest.raises(ValueError, match="set for 4 already, not for 5"):
        settled.settle(5, make)


def test_a_service_file_may_import_it_by_itself() -> None:
    """It brings in nothing of ours but itself, and neither torch nor NVML."""
    code = """if True:
        import sys, gpu_node.capacity
        ours = ("gpu_node", "shared", "control_plane", "torch", "pynvml", "structlog")
        print(*sorted(name for name in sys.modules if name.split(".")[0] in ours))
        """
    told = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    ).stdout
    package = "gpu_node.capacity"
    assert told.split() == ["gpu_node", package, f"{package}.formulas", f"{package}.probe"]
