"""Does the service really make a picture, before somebody waits for one?

One session is made, its first frame awaited, and it is closed again; so what is only built at the
first frame (kernels, graphs, caches) is built while nobody watches. A service says with its
attribute ``warm_up`` what it thinks of that:

=============  ===================================================================================
not there      tried; a bidirectional service that refuses, fails or yields nothing for half a
               minute serves all the same, since it may need an image or a first control
``False``      never; for services that count their sessions or warm up by themselves
``True``       it must make a frame, else the start has failed; the way to have server push warmed
a dict         the same, and this is added to the session's config
=============  ===================================================================================

A session that can't be closed again is a failed start in any case: its slot would be lost.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import structlog

from gpu_node.media import ChunkReader
from gpu_node.services.contract import ServiceMode, ServiceTraits
from gpu_node.services.hosting import Host
from gpu_node.session_config import CONTROL_IDLE_TIMEOUT_S
from shared.errors import ServiceFault, ServiceLost, ServiceStartFailed

_log = structlog.get_logger()

SESSION_ID = "warm-up"
_TRIED_FOR_S = 30.0
_WAITED_FOR_S = 600.0
"""For a service that asked for it: compiling a model takes minutes."""
_CLOSED_WITHIN_S = 60.0
_ANY_FPS = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """One warm-up that is to be done."""

    must: bool = False
    config: dict[str, Any] = field(default_factory=dict)
    within_s: float = _TRIED_FOR_S
    closed_within_s: float = _CLOSED_WITHIN_S


def warm_up_of(traits: ServiceTraits) -> WarmUp | None:
    """Return the warm-up that a service wants or at least doesn't mind."""
    match traits.warm_up:
        case False:
            return None
        case None:
            return WarmUp() if traits.mode is ServiceMode.BIDIRECTIONAL else None
        case True:
            return WarmUp(must=True, within_s=_WAITED_FOR_S)
        case config:
            return WarmUp(must=True, config=config, within_s=_WAITED_FOR_S)


async def warm_up(host: Host, plan: WarmUp) -> bool:
    """Whether the service made a frame; raises `ServiceStartFailed`."""
    config = {
        "session_id": SESSION_ID,
        "control_idle_timeout": CONTROL_IDLE_TIMEOUT_S,
        **plan.config,
    }
    try:
        pipeline_session_id = await _create(host, config, plan.within_s)
        try:
            async with asyncio.timeout(plan.within_s):
                await _until_frame(host, pipeline_session_id)
        finally:
            await _close(host, pipeline_session_id, plan.closed_within_s)
    except (ServiceStartFailed, ServiceLost):
        raise
    except (ServiceFault, TimeoutError) as error:
        why = str(error) or f"there was no frame within {plan.within_s:g} s."
        if plan.must:
            raise ServiceStartFailed(f"The warm-up of {host.name} failed: {why}") from error
        _log.warning("warm_up_without_frame", service=host.name, why=why)
        return False
    return True


async def _create(host: Host, config: dict[str, Any], within_s: float) -> str:
    creating = asyncio.create_task(host.create_session(config), name="warm-up")
    await asyncio.wait({creating}, timeout=within_s)
    if not creating.done():  # if it ever returns, there is a session that nobody closes
        raise ServiceStartFailed(
            f"create_session() of {host.name} didn't return within {within_s:g} s."
        )
    return creating.result()


async def _until_frame(host: Host, pipeline_session_id: str) -> None:
    reader = ChunkReader(_ANY_FPS)
    if host.traits.waits_for_control:
        await host.push(pipeline_session_id, {"type": "control_state", "controls": []})
    async for raw in host.chunks(pipeline_session_id):
        chunk = reader.read(raw)
        if chunk.frames:
            return
        if chunk.type in ("error", "done"):
            break
    raise ServiceFault("the session ended without a frame.")


async def _close(host: Host, pipeline_session_id: str, within_s: float) -> None:
    closing = asyncio.create_task(host.close_session(pipeline_session_id), name="close warm-up")
    await asyncio.wait({closing}, timeout=within_s)
    if not closing.done():
        why = f"it wasn't closed within {within_s:g} s"
    elif (error := closing.exception()) is not None:
        why = str(error)
    else:
        return
    raise ServiceStartFailed(f"The warm-up session of {host.name} keeps its slot: {why}")
