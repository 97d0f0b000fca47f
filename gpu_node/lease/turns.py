"""How does a session wait for the execution lease, and what does its page hear meanwhile?

`Turns` lives on the service loop beside the generators that it makes wait: it moves the pure core,
wakes the one session that was granted the lease, keeps the core's deadline with one timer, and
tells each session where it stands, as status chunks of its own stream. Under the idle policy that
is at once; under a maximum hold, where turns come and go with every chunk, only a wait of more than
a second is worth a word.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from gpu_node.lease.core import Change, ExecutionLease, LeaseState
from shared.errors import ServiceLoadFailed

_log = structlog.get_logger()

ACTIVITY = frozenset(("control_state", "control", "prompt", "reset"))
"""Messages by which a controller takes part; a stop or an acknowledgement isn't one."""
IDLE_TIMEOUT_S = 10.0
"""For a session whose config names none. Source: reference, CLI default."""
TELL_EVERY_S = 1.0
"""How often a place in line is looked at again; also the shortest wait that is told of under a
maximum hold."""

Status = dict[str, Any]


@dataclass(slots=True)
class Turn:
    """One chunk's turn."""

    waited_s: float = 0.0
    counts: bool = False
    """Set by whoever makes the chunk: it is one of media."""


@dataclass(slots=True, kw_only=True)
class _Player:
    """A session that takes part."""

    tell: Callable[[Status], None] | None = None
    granted: asyncio.Future[None] | None = None
    """Waited for by the one turn that the session may ask for at a time."""
    told_place: int | None = None
    """The place that its page shows; None: it shows none."""


class Turns:
    """The turns on one model. Every method is called on the service loop."""

    def __init__(
        self, *, max_chunks: int | None = None, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._core = ExecutionLease(now_s, max_chunks=max_chunks)
        self._now_s = now_s
        self.need_control = max_chunks is None
        """A session stands in line only after a control; with a maximum hold it always does."""
        self._tells_at_once = max_chunks is None
        self._players: dict[str, _Player] = {}
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, session_id: str, idle_timeout_s: Any = None) -> None:
        """Let a session take part; raises `ValueError` for one that does already."""
        named = isinstance(idle_timeout_s, int | float) and idle_timeout_s > 0
        self._core.register(session_id, idle_timeout_s if named else IDLE_TIMEOUT_S)
        self._players[session_id] = _Player()

    def hear(self, session_id: str, message: object) -> None:
        """A control message is about to reach the service."""
        if isinstance(message, dict) and message.get("type") in ACTIVITY:
            self._apply(self._core.record_activity(session_id))

    @asynccontextmanager
    async def turn(self, session_id: str, tell: Callable[[Status], None]) -> AsyncIterator[Turn]:
        """Wait for the session's turn; the block makes its chunk.

        Args:
            session_id: Whose turn; nobody waits for two at a time.
            tell: Takes status chunks for the session's page.
        """
        player = self._players[session_id]
        player.tell = tell
        asked_s = self._now_s()
        try:
            await self._until_granted(session_id, player)
            turn = Turn(waited_s=self._now_s() - asked_s)
            yield turn
        except BaseException:
            self._apply(self._core.abort_chunk(session_id))
            raise
        if self._core.is_busy(session_id):  # not if the lease was closed meanwhile
            self._apply(self._core.finish_chunk(session_id, counts=turn.counts))

    def over(self, session_id: str, *, failed: bool) -> None:
        """The session's stream has ended: it asks for no more turns.

        One that failed may have left anything behind in the model, so what it holds it keeps until
        its clean-up is confirmed.
        """
        end = self._core.deactivate if failed else self._core.rest
        self._apply(end(session_id))

    def leave(self, session_id: str) -> None:
        """The session is about to be cleaned up."""
        self._apply(self._core.deactivate(session_id))

    def left(self, session_id: str) -> None:
        """Its clean-up has ended; until now nobody else was given what it held."""
        changes = self._core.deactivate(session_id) + self._core.release(session_id)
        self._players.pop(session_id, None)
        self._apply(changes)

    def give_up_on(self, session_id: str) -> None:
        """Its clean-up takes longer than it may: the others go on, for better or worse."""
        if self._core.holder == session_id:
            _log.error("lease_taken_from_hanging_cleanup", pipeline_session=session_id)
        self.left(session_id)

    def report(self) -> dict[str, Any]:
        """Return how many wait, and for how long the present chunk has been in the making."""
        return {"waiting": self._core.waiting, "busy_seconds": round(self._core.busy_s, 3)}

    def close(self) -> None:
        """Grant nothing any more."""
        self._apply(self._core.close())

    # --- what follows from a change -------------------------------------------------------------

    async def _until_granted(self, session_id: str, player: _Player) -> None:
        player.granted = asyncio.get_running_loop().create_future()
        try:
            self._apply(self._core.ask(session_id))
            if self._core.is_busy(session_id):
                return
            while not player.granted.done():
                await asyncio.wait({player.granted}, timeout=TELL_EVERY_S)
                self._tell_place(session_id, player)
        finally:
            player.granted = None

    def _apply(self, changes: tuple[Change, ...]) -> None:
        for change in changes:
            player = self._players.get(change.session_id)
            if player is not None:
                self._on_change(change, player)
        self._set_timer()

    def _on_change(self, change: Change, player: _Player) -> None:
        match change.state:
            case LeaseState.ACTIVE:
                if player.granted is not None and not player.granted.done():
                    player.granted.set_result(None)
                if self._tells_at_once or player.told_place is not None:
                    _tell(player, "lease_granted")
                player.told_place = None
            case LeaseState.PARKED if self._tells_at_once:
                player.told_place = None
                _tell(player, "lease_parked")
            case LeaseState.QUEUED if self._tells_at_once:
                self._tell_place(change.session_id, player)
            case _:
                pass

    def _tell_place(self, session_id: str, player: _Player) -> None:
        """Say where the session stands in line, unless it has been told or stands in none."""
        place = self._core.position(session_id)
        if place is not None and place != player.told_place:
            player.told_place = place
            _tell(player, "lease_queued", queue_position=place)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_s = self._core.deadline_s
        if deadline_s is not None:
            in_s = max(0.0, deadline_s - self._now_s())
            self._timer = asyncio.get_running_loop().call_later(in_s, self._on_deadline)

    def _on_deadline(self) -> None:
        self._timer = None
        self._apply(self._core.yield_if_idle())


def _tell(player: _Player, stage: str, **more: object) -> None:
    if player.tell is not None:
        player.tell({"type": "status", "stage": stage, **more})


def turns_for(service: object, name: str) -> Turns | None:
    """Return the turns that *service* asks for by its attributes; None: it needs none.

    ``execution_lease = "node"``: only the session whose turn it is has its next chunk made.
    ``execution_lease_max_chunks``: after so many it is somebody else's turn.

    Raises:
        ServiceLoadFailed: An attribute says something that isn't known.
    """
    lease = getattr(service, "execution_lease", None)
    if lease is None:
        return None
    if lease != "node":
        raise ServiceLoadFailed(
            f'execution_lease in {name} is {lease!r:.40}; leave it out or set it to "node".'
        )
    most = getattr(service, "execution_lease_max_chunks", None)
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise ServiceLoadFailed(
            f"execution_lease_max_chunks in {name} is {most!r:.40}; leave it out or set it to a "
            "whole number from 1."
        )
    return Turns(max_chunks=most)
