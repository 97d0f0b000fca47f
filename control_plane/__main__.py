"""How is a replica started?

``python -m control_plane`` reads its settings once, takes its port, makes sure of Redis and serves
until SIGTERM or Ctrl-C. Then, in this order: it says that it isn't ready, and serves on for as long
as the load balancer needs to hear that; it stops listening and ends its event streams with a hint;
it lets requests under way finish. An operator's mistake ends it before all that: exit 2 and one
sentence.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import sys
from types import FrameType

import structlog
import uvicorn
import uvloop

from control_plane.admin_key import admin_key_of, made_key_text
from control_plane.app import Replica
from control_plane.bounded_http import BoundedHttp
from control_plane.listener import listen
from control_plane.settings import ReplicaSettings
from shared.errors import StartupError
from shared.logs import set_up_logs
from shared.settings import load

FINISH_WITHIN_S = 12
"""For requests under way when asked to stop; a DELETE may wait ten seconds for a cleanup."""
READ_WITHIN_S = 3
"""For the peer of a connection that is closed, to take what was sent before."""
KEEP_ALIVE_S = 75
"""For a connection that is silent. Longer than any proxy keeps one: whoever lets go first may do so
just as the other sends a request, and a POST that got no answer can't simply be sent again."""

_log = structlog.get_logger()


def main() -> int:
    """Run one replica; returns the exit code."""
    set_up_logs()
    try:
        settings = load(ReplicaSettings)
        _tell_admin_key(settings)
        listener = listen(settings.host, settings.port)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, listener))
    except StartupError as mistake:
        sys.stderr.write(f"{mistake}\n")
        if mistake.try_:
            sys.stderr.write(f"Try: {mistake.try_}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _tell_admin_key(settings: ReplicaSettings) -> None:
    """Print the key of a replica that has just made one: once, and not through the logs."""
    key = admin_key_of(settings)
    if key is not None and key.is_new:
        sys.stderr.write(made_key_text(key))
        sys.stderr.flush()


async def _serve(settings: ReplicaSettings, listener: socket.socket) -> None:
    replica = Replica(settings)
    try:
        await replica.registry.check(settings.pools)
    except StartupError:
        await replica.registry.aclose()
        raise
    _quiet_signals()
    server = _Server(
        uvicorn.Config(
            replica.app,
            http=BoundedHttp,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=FINISH_WITHIN_S,
        ),
        address=_address_of(listener),
        replica=replica,
        notice_s=settings.stop_notice_s,
    )
    await server.serve(sockets=[listener])


def _quiet_signals() -> None:
    """Let the server end by its own handlers: it raises the signal again once all is closed."""

    def ignore(_number: int, _frame: FrameType | None) -> None:
        return

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ignore)


def _address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """Says where it listens once it does, and keeps the collector away from what lasts.

    Asked to stop, it first gives notice, then ends what would otherwise go on for ever: the event
    streams.
    """

    def __init__(
        self, config: uvicorn.Config, *, address: str, replica: Replica, notice_s: float
    ) -> None:
        super().__init__(config)
        self._address = address
        self._replica = replica
        self._notice_s = notice_s
        self._hurry = asyncio.Event()
        """Somebody pressed Ctrl-C, or asked twice: no notice is given."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        # For whoever started this process with port 0 and waits for the line.
        sys.stdout.write(f"listening on {self._address}\n")
        sys.stdout.flush()
        is_open = self._replica.access.is_open
        _log.info("replica_started", address=self._address, access="open" if is_open else "closed")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGINT or self.should_exit:
            self._hurry.set()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._replica.vitals.leave()
        await self._give_notice()
        self._replica.hub.say_goodbye()
        closing = asyncio.create_task(self._close_for_good(), name="close_for_good")
        try:
            await super().shutdown(sockets)
        finally:
            closing.cancel()

    async def _close_for_good(self) -> None:
        """End connections that the server would wait for in vain.

        It has told those to end that it knew of. One that was accepted in this very moment may say
        nothing for long; and one whose peer has stopped reading never gets rid of its last answer.
        """
        while True:
            await asyncio.sleep(READ_WITHIN_S)
            for connection in list(self.server_state.connections):
                transport = connection.transport
                if transport.is_closing():
                    transport.abort()
                else:
                    connection.shutdown()  # at once, or when what it has asked is answered

    async def _give_notice(self) -> None:
        _log.info("replica_stopping", notice_s=self._notice_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._notice_s):
                await self._hurry.wait()


if __name__ == "__main__":
    sys.exit(main())
