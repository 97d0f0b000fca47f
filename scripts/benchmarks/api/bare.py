"""What does a POST cost that does nothing?

The baseline: FastAPI as its first page shows it, the same five fields read and an answer of the
same shape written, on the same HTTP server with the same parser, loop and collector settings as a
replica. No key is checked, nothing is counted, stored or signed.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from typing import Any

import uvicorn
import uvloop
from fastapi import FastAPI
from pydantic import BaseModel


class Wanted(BaseModel):
    """As a create call's body."""

    identity: str
    role: str = "controller"
    prompt: str | None = None
    image_path: str | None = None
    config: dict[str, Any] = {}


class Answer(BaseModel):
    """As a create call's answer."""

    session_id: str
    room: str
    livekit_url: str
    token: str | None
    worker_id: str | None
    status: str
    expires_at: float | None
    queue_position: int | None
    estimated_wait_s: float | None
    estimated_wait_range_s: list[float] | None
    session_token: str
    idempotent_replay: bool


app = FastAPI()


@app.post("/sessions")
async def create(wanted: Wanted) -> Answer:
    """Answer with nothing in it."""
    return Answer(
        session_id=wanted.identity,
        room="room",
        livekit_url="ws://127.0.0.1:7880",
        token="t" * 600,
        worker_id="node-a",
        status="assigned",
        expires_at=1.5,
        queue_position=None,
        estimated_wait_s=None,
        estimated_wait_range_s=None,
        session_token="s" * 80,
        idempotent_replay=False,
    )


async def _serve(listener: socket.socket) -> None:
    config = uvicorn.Config(
        app, http="httptools", log_config=None, access_log=False, lifespan="off"
    )
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    await uvicorn.Server(config).serve(sockets=[listener])


def main() -> None:
    """Serve on a free port and print its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"listening on http://127.0.0.1:{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(listener))


if __name__ == "__main__":
    main()
