"""How does an operator see the nodes over HTTP, and close, open or limit one?

An order names the ``version`` of the node that it was given on. If somebody else gave one since
then, it is refused with 409: look again first.
"""

from __future__ import annotations

import contextlib
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from control_plane.api.answers import json_answer
from control_plane.api.auth import Guard, Scope
from control_plane.api.bodies import Body, LeanRoute, body_of, read_body
from control_plane.api.queue import pools_asked_for
from control_plane.node_views import LONGEST_COUNTDOWN_S, View, look_at
from control_plane.operator_shapes import NodeSight
from control_plane.operator_view import node_sight
from shared.errors import UnknownNode
from shared.states import Admin
from shared.store import Registry

MOST_SHOWN = 1000
Version = Annotated[str, Field(max_length=64, description="Of the node, as it was seen last.")]


class DrainNode(Body):
    """POST /v1/nodes/{node_id}/drain."""

    version: Version
    in_s: Annotated[float, Field(ge=0, le=LONGEST_COUNTDOWN_S)] | None = Field(
        default=None,
        description="Seconds until its sessions move to other nodes; null: they play on here.",
    )


class ResumeNode(Body):
    """POST /v1/nodes/{node_id}/resume."""

    version: Version


class LimitNode(Body):
    """PUT /v1/nodes/{node_id}/capacity."""

    version: Version
    capacity: Annotated[int, Field(ge=0, le=100_000)] | None = Field(
        description="Sessions that the node may hold; null: as many as it says itself."
    )


class PoolNodes(TypedDict):
    """The live nodes of one pool, as many as are shown."""

    pool: str
    total: int
    nodes: list[NodeSight]


class NodesFound(TypedDict):
    """Answer to GET /v1/nodes."""

    pools: list[PoolNodes]


class NodeSeen(TypedDict):
    """One node; how many are on it, how many slots are free elsewhere, and how many wait."""

    pool: str
    node: NodeSight
    playing: int
    free_elsewhere: int
    waiting: int


def node_routes(*, access: Guard, registry: Registry, pools: tuple[str, ...]) -> APIRouter:
    """Return the routes of ``/v1/nodes``."""
    router = APIRouter(route_class=LeanRoute, tags=["nodes"])
    answer: dict[int | str, dict[str, Any]] = {200: {"model": NodeSeen}}

    @router.get("/v1/nodes", responses={200: {"model": NodesFound}})
    async def list_nodes(request: Request) -> Response:
        """List the live nodes by ``pool``: state, slots, last heartbeat, what is wrong."""
        await access.require(request, Scope.ADMIN)
        asked = pools_asked_for(request, pools)
        found: NodesFound = {"pools": [await _nodes_of(registry, pool) for pool in asked]}
        return json_answer(found)

    @router.get("/v1/nodes/{node_id}", responses=answer)
    async def show_node(request: Request, node_id: str) -> Response:
        """Show one node, and whom an order for it would touch."""
        await access.require(request, Scope.ADMIN)
        return _seen(await _find(registry, pools_asked_for(request, pools), node_id))

    @router.post("/v1/nodes/{node_id}/drain", openapi_extra=body_of(DrainNode), responses=answer)
    async def drain_node(request: Request, node_id: str) -> Response:
        """Give a node no new sessions; those that it has play on, or move after a while."""
        caller = await access.require(request, Scope.ADMIN)
        body = await read_body(request, DrainNode)
        pool = (await _find(registry, pools_asked_for(request, pools), node_id)).facts.pool
        async with access.noted(caller, "drain", pool, node_id):
            await registry.set_node_admin(
                pool, node_id, Admin.DRAINING, replaces=body.version, move_in_s=body.in_s
            )
        return _seen(await look_at(registry, pool, node_id))

    @router.post("/v1/nodes/{node_id}/resume", openapi_extra=body_of(ResumeNode), responses=answer)
    async def resume_node(request: Request, node_id: str) -> Response:
        """Give a node sessions again; a countdown that runs there is called off."""
        caller = await access.require(request, Scope.ADMIN)
        body = await read_body(request, ResumeNode)
        pool = (await _find(registry, pools_asked_for(request, pools), node_id)).facts.pool
        async with access.noted(caller, "resume", pool, node_id):
            await registry.set_node_admin(pool, node_id, Admin.OPEN, replaces=body.version)
        return _seen(await look_at(registry, pool, node_id))

    @router.put("/v1/nodes/{node_id}/capacity", openapi_extra=body_of(LimitNode), responses=answer)
    async def limit_node(request: Request, node_id: str) -> Response:
        """Let a node hold no more than so many sessions; nobody is taken off it."""
        caller = await access.require(request, Scope.ADMIN)
        body = await read_body(request, LimitNode)
        pool = (await _find(registry, pools_asked_for(request, pools), node_id)).facts.pool
        async with access.noted(caller, "capacity", pool, node_id):
            await registry.set_node_capacity(pool, node_id, body.capacity, replaces=body.version)
        return _seen(await look_at(registry, pool, node_id))

    return router


async def _nodes_of(registry: Registry, pool: str) -> PoolNodes:
    names = sorted(await registry.inspection.node_ids(pool))
    facts = await registry.inspection.look(pool, nodes=names[:MOST_SHOWN])
    shown = [node_sight(facts, node) for node in facts.nodes if node.record]
    return {"pool": pool, "total": len(names), "nodes": shown}


async def _find(registry: Registry, pools: tuple[str, ...], node_id: str) -> View:
    """Return the node from the first of *pools* that has one of this name."""
    *others, last = pools
    for pool in others:
        with contextlib.suppress(UnknownNode):
            return await look_at(registry, pool, node_id)
    return await look_at(registry, last, node_id)


def _seen(view: View) -> Response:
    seen: NodeSeen = {
        "pool": view.facts.pool,
        "node": node_sight(view.facts, view.node),
        "playing": len(view.touched),
        "free_elsewhere": view.free_elsewhere,
        "waiting": view.waiting,
    }
    return json_answer(seen)
