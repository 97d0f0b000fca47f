"""How many sessions fit, given what was measured and what one session keeps?

Pure arithmetic on bytes; the numbers are TeleFuser's, so that a service moves over with the same
capacity. Per device::

    margin      max(5 % of its total, 2 GiB)
    growth(n) = n × untracked + Σ over processes max(n × persistent + transient - cached, 0)
    capacity    the largest n up to 64 with growth(n) + margin ≤ free

*Persistent* is what a session keeps in a process of that role. *Transient* is what a request needs
for a moment: the warm-up's peak over what stays allocated, less what of it came from caches that
the fixed pools hold from now on (it would be charged twice). *Cached* is what the process's
allocator has reserved and doesn't use; only that process can use it. *Untracked* is what a session
takes from the device outside of those processes. The tightest device decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

GIB = 2**30


class NoRoom(RuntimeError):
    """Not a single session fits; the message has the numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Memory of one device as seen by one process, which owns an allocator on it."""

    device_index: int
    device_name: str
    process_id: int
    role: str
    rank: int = 0
    total_bytes: int
    free_bytes: int
    """Of the device, whoever uses the rest."""
    allocated_bytes: int
    reserved_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int

    @property
    def cached_bytes(self) -> int:
        """Reserved by the allocator and free for its own use."""
        return max(self.reserved_bytes - self.allocated_bytes, 0)

    @property
    def transient_bytes(self) -> int:
        """What the warm-up needed for a moment."""
        return max(self.peak_allocated_bytes - self.allocated_bytes, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one session costs a process of one role."""

    persistent_bytes: int
    replaced_bytes: int = 0
    """The part of the warm-up's peak that came from caches which the fixed pools replace."""

    def __post_init__(self) -> None:
        _at_least("persistent_bytes", self.persistent_bytes, 0)
        _at_least("replaced_bytes", self.replaced_bytes, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How much is left alone, and how far is looked."""

    margin_percent: int = 5
    least_margin_bytes: int = 2 * GIB
    most_sessions: int = 64

    def __post_init__(self) -> None:
        if not 0 <= self.margin_percent < 100:
            raise ValueError(f"margin_percent is {self.margin_percent}; it goes from 0 to 99")
        _at_least("least_margin_bytes", self.least_margin_bytes, 0)
        _at_least("most_sessions", self.most_sessions, 1)

    def margin_bytes(self, total_bytes: int) -> int:
        """Return what of a device must stay free."""
        return max(total_bytes * self.margin_percent // 100, self.least_margin_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePlan:
    """One device's part of a plan; the names are those of the metadata."""

    device_index: int
    device_name: str
    total_bytes: int
    free_bytes: int
    reusable_reserved_bytes: int
    raw_transient_headroom_bytes: int
    transient_headroom_bytes: int
    safety_margin_bytes: int
    persistent_bytes_per_session: int
    persistent_bytes_by_role: dict[str, int]
    untracked_bytes_per_session: int
    computed_capacity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    """How many sessions fit, and why not more."""

    computed_capacity: int
    effective_capacity: int
    configured_limit: int | None
    limiting_device: int | None
    devices: tuple[DevicePlan, ...] = ()

    def metadata(self, **more: Any) -> dict[str, Any]:
        """Return the plan as a service tells it, with what else it wants to be known."""
        return {**asdict(self), "devices": [asdict(device) for device in self.devices], **more}


def plan_capacity(
    snapshots: Iterable[Snapshot],
    budgets: Mapping[str, Budget],
    *,
    limit: int | None = None,
    untracked_bytes: int = 0,
    policy: Policy | None = None,
) -> CapacityPlan:
    """Return how many sessions fit on the tightest device.

    Args:
        snapshots: One per device and process; of several for the same two the one of the role
            ``denoise`` counts, else the first. None at all: there is no CUDA.
        budgets: By role. A process of another role still needs its transient memory.
        limit: The operator's number; it only lowers.
        untracked_bytes: Per session and device.
        policy: Left out: 5 %, 2 GiB, 64 sessions.

    Raises:
        NoRoom: Not even one fits.
        ValueError: A number is out of range.
    """
    policy = policy or Policy()
    if limit is not None:
        _at_least("limit", limit, 1)
    _at_least("untracked_bytes", untracked_bytes, 0)
    devices = tuple(
        _plan_device(group, budgets, untracked_bytes, policy) for group in _by_device(snapshots)
    )
    if not devices:
        sessions = min(limit or 1, policy.most_sessions)
        return CapacityPlan(
            computed_capacity=sessions,
            effective_capacity=sessions,
            configured_limit=limit,
            limiting_device=None,
        )
    tightest = min(devices, key=lambda device: device.computed_capacity)
    if tightest.computed_capacity == 0:
        raise NoRoom(_numbers(tightest))
    return CapacityPlan(
        computed_capacity=tightest.computed_capacity,
        effective_capacity=min(tightest.computed_capacity, limit or tightest.computed_capacity),
        configured_limit=limit,
        limiting_device=tightest.device_index,
        devices=devices,
    )


def kv_bytes(kv_size: int, max_sequence_length: int) -> int:
    """Return what one session's keys and values take on a rank: bytes per token × tokens."""
    return kv_size * max_sequence_length


def cache_bytes(elements: Iterable[int], item_bytes: int) -> int:
    """Return what the observed cache entries take with 10 % spare room for other shapes."""
    return sum(-(-count * 11 // 10) * item_bytes for count in elements)


def calibrated_session_bytes(*, analytic_bytes: int, measured_bytes: int) -> int:
    """Return what a session costs where it was both computed and measured (ABot): the larger.

    The computed figure gets 35 % on top; the measured one comes from a warm-up of one real chunk.
    """
    return max(-(-analytic_bytes * 135 // 100), measured_bytes)


def batched_capacity(
    *, free_bytes: int, session_bytes: int, workspace_bytes: int, max_batch: int
) -> int:
    """Return how many sessions fit where chunks are made in batches (ABot); never below 1.

    A workspace is needed for each chunk of a batch, not for each session; 90 % of what is free is
    used.
    """
    _at_least("session_bytes", session_bytes, 1)
    _at_least("max_batch", max_batch, 1)
    usable_bytes = free_bytes * 9 // 10
    while_batching = usable_bytes // (session_bytes + workspace_bytes)
    if while_batching < max_batch:
        return max(while_batching, 1)
    return (usable_bytes - max_batch * workspace_bytes) // session_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The largest session that the plan was made for; what is larger would not fit its slot."""

    max_fps: float
    max_duration_seconds: float

    def check(self, *, fps: float, duration_seconds: float) -> None:
        """Raise `ValueError`, which refuses the session's config, if it asks for more."""
        if fps > self.max_fps:
            raise ValueError(f"fps is {fps:g}; this service offers up to {self.max_fps:g}")
        if duration_seconds > self.max_duration_seconds:
            raise ValueError(
                f"the session would last {duration_seconds:g} s; this service offers up to "
                f"{self.max_duration_seconds:g} s"
            )


class Settled:
    """A capacity that is decided once: pools of that size exist from then on."""

    def __init__(self) -> None:
        self.plan: CapacityPlan | None = None
        self._limit: int | None = None

    def settle(
        self, limit: int | None, make: Callable[[int | None], CapacityPlan], *, live: int = 0
    ) -> CapacityPlan:
        """Return the plan, made at the first call.

        Args:
            limit: What ``configure_session_capacity`` got.
            make: Plans for that limit.
            live: How many sessions there are.

        Raises:
            ValueError: Another limit than before, or sessions live already.
        """
        if self.plan is None:
            if live:
                raise ValueError(f"the capacity can't be set while {live} sessions live")
            self.plan, self._limit = make(limit), limit
        elif limit != self._limit:
            raise ValueError(f"the capacity is set for {self._limit} already, not for {limit}")
        return self.plan


def _by_device(snapshots: Iterable[Snapshot]) -> list[list[Snapshot]]:
    """Group by device in rising order, one snapshot for each process."""
    chosen: dict[tuple[int, int], Snapshot] = {}
    for snapshot in snapshots:
        place = (snapshot.device_index, snapshot.process_id)
        if place not in chosen or snapshot.role == "denoise" != chosen[place].role:
            chosen[place] = snapshot
    groups: dict[int, list[Snapshot]] = {}
    for (device, _), snapshot in sorted(chosen.items()):
        groups.setdefault(device, []).append(snapshot)
    return list(groups.values())


def _plan_device(
    group: Sequence[Snapshot], budgets: Mapping[str, Budget], untracked_bytes: int, policy: Policy
) -> DevicePlan:
    free_bytes = min(snapshot.free_bytes for snapshot in group)
    total_bytes = min(snapshot.total_bytes for snapshot in group)
    margin_bytes = policy.margin_bytes(total_bytes)
    none = Budget(persistent_bytes=0)
    costs = [(snapshot, budgets.get(snapshot.role, none)) for snapshot in group]
    by_role: dict[str, int] = {}
    for snapshot, budget in costs:
        if snapshot.role in budgets:
            by_role[snapshot.role] = by_role.get(snapshot.role, 0) + budget.persistent_bytes

    def steady(snapshot: Snapshot, budget: Budget) -> int:
        return max(snapshot.transient_bytes - budget.replaced_bytes, 0)

    def growth(sessions: int) -> int:
        return sessions * untracked_bytes + sum(
            max(sessions * budget.persistent_bytes + steady(one, budget) - one.cached_bytes, 0)
            for one, budget in costs
        )

    fitting = [
        n for n in range(1, policy.most_sessions + 1) if growth(n) <= free_bytes - margin_bytes
    ]
    return DevicePlan(
        device_index=group[0].device_index,
        device_name=group[0].device_name,
        total_bytes=total_bytes,
        free_bytes=free_bytes,
        reusable_reserved_bytes=sum(snapshot.cached_bytes for snapshot in group),
        raw_transient_headroom_bytes=sum(snapshot.transient_bytes for snapshot in group),
        transient_headroom_bytes=sum(steady(one, budget) for one, budget in costs),
        safety_margin_bytes=margin_bytes,
        persistent_bytes_per_session=sum(by_role.values()),
        persistent_bytes_by_role=by_role,
        untracked_bytes_per_session=untracked_bytes,
        computed_capacity=max(fitting, default=0),
    )


def _numbers(device: DevicePlan) -> str:
    def gib(count: int) -> str:
        return f"{count / GIB:.2f} GiB"

    per_session = device.persistent_bytes_per_session + device.untracked_bytes_per_session
    return (
        f"not one session fits on device {device.device_index} ({device.device_name}): "
        f"{gib(device.free_bytes)} are free and {gib(device.reusable_reserved_bytes)} reusable; "
        f"a session keeps {gib(per_session)}, a request needs "
        f"{gib(device.transient_headroom_bytes)} for a moment, and "
        f"{gib(device.safety_margin_bytes)} stay free"
    )


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name} is {value}; it is at least {least}")
