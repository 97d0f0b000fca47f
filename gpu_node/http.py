"""What can be asked of a node itself: health, readiness, metrics?

A small server on threads of its own, so that it answers, and says so, when the event loop is stuck.

=============  ==========================================================================
``/health``    200 while the event loop moves, else 503
``/ready``     200 while sessions may be placed here and played, else 503
``/metrics``   Prometheus text
=============  ==========================================================================
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST

from gpu_node.heartbeat import Heartbeat, NodeLease
from gpu_node.serving_names import NodeNow, node_text
from gpu_node.settings import NodeSettings, visible_gpus
from gpu_node.watchdog import STUCK_AFTER_S
from shared.errors import StartupError
from shared.states import NodeState

_SERVING = frozenset((NodeState.IDLE, NodeState.BUSY))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """What a node says when asked; ages in seconds."""

    node_id: str
    state: NodeState
    draining: bool
    media_ok: bool
    sessions: int
    capacity: int
    loop_age_s: float
    lease_age_s: float | None
    """None before the first registration."""
    node_ttl_s: float
    silent_after_s: float
    """The lease age from which on nothing is played."""

    @property
    def healthy(self) -> bool:
        return self.loop_age_s < STUCK_AFTER_S

    @property
    def ready(self) -> bool:
        fresh = self.lease_age_s is not None and self.lease_age_s < self.silent_after_s
        return (
            self.healthy
            and fresh
            and self.media_ok
            and not self.draining
            and self.state in _SERVING
        )


def health_of(heartbeat: Heartbeat, lease: NodeLease, settings: NodeSettings) -> NodeHealth:
    """Ask the heartbeat; any thread may do so."""
    report, sessions, age_s = heartbeat.report, len(heartbeat.residents()), lease.age_s()
    busy = report.state is NodeState.IDLE and sessions > 0
    return NodeHealth(
        node_id=heartbeat.node_id,
        state=NodeState.BUSY if busy else report.state,
        draining=report.draining,
        media_ok=report.media_ok,
        sessions=sessions,
        capacity=report.capacity,
        loop_age_s=round(heartbeat.loop_age_s(), 3),
        lease_age_s=None if age_s == float("inf") else round(age_s, 3),
        node_ttl_s=settings.node_ttl_s,
        silent_after_s=settings.silent_after_s,
    )


class NodeHttp:
    """The node's own port."""

    def __init__(self, host: str, port: int, ask: Callable[[], NodeHealth]) -> None:
        try:
            gpu = ",".join(visible_gpus() or ()) or "cpu"
            self._server = ThreadingHTTPServer((host, port), _page(ask, gpu))
        except OSError as error:
            raise StartupError(
                f"The metrics port {host}:{port} can't be used ({error.strerror}).",
                try_="choose another one with --metrics-port",
            ) from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])

    def start(self) -> None:
        """Answer from now on."""
        threading.Thread(target=self._server.serve_forever, name="node-http", daemon=True).start()

    def close(self) -> None:
        """Stop answering; only after `start`."""
        self._server.shutdown()
        self._server.server_close()


def _now(health: NodeHealth, gpu: str) -> NodeNow:
    return NodeNow(
        node_id=health.node_id,
        gpu=gpu,
        sessions=health.sessions,
        capacity=health.capacity,
        up=health.ready,
    )


def _page(ask: Callable[[], NodeHealth], gpu: str) -> type[BaseHTTPRequestHandler]:
    class Page(BaseHTTPRequestHandler):
        server_version = "greenroom-node"
        sys_version = ""

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/health":
                    health = ask()
                    self._answer_health(health, fine=health.healthy)
                case "/ready":
                    health = ask()
                    self._answer_health(health, fine=health.ready)
                case "/metrics":
                    self._answer(200, CONTENT_TYPE_LATEST, node_text(_now(ask(), gpu)))
                case _:
                    self._answer(404, "text/plain", b"/health, /ready and /metrics are here.\n")

        def _answer_health(self, health: NodeHealth, *, fine: bool) -> None:
            body = json.dumps({"ok": fine, **asdict(health)}).encode()
            self._answer(200 if fine else 503, "application/json", body)

        def _answer(self, status: int, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Requests for health aren't worth a line."""

    return Page
