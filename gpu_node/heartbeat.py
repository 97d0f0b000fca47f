"""What does the node tell the registry, how often, and when does it fall silent?

The beat has a thread and a connection of its own, so it goes on while the event loop is stuck; what
comes back is handed to the loop. Stamp and residents of a beat are taken under one lock (R7):
whoever adds a resident and then quotes the latest stamp can never seem to have lost it.

The *node lease* on this side: TTL - 3 s after the *send* of the last confirmed beat the node is
silent, by a clock that also counts a suspended machine's sleep. `NodeLease.holds` is asked before
each frame. Only registering and beats renew it; a beat that confirms (session, epoch) makes that
session audible again (R2).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from gpu_node import metrics
from gpu_node.watchdog import LoopWatch
from shared.clock import Clock
from shared.errors import StoreUnavailable
from shared.gpus import GpuFacts, gpus_text
from shared.lifecycle import in_thread
from shared.records import (
    Assignment,
    Beat,
    BeatConfirmed,
    BeatReply,
    EndedHere,
    MustRegister,
    Presence,
    Resident,
)
from shared.states import NodeState, SessionState

_log = structlog.get_logger()

SILENT_BEFORE_TTL_S = 3.0
_RETRY_S = 0.5
_ENDED_TOLD_S = 120.0
_ENDED_KEPT = 128


class Link(Protocol):
    """The blocking way to the registry: `shared.store.BeatLink`, or one that a test can cut."""

    def beat(self, beat: Beat) -> BeatReply:
        """Send one beat; raises `StoreUnavailable`."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """What the node says of itself in each beat."""

    state: NodeState = NodeState.LOADING
    capacity: int = 0
    draining: bool = False
    media_ok: bool = True


class NodeLease:
    """Which sessions this node may play, and until when. Any thread may ask."""

    def __init__(
        self, clock: Clock, ttl_s: float, silence_margin_s: float = SILENT_BEFORE_TTL_S
    ) -> None:
        self._clock = clock
        self._silent_after_s = ttl_s - silence_margin_s
        self._lock = threading.Lock()
        self._confirmed_at_s = float("-inf")
        self._owned: frozenset[Assignment] = frozenset()
        self._inheriting: set[Assignment] = set()
        """Accepted since the last confirmed beat: they live on that beat."""

    def holds(self, assignment: Assignment) -> bool:
        """Whether this session may be seen and heard now."""
        with self._lock:
            mine = assignment in self._owned or assignment in self._inheriting
            return mine and self._age_s() < self._silent_after_s

    def is_fresh(self) -> bool:
        """Whether the node as a whole may be heard now."""
        return self.age_s() < self._silent_after_s

    def age_s(self) -> float:
        """Seconds since the last confirmed beat was sent; infinite before the first."""
        with self._lock:
            return self._age_s()

    def inherit(self, assignment: Assignment) -> None:
        """A session was accepted; until the next confirmed beat the last one stands for it."""
        with self._lock:
            self._inheriting.add(assignment)

    def confirm(
        self, sent_at_s: float, owned: frozenset[Assignment], told: frozenset[Assignment]
    ) -> None:
        """The registry answered what was sent at *sent_at_s* and named the residents *told*.

        Answers count in the order of their sending: a beat of the life before may come back last.
        """
        with self._lock:
            if sent_at_s < self._confirmed_at_s:
                return
            self._confirmed_at_s = sent_at_s
            self._owned = owned
            self._inheriting -= told

    def owns(self, assignment: Assignment) -> bool:
        """Whether the last confirmed beat said that the session is this node's."""
        with self._lock:
            return assignment in self._owned

    def drop(self, assignment: Assignment) -> None:
        """The session is over here."""
        with self._lock:
            self._owned -= {assignment}
            self._inheriting.discard(assignment)

    def _age_s(self) -> float:
        return self._clock.monotonic_s() - self._confirmed_at_s


class Heartbeat:
    """The beat's thread and all that a beat says.

    Methods are called on the agent's loop, except where the thread is named.
    """

    def __init__(
        self,
        *,
        node_id: str,
        link: Link,
        lease: NodeLease,
        clock: Clock,
        every_s: float,
        on_reply: Callable[[BeatReply], None],
    ) -> None:
        self.node_id = node_id
        self._link = link
        self._lease = lease
        self._clock = clock
        self._every_s = every_s
        self._on_reply = on_reply
        self.on_stuck: Callable[[], None] = lambda: None
        """Called by the beat thread with each beat that it leaves out because the event loop stands
        still (R12); set before `run`."""
        self._wake = threading.Event()
        self._closing = False
        self._failing = False
        """Beat thread only: the last beat got no answer."""
        self._loop_watch = LoopWatch(every_s)
        """Beat thread only."""

        self._loop_seen_at_s = clock.monotonic_s()
        """Loop writes, any thread reads: when the event loop last moved."""

        self._lock = threading.Lock()
        """Guards everything below: the loop writes it, the thread takes snapshots."""
        self._incarnation = 0
        self._stamp = 0
        self._confirmed_stamp = 0
        self._report = NodeReport()
        self._residents: dict[Assignment, Resident] = {}
        self._ended: dict[EndedHere, float | None] = {}
        """Ended lately → when a confirmed beat first carried it."""
        self._gpus = gpus_text(GpuFacts())
        self._gpus_told = ""
        """What the last confirmed beat that told of GPUs said of them, in this life."""

    async def run(self) -> None:
        """Beat until `close`; a fault of the thread ends this with it."""
        loop = asyncio.get_running_loop()
        await in_thread("heartbeat", lambda: self._beat_until_closed(loop))

    def close(self) -> None:
        """End the thread after the beat under way."""
        self._closing = True
        self._wake.set()

    def poke(self) -> None:
        """Beat at once."""
        self._wake.set()

    def see_loop(self) -> None:
        """The event loop moves."""
        self._loop_seen_at_s = self._clock.monotonic_s()

    def loop_age_s(self) -> float:
        """Seconds since the event loop last moved. Any thread may ask."""
        return self._clock.monotonic_s() - self._loop_seen_at_s

    def begin_life(self, incarnation: int, sent_at_s: float, kept: frozenset[Assignment]) -> None:
        """A registration sent at *sent_at_s* was confirmed: beat under its number."""
        with self._lock:
            self._incarnation = incarnation
            self._gpus_told = ""
            told = frozenset(self._residents)
        self._lease.confirm(sent_at_s, kept, told)
        self.poke()

    @property
    def incarnation(self) -> int:
        """Number of the present life; 0 while there is none."""
        with self._lock:
            return self._incarnation

    @property
    def stamp(self) -> int:
        """The latest stamp that a beat has taken. It goes on rising from life to life."""
        with self._lock:
            return self._stamp

    def is_confirmed_after(self, stamp: int, assignment: Assignment) -> bool:
        """Whether a beat after the one with this *stamp* said that the session is this node's."""
        with self._lock:
            return self._confirmed_stamp > stamp and self._lease.owns(assignment)

    @property
    def report(self) -> NodeReport:
        """What the next beat says of the node."""
        with self._lock:
            return self._report

    def say(self, report: NodeReport) -> None:
        """Change what the node says of itself, and say it at once."""
        with self._lock:
            changed = self._report != report
            self._report = report
        if changed:
            self.poke()

    def note_gpus(self, told: str) -> None:
        """How the GPUs are, for the next beat: news of them hurry nobody."""
        with self._lock:
            self._gpus = told

    def list_resident(self, assignment: Assignment) -> None:
        """A session is held here from now on; called before the registry is told so."""
        with self._lock:
            self._residents[assignment] = Resident(
                session_id=assignment.session_id,
                epoch=assignment.epoch,
                presence=Presence(connected=False, controller=False, participants=0),
            )
        self._lease.inherit(assignment)

    def see(self, assignment: Assignment, presence: Presence) -> None:
        """Tell who is in a resident's room, at once if it changed."""
        with self._lock:
            known = self._residents.get(assignment)
            changed = known is not None and known.presence != presence
            if known is not None:
                self._residents[assignment] = replace(known, presence=presence)
        if changed:
            self.poke()

    def rename(self, old: Assignment, new: Assignment) -> None:
        """A resident goes on under another epoch; the beat under way still tells the old one."""
        with self._lock:
            known = self._residents.pop(old, None)
            if known is None:
                return
            self._residents[new] = replace(known, epoch=new.epoch)
        self._lease.inherit(new)
        self._lease.drop(old)
        self.poke()

    def note_step(self, assignment: Assignment, state: SessionState) -> None:
        """The registry confirmed that a resident has come as far as *state*."""
        with self._lock:
            known = self._residents.get(assignment)
            if known is not None:
                self._residents[assignment] = replace(known, state=state)

    def unlist(self, assignment: Assignment, ended: EndedHere | None = None) -> None:
        """A session is held here no more, because its `end` or `give_back` was answered."""
        with self._lock:
            self._residents.pop(assignment, None)
            if ended is not None:
                self._ended[ended] = None
                for oldest in list(self._ended)[:-_ENDED_KEPT]:
                    del self._ended[oldest]
        self._lease.drop(assignment)
        self.poke()

    def residents(self) -> tuple[Assignment, ...]:
        """The sessions held here."""
        with self._lock:
            return tuple(self._residents)

    def _beat_until_closed(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._closing:
            self._wake.wait(_RETRY_S if self._failing else self._every_s)
            self._wake.clear()
            if self._loop_watch.is_stuck(self._loop_seen_at_s, self._clock.monotonic_s()):
                self.on_stuck()  # and no beat: nobody plays what it would keep
            elif not self._closing:
                self._beat(loop)
        self._link.close()

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        """Beat thread: send one beat and hand its reply to the loop."""
        sent_at_s = self._clock.monotonic_s()
        beat = self._snapshot()
        if not beat.incarnation:
            return  # no life to beat for: the agent registers
        try:
            reply = self._link.beat(beat)
        except StoreUnavailable as error:
            self._note_failure(str(error))
            return
        metrics.beat_answered(self._clock.monotonic_s() - sent_at_s)
        if self._failing:
            self._failing = False
            _log.info("beats_answered_again", lease_age_s=round(self._lease.age_s(), 1))
        if isinstance(reply, BeatConfirmed):
            told = frozenset(
                Assignment(session_id=r.session_id, epoch=r.epoch) for r in beat.residents
            )
            self._lease.confirm(sent_at_s, reply.owned, told)
            with self._lock:
                self._confirmed_stamp = beat.stamp
                if beat.gpus and self._incarnation == beat.incarnation:
                    self._gpus_told = beat.gpus
            self._forget_told(beat.ended, sent_at_s)
        elif isinstance(reply, MustRegister):
            with self._lock:
                if self._incarnation != beat.incarnation:
                    return  # an answer to the life before
                self._incarnation = 0  # no further beat of this life
        loop.call_soon_threadsafe(self._on_reply, reply)

    def _snapshot(self) -> Beat:
        with self._lock:
            self._stamp += 1
            report = self._report
            if report.state is NodeState.IDLE and self._residents:
                report = replace(report, state=NodeState.BUSY)
            return Beat(
                node_id=self.node_id,
                incarnation=self._incarnation,
                stamp=self._stamp,
                state=report.state,
                capacity=report.capacity,
                draining=report.draining,
                media_ok=report.media_ok,
                residents=tuple(self._residents.values()),
                ended=tuple(self._ended),
                gpus="" if self._gpus == self._gpus_told else self._gpus,
            )

    def _forget_told(self, told: tuple[EndedHere, ...], sent_at_s: float) -> None:
        """Repeat an ended session for a while after the first confirmed beat that carried it."""
        with self._lock:
            for ended in told:
                first_at_s = self._ended.get(ended)
                if first_at_s is None:
                    self._ended[ended] = sent_at_s
                elif sent_at_s - first_at_s > _ENDED_TOLD_S:
                    self._ended.pop(ended, None)

    def _note_failure(self, why: str) -> None:
        metrics.beat_unanswered()
        if not self._failing:
            self._failing = True
            _log.warning("beats_unanswered", why=why, lease_age_s=round(self._lease.age_s(), 1))
