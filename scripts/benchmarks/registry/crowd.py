"""How does a pool come to have thousands of nodes, residents and waiting sessions?

By the real scripts, pipelined. Nothing here is measured; what is measured is built here, too, so
that a call of the bench carries what a call of a replica or node does.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from scripts.benchmarks.registry.server_cost import Client, Command, parts, send
from shared.records import SessionLimits, SessionRequest
from shared.store import keys, replies
from shared.store.admission import RESIDENTS_READ, TICKETS_READ, WAITING_READ
from shared.store.nodes import WAITING_SHOWN, digests_of
from shared.store.scripts import Argument, all_names, load

_LIMITS = SessionLimits(queued_s=3600, assigned_s=3600, starting_s=3600, session_s=36_000)
"""As long as any measurement: nothing may fire by itself."""
_REQUEST = SessionRequest(
    identity="person-0123456789abcdef",
    config={"fps": 16, "width": 832, "height": 480, "seed": 7},
    prompt="A harbour town at dusk, lamps in the fog, slow walk along the quay",
)
_DIGITS = "abcdefghijklmnopqrstuvwxyz234567"
_TTL_MS = 10_000
_SENT_AT_ONCE = 500
STEPS = ("joining_room", "starting_pipeline", "running")


@dataclass(slots=True, kw_only=True)
class Node:
    """One node as it knows itself."""

    node_id: str
    incarnation: int
    capacity: int
    stamp: int = 0
    residents: list[tuple[str, str]] = field(default_factory=list)
    """Session id and epoch."""


class Crowd:
    """One pool and all who are in it."""

    def __init__(self, client: Client, pool: str) -> None:
        self.client = client
        self.pool = pool
        self.prefix = keys.prefix(pool)
        self.nodes: list[Node] = []
        self._numbers = itertools.count()
        for name in all_names():
            client.script_load(load(name).source)

    # Single calls, as commands.

    def command(self, script: str, /, **named: Argument) -> Command:
        """Return one script call."""
        loaded = load(script)
        return ("EVALSHA", loaded.digest, 1, self.prefix, *loaded.arguments(named))

    def opening(self) -> Command:
        """Return the opening of a new session."""
        return self.command(
            "open_session",
            session_id=self._new_id(),
            idempotency_hash="",
            fingerprint="",
            queue_size=10**9,
            identity_hash="",
            most_waiting=0,
            most_active=0,
            identity=_REQUEST.identity,
            request=replies.request_json(_REQUEST),
            **replies.limits(_LIMITS),
        )

    def beat(self, node: Node, *, humans: int = 1) -> Command:
        """Return a node's next beat; the first of its residents also tells who is in its room."""
        node.stamp += 1
        listed: list[list[str | int]] = [[sid, epoch] for sid, epoch in node.residents]
        if listed:
            listed[0] += [1, 1, humans]
        ended = [[f"{sid[:-4]}gone", "1", "client_stop"] for sid, _ in node.residents[:4]]
        told: dict[str, Argument] = {
            "node_id": node.node_id,
            "incarnation": node.incarnation,
            "stamp": node.stamp,
            "state": "busy" if listed else "idle",
            "capacity": node.capacity,
            "draining": 0,
            "media_ok": 1,
            "residents": json.dumps(listed),
            "ended": json.dumps(ended),
            "gpus": "",
        }
        return self.command("beat_node", **told, **digests_of(told))

    def step(self, node: Node, resident: tuple[str, str], target: str) -> Command:
        """Return one step of a session on its way to being played."""
        return self.command(
            "advance_session",
            **self._owner(node, resident),
            stamp=node.stamp,
            target=target,
            reason="",
            pipeline_session_id="p-1",
        )

    def ending(self, node: Node, resident: tuple[str, str]) -> Command:
        """Return a node's word that nothing is left of a session."""
        return self.command(
            "end_session", **self._owner(node, resident), reason="completed", error=""
        )

    def look_at_line(self) -> Command:
        """Return a replica's look at the whole line, at most once a second."""
        return self.command(
            "read_line",
            most_waiting=WAITING_READ,
            most_tickets=TICKETS_READ,
            most_residents=RESIDENTS_READ,
        )

    def snapshot(self) -> Command:
        """Return a replica's count of the pool, for health and metrics."""
        return self.command("snapshot", waiting_shown=WAITING_SHOWN)

    # Many at once.

    def send(self, commands: Iterable[Command]) -> list[Any]:
        """Send commands in pipelines that the server's buffers like."""
        sent: list[Any] = []
        for part in parts(commands, _SENT_AT_ONCE):
            sent += send(self.client, part)
        return sent

    def add_nodes(
        self, count: int, *, capacity: int, named: str = "node", ttl_ms: int = _TTL_MS
    ) -> list[Node]:
        """Register fresh processes."""
        names = [f"{named}-{len(self.nodes) + number:04d}" for number in range(count)]
        answers = self.send(
            self.command(
                "register_node",
                node_id=name,
                boot_id=f"boot-of-{name}",
                previous=0,
                ttl_ms=ttl_ms,
                capacity=capacity,
                state="idle",
                profile="{}",
                start_ms=0,
                session_capacity="null",
                options="{}",
                residents="[]",
            )
            for name in names
        )
        added = [
            Node(node_id=name, incarnation=int(answer[1]), capacity=capacity)
            for name, answer in zip(names, answers, strict=True)
        ]
        self.nodes += added
        return added

    def open(self, count: int) -> None:
        """Open so many sessions."""
        self.send(self.opening() for _ in range(count))

    def wait_in_line(self, count: int) -> None:
        """Open sessions until so many wait."""
        self.open(count - int(self.client.zcard(keys.line_key(self.pool))))

    def line(self) -> list[str]:
        """Return who waits, in order."""
        names = cast("list[bytes]", self.client.zrange(keys.line_key(self.pool), 0, -1))
        return [name.decode() for name in names]

    def look_at_slots(self, nodes: Sequence[Node]) -> None:
        """Let nodes know what is assigned to them."""
        pipeline = self.client.pipeline(transaction=False)
        for node in nodes:
            pipeline.zrange(keys.slots_key(self.pool, node.node_id), 0, -1, withscores=True)
        for node, members in zip(nodes, pipeline.execute(), strict=True):
            node.residents = [(name.decode(), str(int(epoch))) for name, epoch in members]

    def play(self, nodes: Sequence[Node]) -> None:
        """Let nodes take all that is assigned to them and lead it to running."""
        self.look_at_slots(nodes)
        self.send(
            self.step(node, resident, target)
            for node in nodes
            for resident in node.residents
            for target in STEPS
        )
        self.send(self.beat(node) for node in nodes)

    def _owner(self, node: Node, resident: tuple[str, str]) -> dict[str, Argument]:
        return {
            "node_id": node.node_id,
            "incarnation": node.incarnation,
            "session_id": resident[0],
            "epoch": resident[1],
        }

    def _new_id(self) -> str:
        number, digits = next(self._numbers), ""
        for _ in range(26):
            number, digit = divmod(number, len(_DIGITS))
            digits = _DIGITS[digit] + digits
        return f"{self.pool}-{digits}"
