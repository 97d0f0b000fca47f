"""Which facts does an operator get over HTTP, and how are they called? Pure.

Instants are float Unix seconds of the registry's server. Who a person is comes only to whoever asks
for it; otherwise ``identity`` is null.
"""

from __future__ import annotations

from typing_extensions import TypedDict


class GpuSight(TypedDict):
    """One GPU as its driver showed it last; null: not offered."""

    number: int
    uuid: str
    name: str
    used_mib: int | None
    total_mib: int | None
    busy_percent: int | None
    temperature_c: int | None
    ecc_errors: int | None
    xid: int | None
    trouble: str


class ProgressSight(TypedDict):
    """How a node's service comes up."""

    step: str
    seconds: float
    attempt: int
    line: str
    error: str


class NodeSight(TypedDict):
    """One node. ``version`` is what an order names that is given after this sight of it."""

    node_id: str
    version: str
    state: str
    judged: str
    admin: str
    draining: bool
    media_ok: bool
    is_free: bool
    moves_at: float | None
    capacity: int
    reported_capacity: int
    admin_capacity: int | None
    used: int
    quarantined: int
    strangers: int
    sessions: list[str]
    service: str
    mode: str
    release: str
    host: str
    incarnation: int
    registered_at: float | None
    beat_at: float
    troubles: list[str]
    progress: ProgressSight | None
    gpus: list[GpuSight]
    gpus_unknown_for_s: int
    lease_waiting: int | None
    fps: float | None
    late_p95_s: float | None


class SessionSight(TypedDict):
    """One session that is on stage, or was."""

    session_id: str
    identity: str | None
    state: str
    node_id: str | None
    attempt: int
    epoch: int
    people: int | None
    created_at: float | None
    admitted_at: float | None
    assigned_at: float | None
    first_frame_at: float | None
    ended_at: float | None
    reason: str | None
    error: str | None
    returned_because: str | None


class PlaceSight(TypedDict):
    """One place in line."""

    position: int
    session_id: str
    identity: str | None
    waiting_since: float
    created_at: float
    attempt: int
    returned_because: str | None
    estimated_wait_s: float | None
    estimated_wait_range_s: list[float] | None


class PoolCounts(TypedDict):
    """Numbers of one instant, also of what isn't shown one by one."""

    waiting: int
    waiting_since: float | None
    sessions: dict[str, int]
    nodes: dict[str, int]
    nodes_closed: int
    slots: int
    slots_taken: int
    quarantined: int
    failed: int
    nodes_lost: int
    counted_since: float


class PoolSight(TypedDict):
    """One pool: its numbers, and the first of each kind. Ended sessions come after live ones."""

    pool: str
    max_waiting: int
    counts: PoolCounts
    line: list[PlaceSight]
    nodes: list[NodeSight]
    sessions: list[SessionSight]


class Overview(TypedDict):
    """All pools of a replica, each at one instant."""

    at: float
    pools: list[PoolSight]
