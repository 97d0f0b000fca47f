"""What is told of a running session while it plays, to its room and to its service?

- To the room, once a second on ``tf.metrics``: how well it plays. Lossy, never queued.
- To the room: how soon the session's time is up, at a few marks. The registry says how much is left
  each time, since it gives back what a failure took.
- To the service, if it wants that: how many of its frames have left, and how many never will.

Nothing here may disturb the play: a hook that fails or hangs is given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from gpu_node import metrics
from gpu_node.backstage import Backstage
from gpu_node.measures import Figures
from gpu_node.playout import Playout
from gpu_node.room import LinkFacts
from gpu_node.stage import Stage
from shared.errors import ServiceFault, UnknownSession
from shared.lifecycle import Background, until_available
from shared.room_status import StatusWriter

_log = structlog.get_logger()

EVERY_S = 1.0
_HOOK_WITHIN_S = 0.5
_REPORT_EVERY_S = 0.05
"""Frames are reported together, at most so often."""
MARKS_S = (60.0, 30.0, 10.0, 5.0)
"""The page counts by itself in between."""
_NEAR_S = 0.05
_ASK_AGAIN_S = 5.0


class Reports:
    """The reports on one session."""

    def __init__(
        self,
        backstage: Backstage,
        stage: Stage,
        playout: Playout,
        *,
        status: StatusWriter,
        pipeline_session_id: str,
        controls_waiting: Callable[[], int],
    ) -> None:
        self._backstage = backstage
        self._stage = stage
        self._playout = playout
        self._status = status
        self._pipeline_session_id = pipeline_session_id
        self._controls_waiting = controls_waiting
        self._tasks = Background()
        self._asking: asyncio.Task[dict[str, Any]] | None = None
        """The service's own figures; a second question waits for the first answer."""
        self._link: LinkFacts | None = None
        self._reported = 0
        self._sequence = 0
        self._is_tracked = False
        self._ends_at_s: float | None = None
        """When the session's time is up, once that was told; monotonic."""
        self._log = _log.bind(session=status.session_id)

    def start(self) -> None:
        """Begin to report."""
        self._tasks.start("session figures", self._tell_figures())
        self._tasks.start("session countdown", self._count_down())
        self._tasks.start("frame reports", self._report_frames())

    async def aclose(self) -> None:
        """Report what is still to be reported of the frames, and no more."""
        await self._tasks.aclose()
        if self._asking is not None:
            self._asking.cancel()
        if self._is_tracked:
            last = asyncio.create_task(self._report_last(), name="last frame report")
            await asyncio.wait({last}, timeout=_HOOK_WITHIN_S)
            last.cancel()

    def on_arrival(self) -> None:
        """Somebody can be told things from now on: how much time is left is one of them."""
        if self._ends_at_s is not None:
            left_s = self._ends_at_s - self._backstage.clock.monotonic_s()
            self._stage.say(self._status.expiring(round(max(0.0, left_s), 1)))

    # --- figures --------------------------------------------------------------------------------

    async def _tell_figures(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            now_s = self._backstage.clock.monotonic_s()
            figures = self._playout.measures.take(now_s)
            figures |= await self._link_figures(figures)
            figures["controls_waiting"] = self._controls_waiting()
            figures["statuses_waiting"] = self._stage.statuses_waiting
            service = await self._service_figures()
            if service:
                figures["service"] = service
            await self._stage.tell_figures(self._status.figures(figures))

    async def _link_figures(self, figures: Figures) -> Figures:
        """What the connection has carried since the last time."""
        before, self._link = self._link, await self._stage.link()
        if self._link is None:
            return {"bitrate_bps": None, "rtt_s": None}
        if self._link.rtt_s is not None:
            metrics.media_rtt(self._link.rtt_s)
        bitrate_bps = None
        if before is not None and self._link.sent_bytes >= before.sent_bytes:
            sent_bytes = self._link.sent_bytes - before.sent_bytes
            bitrate_bps = round(8 * sent_bytes / float(str(figures["over_s"])))
        return {"bitrate_bps": bitrate_bps, "rtt_s": self._link.rtt_s}

    async def _service_figures(self) -> dict[str, Any]:
        """What the service measures of this session; nothing if it doesn't answer at once."""
        if self._asking is None:
            self._asking = asyncio.create_task(
                self._backstage.host.runtime_metrics(self._pipeline_session_id),
                name=f"service figures {self._status.session_id}",
            )
        asking = self._asking
        await asyncio.wait({asking}, timeout=_HOOK_WITHIN_S)
        if not asking.done():
            return {}
        self._asking = None
        return {} if asking.cancelled() or asking.exception() else asking.result()

    # --- the session's time ---------------------------------------------------------------------

    async def _count_down(self) -> None:
        session_id, clock = self._status.session_id, self._backstage.clock
        marks_s = list(MARKS_S)
        while marks_s:
            try:
                left_s = await until_available(lambda: self._backstage.registry.left_s(session_id))
            except UnknownSession:  # lost, and about to be brought back
                await asyncio.sleep(_ASK_AGAIN_S)
                continue
            if left_s is None:
                return
            if left_s > marks_s[0] + _NEAR_S:
                await asyncio.sleep(left_s - marks_s[0])
                continue
            self._ends_at_s = clock.monotonic_s() + left_s
            self._stage.say(self._status.expiring(round(left_s, 1)))
            marks_s = [mark_s for mark_s in marks_s if mark_s < left_s - _NEAR_S]

    # --- frames ---------------------------------------------------------------------------------

    async def _report_frames(self) -> None:
        try:
            self._is_tracked = await self._backstage.host.track_frames(self._pipeline_session_id)
            while self._is_tracked:
                await asyncio.sleep(_REPORT_EVERY_S)
                await self._report("published", self._playout.frames_played - self._reported)
                self._reported = self._playout.frames_played
        except ServiceFault as error:
            self._is_tracked = False
            self._log.warning("frame_report_failed", error=str(error))

    async def _report_last(self) -> None:
        try:
            await self._report("published", self._playout.frames_played - self._reported)
            await self._report(
                "abandoned", self._playout.frames_taken - self._playout.frames_played
            )
        except ServiceFault as error:
            self._log.debug("frame_report_failed", error=str(error))

    async def _report(self, event: str, frames: int) -> None:
        if frames <= 0:
            return
        self._sequence += 1
        await self._backstage.host.report_frames(
            self._pipeline_session_id,
            event,
            frames,
            self._sequence,
            self._backstage.clock.monotonic_s(),
        )
