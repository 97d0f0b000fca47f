"""Is the service well, is it ready, what is it, and what are its numbers?

Health is about the deployment, seen from one replica: ``unhealthy`` if a new session couldn't be
served (Redis or LiveKit out, no usable node), ``degraded`` if something failed but others serve.
Ready means not unhealthy, and that this replica isn't about to end; else its probe answers 503.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from control_plane.api.answers import json_answer
from control_plane.api.auth import Guard, Scope
from control_plane.api.bodies import Health, LeanRoute
from control_plane.metrics import CONTENT_TYPE, Metrics
from control_plane.numbers import as_json
from control_plane.settings import ReplicaSettings
from control_plane.vitals import Vitals
from shared.errors import StoreUnavailable
from shared.records import NodeRecord, Snapshot
from shared.states import Admin, Judgement, NodeState

_READY_STATES = frozenset((NodeState.IDLE, NodeState.BUSY))
_OPTIONS = ("configured_max_sessions_per_worker", "control_idle_timeout", "worker_mode")
_KIND = {"service_type": "stream", "transport": "livekit"}


def health_routes(
    *, access: Guard, vitals: Vitals, metrics: Metrics, settings: ReplicaSettings
) -> APIRouter:
    """Return the routes of ``/v1/stream/health``, ``/v1/service/…`` and ``/metrics``."""
    router = APIRouter(route_class=LeanRoute, tags=["health"])

    async def look() -> tuple[Health, tuple[Snapshot, ...]]:
        snapshots = await _snapshots_or_none(vitals)
        return health(snapshots), snapshots or ()

    def health(snapshots: tuple[Snapshot, ...] | None) -> Health:
        return health_of(snapshots, livekit_up=vitals.rooms_reachable, dark=vitals.dark_pools)

    def is_ready(health: Health) -> bool:
        return health["status"] != "unhealthy" and not vitals.is_leaving

    @router.get("/v1/stream/health", responses={200: {"model": Health}})
    async def stream_health(request: Request) -> Response:  # noqa: ARG001
        """Tell how the deployment does."""
        health, _ = await look()
        return json_answer(health)

    @router.get("/v1/service/health")
    async def service_health(request: Request) -> Response:  # noqa: ARG001
        """Tell how the deployment does, whether it is ready, and what should be looked into."""
        health, _ = await look()
        ready = is_ready(health)
        return json_answer({**_KIND, **health, "ready": ready, "concerns": vitals.concerns})

    @router.get("/v1/service/ready")
    async def service_ready(request: Request) -> Response:  # noqa: ARG001
        """Answer 200 if a new session could be served from here, else 503."""
        health, _ = await look()
        ready = is_ready(health)
        told = {**_KIND, **health, "ready": ready, "stopping": vitals.is_leaving}
        return json_answer(told, 200 if ready else 503)

    @router.get("/v1/service/metadata")
    async def service_metadata(request: Request) -> Response:  # noqa: ARG001
        """Tell what is served here and how much of it."""
        health, snapshots = await look()
        nodes = [node for pool in snapshots for node in pool.nodes]
        described = {
            "pipeline_file": nodes[0].profile.service if nodes else None,
            "livekit_url": settings.livekit_public_url,
            "num_workers": len(nodes),
            "max_sessions_per_worker": min((node.capacity for node in nodes), default=None),
            "closed": not access.is_open,
            "queue_size": settings.queue_size,
            "pools": settings.pools,
            **await _options(vitals),
            "session_capacity": await _capacities_or_none(vitals),
            "coming_up": {node.node_id: asdict(node.progress) for node in nodes if node.progress},
        }
        return json_answer({**_KIND, **described, **health})

    @router.get("/metrics", include_in_schema=False)
    @router.get("/v1/service/metrics")
    async def prometheus(request: Request) -> Response:
        """Return the numbers as Prometheus text."""
        await access.require(request, Scope.READ)
        snapshots = await _snapshots_or_none(vitals)
        redis_up = snapshots is not None and not vitals.dark_pools
        text = metrics.render(snapshots, redis_up=redis_up, livekit_up=vitals.rooms_reachable)
        return Response(text, media_type=CONTENT_TYPE)

    @router.get("/v1/service/metrics/json")
    async def numbers(request: Request) -> Response:
        """Return the numbers for programs, all of one look, under the reference's keys."""
        await access.require(request, Scope.READ)
        snapshots = await _snapshots_or_none(vitals)
        pools = metrics.look(snapshots)
        return json_answer(
            {
                **_KIND,
                "uptime_seconds": round(metrics.serving.uptime_s, 3),
                "livekit": health(snapshots),
                "serving": metrics.serving.told(await _plays(vitals)),
                "pools": None if pools is None else [as_json(pool) for pool in pools],
            }
        )

    return router


async def _snapshots_or_none(vitals: Vitals) -> tuple[Snapshot, ...] | None:
    """A look that never fails: that Redis is out is what health is there to tell."""
    try:
        return await vitals.snapshots()
    except StoreUnavailable:
        return None


async def _options(vitals: Vitals) -> dict[str, Any]:
    """How the nodes were set: the first one's, as with the service's name; None if unknown."""
    try:
        told = list((await vitals.node_options()).values())
    except StoreUnavailable:
        told = []
    return {name: told[0].get(name) if told else None for name in _OPTIONS}


async def _plays(vitals: Vitals) -> dict[str, dict[str, Any]]:
    """How nodes play; nothing while Redis is out."""
    try:
        return await vitals.plays()
    except StoreUnavailable:
        return {}


async def _capacities_or_none(vitals: Vitals) -> dict[str, dict[str, Any]] | None:
    """What nodes say of their capacity; None while Redis is out."""
    try:
        return await vitals.session_capacities()
    except StoreUnavailable:
        return None


def health_of(
    snapshots: tuple[Snapshot, ...] | None, *, livekit_up: bool, dark: tuple[str, ...] = ()
) -> Health:
    """Judge by one snapshot of each pool but those that are *dark*; None: Redis is out."""
    nodes = [node for pool in snapshots or () for node in pool.nodes]
    usable = [node for node in nodes if _usable(node)]
    failed = sum(_failed(node) for node in nodes)
    if snapshots is None or not livekit_up or not usable:
        status = "unhealthy"
    elif dark or failed or any(node.quarantined for node in nodes):
        status = "degraded"
    else:
        status = "healthy"
    return {
        "status": status,
        "livekit_connected": livekit_up,
        "redis_connected": snapshots is not None and not dark,
        "workers_total": len(nodes),
        "workers_idle": _count(nodes, NodeState.IDLE),
        "workers_busy": _count(nodes, NodeState.BUSY),
        "workers_failed": failed,
        "queued_sessions": sum(pool.queued for pool in snapshots or ()),
        "slots_total": sum(node.capacity for node in usable),
        "slots_free": sum(max(node.capacity - node.used, 0) for node in usable),
    }


def _usable(node: NodeRecord) -> bool:
    """It takes sessions, now or when one ends; a slot that is never cleaned up doesn't count."""
    return (
        node.state in _READY_STATES
        and not node.draining
        and node.admin is Admin.OPEN
        and node.judged is Judgement.OK
        and node.media_ok
        and node.quarantined < node.capacity
    )


def _failed(node: NodeRecord) -> bool:
    return node.state is NodeState.ERROR or node.judged is Judgement.SUSPECT


def _count(nodes: Iterable[NodeRecord], state: NodeState) -> int:
    return sum(node.state is state and not _failed(node) for node in nodes)
