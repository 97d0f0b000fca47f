"""How does one session get from assigned to closed?

    accept → join the room → wait for the controller → make the pipeline session → play → wind up

One task performs, step by step. It ends by itself or it's ordered to end: by the kill list, by the
client's ``stop``, by the node's drain. An order cancels the performance at the await where it
stands, so nothing is published or written after it (R16); then `ending` lets go of the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, assert_never

import structlog

from gpu_node import metrics
from gpu_node.backstage import Backstage
from gpu_node.bundle import Bundle
from gpu_node.claim import Claim
from gpu_node.delivery import Delivery, DeliveryMode, delivery_mode
from gpu_node.dialogue import Dialogue
from gpu_node.ending import End, Ending, GiveBack, Holdings, Vanish, Verdict, reason_of
from gpu_node.playout import Playout
from gpu_node.reactions import Reactions
from gpu_node.reports import Reports
from gpu_node.session_config import frames_per_second, session_config
from gpu_node.stage import Stage, StageEvents
from shared.errors import (
    InvalidConfig,
    RoomsUnavailable,
    ServiceFault,
    ServiceLost,
    StoreUnavailable,
    UnknownSession,
)
from shared.lifecycle import Background, describe, until_available
from shared.records import (
    Assignment,
    Fenced,
    Moved,
    MustStop,
    SessionRecord,
    SessionRequest,
)
from shared.room_status import StatusWriter
from shared.states import Reason, SessionState

_log = structlog.get_logger()

JOIN_WITHIN_S = 10.0
"""First join; the registry's own limit is 15 s."""
CREDIT_EVERY_S = 5.0
"""While the room is lost; else a session near its limit would end before its picture is back."""


class Halted(Exception):
    """Ends the performance with a verdict; never leaves this module."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict)
        self.verdict = verdict


class Runner:
    """One session on this node, from its acceptance to the confirmed clean-up.

    Its methods are called on the agent's loop. Orders may come at any time and more than once; the
    first one counts.
    """

    def __init__(self, backstage: Backstage, assignment: Assignment) -> None:
        self._backstage = backstage
        self._log = _log.bind(session=assignment.session_id, epoch=assignment.epoch)
        self._claim = Claim(backstage.registry, backstage.heartbeat, assignment)
        self._status = StatusWriter(
            session_id=assignment.session_id, now_s=lambda: backstage.clock.wall_ms() / 1000
        )
        self._verdict: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._holdings = Holdings()
        self._bundle = Bundle(
            backstage.registry, assignment.session_id, backstage.clock, self._holdings.silent_s
        )
        self._adoption = Background()
        """At most one task; not among the asides, since a session that ends needs it too."""
        self._rebase = Background()
        """The same; it is never cancelled while the session is held."""
        self._asides = Background()
        self._delivery = Delivery(DeliveryMode.LATEST)
        self._reactions = Reactions()
        self._reports: Reports | None = None
        self._accepted_at_s = self._state_since_s = backstage.clock.monotonic_s()

    @property
    def assignment(self) -> Assignment:
        """The session, under its present epoch."""
        return self._claim.assignment

    @property
    def is_rebasing(self) -> bool:
        """The registry may have raised the epoch without our having heard of it."""
        return not self._rebase.is_idle

    @property
    def state(self) -> SessionState:
        """The furthest step that the registry confirmed; after that it only ends."""
        return self._claim.state

    @property
    def is_stuck(self) -> bool:
        """The clean-up takes longer than it may, or failed: the session stays listed."""
        return self._holdings.stuck

    # --- orders ---------------------------------------------------------------------------------

    def stop(self, reason: Reason) -> None:
        """End the session for *reason*."""
        self._decide(End(reason=reason))

    def give_back(self, why: str) -> None:
        """Return the session to the line."""
        self._decide(GiveBack(why=why))

    def tell_move(self, in_s: float | None) -> None:
        """Tell the room that the session goes elsewhere in so many seconds; None: it stays."""
        stage = self._holdings.stage
        if stage is not None and not self._verdict.done() and stage.check():
            stage.say(self._status.moving(in_s))

    def lose(self) -> None:
        """The kill list says that the session belongs to somebody else."""
        self._claim.lose()
        self._decide(Vanish())

    def bring_back(self) -> None:
        """The registry asks for a session that it has lost; it asks again with each beat."""
        if self._adoption.is_idle:
            self._adoption.start(f"bring back {self.assignment.session_id}", self._bring_back())

    def check(self) -> None:
        """Let the stage ask the node lease: at each answered beat, and a few times a second."""
        if self._holdings.stage is not None and not self._verdict.done():
            self._holdings.stage.check()

    def _decide(self, verdict: Verdict) -> None:
        if not self._verdict.done():
            self._verdict.set_result(verdict)

    # --- the life -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Return when nothing is left of the session here and the registry knows it."""
        performance = asyncio.create_task(
            self._perform(), name=f"perform {self.assignment.session_id}"
        )
        performance.add_done_callback(self._on_performed)
        verdict = await self._verdict
        performance.cancel()
        await asyncio.wait({performance})
        await self._asides.aclose()
        self._log.info("session_ends_here", verdict=type(verdict).__name__, state=self.state)
        ending = Ending(self._backstage, self._claim, self._status, self._holdings)
        await ending.carry_out(verdict)
        await self._adoption.aclose()
        await self._rebase.aclose()

    async def _bring_back(self) -> None:
        """Give the registry what was kept of the session; without anything kept it is lost."""
        try:
            if not self._bundle.is_packed and not await self._bundle.pack():
                self.lose()
                return
        except StoreUnavailable:
            return
        if not await self._claim.bring_back(self._bundle) or not self._verdict.done():
            return
        verdict = self._verdict.result()
        if isinstance(verdict, End):  # it was ending: the registry shall watch over that again
            await self._claim.advance(SessionState.DRAINING, reason=verdict.reason)

    def _on_performed(self, performance: asyncio.Task[Verdict]) -> None:
        if performance.cancelled():
            return
        error = performance.exception()
        self._decide(performance.result() if error is None else self._verdict_of(error))

    def _verdict_of(self, error: BaseException) -> Verdict:
        match error:
            case Halted():
                return error.verdict
            case InvalidConfig():
                return End(reason=Reason.INVALID_CONFIG, error=str(error))
            case ServiceLost():
                return GiveBack(why="service_lost")
            case ServiceFault():
                self._log.warning("service_fault", exc_info=error)
                metrics.service_fault(out_of_memory="out of memory" in str(error).lower())
                return End(reason=Reason.SERVICE_ERROR, error=str(error))
            case RoomsUnavailable():
                return GiveBack(why=self._why_unreachable())
            case _:
                self._log.error("runner_failed", exc_info=error)
                return End(reason=Reason.SERVICE_ERROR, error=f"The node failed: {describe(error)}")

    def _why_unreachable(self) -> str:
        """A media server that nobody reaches isn't this session's or this node's fault."""
        return "join_failed" if self._backstage.heartbeat.report.media_ok else "media_lost"

    async def _perform(self) -> Verdict:
        await self._advance(SessionState.JOINING_ROOM)
        request, record = await self._read()
        stage, dialogue = self._set_up(request)
        await stage.enter(JOIN_WITHIN_S)
        await stage.until_controller()
        await self._advance(SessionState.STARTING_PIPELINE)
        pipeline_session_id = await self._create(request)
        await self._advance(SessionState.RUNNING, pipeline_session_id=pipeline_session_id)
        self._aside("pack", until_available(self._bundle.pack))
        stage.begin()
        self._aside("credits", self._credit_while_dark(stage))
        dialogue.open(pipeline_session_id)
        if record.attempt > 1:
            stage.say(self._status.resumed(record.attempt))
        fps = frames_per_second(request, self._backstage.settings.default_fps)
        await self._play(stage, dialogue, pipeline_session_id, fps)
        return End(reason=Reason.COMPLETED)

    async def _play(
        self, stage: Stage, dialogue: Dialogue, pipeline_session_id: str, fps: float
    ) -> None:
        """Play until the service has no more and the client has what it was promised."""
        playout = Playout(
            stage,
            status=self._status,
            reactions=self._reactions,
            default_fps=fps,
            clock=self._backstage.clock,
        )
        reports = self._reports = Reports(
            self._backstage,
            stage,
            playout,
            status=self._status,
            pipeline_session_id=pipeline_session_id,
            controls_waiting=lambda: dialogue.controls_waiting,
        )
        reports.start()
        try:
            await self._delivery.until_watched(stage)
            await playout.play(self._backstage.host.chunks(pipeline_session_id))
            stage.say(self._status.done(playout.chunks_played, playout.frames_played))
            await self._settle(stage, playout.frames_played)
        finally:
            metrics.PLAY.left(self.assignment.session_id)
            await reports.aclose()

    async def _settle(self, stage: Stage, frames_played: int) -> None:
        receipt = await self._delivery.settle(frames_played)
        if receipt is None:
            return
        acknowledged = receipt.acknowledged_frames
        stage.say(self._status.delivery(receipt.published_frames, acknowledged))
        outcome = "complete" if receipt.complete else "incomplete"
        metrics.delivered("unacknowledged" if acknowledged is None else outcome)
        if not receipt.complete:
            self._log.warning(
                "delivery_incomplete", published=frames_played, acknowledged=acknowledged
            )

    async def _advance(
        self, state: SessionState, *, pipeline_session_id: str | None = None
    ) -> None:
        before = self.state
        reply = await self._claim.advance(state, pipeline_session_id=pipeline_session_id)
        match reply:
            case Moved():
                self._log_step(state, before)
            case MustStop(reason=reason):
                raise Halted(End(reason=reason_of(reason)))
            case Fenced():
                raise Halted(Vanish())
            case _:
                assert_never(reply)

    def _log_step(self, state: SessionState, before: SessionState) -> None:
        now_s = self._backstage.clock.monotonic_s()
        lasted_s, self._state_since_s = round(now_s - self._state_since_s, 3), now_s
        self._log.info("session_moved", state=state, before=before, lasted_s=lasted_s)

    async def _read(self) -> tuple[SessionRequest, SessionRecord]:
        """Return what the client asked for; a record that is gone has no session to play."""
        session_id = self.assignment.session_id
        if not await until_available(self._bundle.pack):
            raise Halted(Vanish())
        try:
            request = await until_available(lambda: self._backstage.registry.request(session_id))
            record = await until_available(lambda: self._backstage.registry.read(session_id))
        except UnknownSession:
            raise Halted(Vanish()) from None
        if request is None:
            raise Halted(Vanish())
        return request, record

    def _set_up(self, request: SessionRequest) -> tuple[Stage, Dialogue]:
        self._delivery = Delivery(delivery_mode(request))
        dialogue = Dialogue(
            self._backstage,
            controller=request.identity,
            status=self._status,
            reactions=self._reactions,
            on_stop=lambda: self.stop(Reason.CLIENT_STOP),
            on_delivered=self._delivery.acknowledge,
        )
        stage = Stage(
            self._backstage,
            self._claim,
            controller=request.identity,
            fps=frames_per_second(request, self._backstage.settings.default_fps),
            status=self._status,
            events=StageEvents(
                on_control=dialogue.on_control,
                on_arrival=lambda identity: self._on_arrival(dialogue, identity),
                on_asset=dialogue.on_asset,
                on_sound=dialogue.on_sound,
                on_first_frame=self._on_first_frame,
                on_outranked=self._outrank,
                on_given_up=lambda _why: self.give_back(self._why_unreachable()),
            ),
        )
        dialogue.stage = stage
        self._holdings.stage, self._holdings.dialogue = stage, dialogue
        return stage, dialogue

    async def _outrank(self, seen_epoch: int) -> None:
        if self._rebase.is_idle:
            name = f"rebase {self.assignment.session_id}"
            self._rebase.start(name, self._claim.rebase(seen_epoch))
        await self._rebase.join()

    async def _create(self, request: SessionRequest) -> str:
        config = session_config(
            self.assignment.session_id,
            request,
            image=self._bundle.image,
            asset_root=self._backstage.settings.asset_root,
            control_idle_timeout_s=self._backstage.settings.control_idle_timeout_s,
        )
        creation = self._holdings.creation = asyncio.create_task(
            self._backstage.host.create_session(config), name=f"create {self.assignment.session_id}"
        )
        return await asyncio.shield(creation)

    def _on_arrival(self, dialogue: Dialogue, identity: str) -> None:
        dialogue.on_arrival(identity)
        if self._reports is not None:
            self._reports.on_arrival()

    def _on_first_frame(self) -> None:
        metrics.first_frame(self._backstage.clock.monotonic_s() - self._accepted_at_s)
        self._log.info("first_frame")
        self._aside("note first frame", self._note_first_frame())
        stage = self._holdings.stage
        if stage is not None and stage.lost_s > 0:
            self._aside("credit", self._credit(stage.lost_s))

    async def _note_first_frame(self) -> None:
        clock = self._backstage.clock
        played_at_s = clock.monotonic_s()
        await self._claim.note_first_frame(lambda: clock.monotonic_s() - played_at_s)
        await until_available(self._bundle.pack)  # or it is brought back as one that never played

    async def _credit_while_dark(self, stage: Stage) -> None:
        while True:
            await asyncio.sleep(CREDIT_EVERY_S)
            if stage.dark_s > 0:
                await self._credit(stage.lost_s + stage.dark_s)

    async def _credit(self, lost_s: float) -> None:
        await self._claim.credit(lost_s)
        await until_available(self._bundle.pack)  # or a session that is brought back loses it

    def _aside(self, what: str, work: Coroutine[Any, Any, object]) -> None:
        self._asides.start(f"{what} {self.assignment.session_id}", work)
