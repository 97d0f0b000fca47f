"""How quick is a pipeline, and what do its stages wait for?

Everything here has a fixed size: a summary keeps a few numbers and the newest values for its
percentiles, an idle account keeps a number per cause, and causes come from the graph. No figure
costs more to keep the longer a session lives or the more sessions there are.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

_KEPT = 256
CONTINUOUS_S = 0.001
"""A stage that is idle no longer than this counts as running on."""


class Summary:
    """Count, extremes and mean of all values; percentiles of the newest."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0.0
        self._min = self._max = 0.0
        self._newest: deque[float] = deque(maxlen=_KEPT)

    def add(self, value: float) -> None:
        """Take one more value in."""
        self._min = min(self._min, value) if self.count else value
        self._max = max(self._max, value) if self.count else value
        self.count += 1
        self._sum += value
        self._newest.append(value)

    def percentile(self, share: float) -> float:
        """Return the value that *share* of the newest ones don't exceed; 0 without any."""
        if not self._newest:
            return 0.0
        ordered = sorted(self._newest)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def report(self) -> dict[str, float]:
        """Return the figures by their usual names."""
        return {
            "count": self.count,
            "min": self._min,
            "p50": self.percentile(0.5),
            "p95": self.percentile(0.95),
            "max": self._max,
            "mean": self._sum / self.count if self.count else 0.0,
        }


class BusyClock:
    """How long at least one of several things was going on."""

    def __init__(self) -> None:
        self._going_on = 0
        self._since_s = 0.0
        self._total_s = 0.0

    def begin(self, now_s: float) -> None:
        """One more is going on."""
        if self._going_on == 0:
            self._since_s = now_s
        self._going_on += 1

    def end(self, now_s: float) -> None:
        """One less is going on."""
        self._going_on -= 1
        if self._going_on == 0:
            self._total_s += now_s - self._since_s

    def total_s(self, now_s: float) -> float:
        """Return the time so far."""
        return self._total_s + (now_s - self._since_s if self._going_on else 0.0)


class IdleAccount:
    """For how long one stage had nothing in flight, by what it waited for."""

    def __init__(self, now_s: float) -> None:
        self.total_s: defaultdict[str, float] = defaultdict(float)
        self.intervals: Counter[str] = Counter()
        """Idle intervals that ended, by the cause that took most of each."""
        self._this: defaultdict[str, float] = defaultdict(float)
        self._cause: str | None = "no_session"
        self._since_s = now_s

    def becomes(self, cause: str | None, now_s: float) -> None:
        """From now on the stage waits for *cause*; None: it runs."""
        if cause == self._cause:
            return
        if self._cause is not None:
            self._this[self._cause] += now_s - self._since_s
        if cause is None:
            self._settle()
        self._cause, self._since_s = cause, now_s

    def report(self, now_s: float) -> dict[str, float]:
        """Return the seconds by cause, the interval that goes on included."""
        seconds = self.total_s.copy()
        for cause, so_far_s in self._this.items():
            seconds[cause] += so_far_s
        if self._cause is not None:
            seconds[self._cause] += now_s - self._since_s
        return dict(seconds)

    def _settle(self) -> None:
        if sum(self._this.values()) > CONTINUOUS_S:
            for cause, seconds in self._this.items():
                self.total_s[cause] += seconds
            self.intervals[max(self._this, key=self._this.__getitem__)] += 1
        self._this = defaultdict(float)


@dataclass(slots=True)
class StageCounts:
    """What one stage did."""

    begun: int = 0
    completed: int = 0
    failed: int = 0
    refused: int = 0
    """Times that its actor's mailbox was full."""


@dataclass(slots=True)
class Diagnostics:
    """Things that must stay rare."""

    stale_epoch: int = 0
    """Results of a session that has been opened anew since."""
    orphaned: int = 0
    """Results of a session that is gone."""
    duplicate: int = 0
    """Second results, or results of work that was given up."""
    discarded: int = 0
    """Results of a session that failed or was cancelled meanwhile."""
    cleanup_failures: int = 0
    slot_leaks: int = 0
    """Sessions that still held something when they were closed."""


@dataclass(slots=True)
class Totals:
    """How quick the outputs of all sessions together are."""

    outputs: int = 0
    first_output: Summary = field(default_factory=Summary)
    control_to_output: Summary = field(default_factory=Summary)
    chunk_work: Summary = field(default_factory=Summary)

    def report(self) -> dict[str, object]:
        """Return the figures of the pipeline."""
        return {
            "outputs": self.outputs,
            "first_output_seconds": self.first_output.report(),
            "control_to_output_seconds": self.control_to_output.report(),
            "chunk_work_seconds": self.chunk_work.report(),
        }


@dataclass(slots=True)
class SessionTimes:
    """How quick one session's outputs are."""

    opened_s: float
    chunk_media_s: float
    """How long one output plays; 0 if nobody said so."""
    totals: Totals = field(default_factory=Totals)
    first_output_s: float | None = None
    control_to_output: Summary = field(default_factory=Summary)
    chunk_period: Summary = field(default_factory=Summary)
    """Between two finished outputs, whatever happened meanwhile."""
    chunk_work: Summary = field(default_factory=Summary)
    """The same without the time in which nobody wanted more: all that could be done was done."""
    busy: BusyClock = field(default_factory=BusyClock)
    _last_s: float | None = None
    _last_busy_s: float = 0.0

    def on_output(self, now_s: float, anchor_s: float | None) -> None:
        """One output is finished; *anchor_s*: when its control came."""
        busy_s = self.busy.total_s(now_s)
        self.totals.outputs += 1
        if self.first_output_s is None:
            self.first_output_s = now_s - self.opened_s
            self.totals.first_output.add(self.first_output_s)
        if self._last_s is not None:
            self.chunk_period.add(now_s - self._last_s)
            self.chunk_work.add(busy_s - self._last_busy_s)
            self.totals.chunk_work.add(busy_s - self._last_busy_s)
        if anchor_s is not None:
            self.control_to_output.add(now_s - anchor_s)
            self.totals.control_to_output.add(now_s - anchor_s)
        self._last_s, self._last_busy_s = now_s, busy_s

    def real_time_factor(self) -> float | None:
        """Return p95 of a chunk's work by its length; below 1 the pipeline keeps up."""
        if self.chunk_media_s <= 0 or not self.chunk_work.count:
            return None
        return self.chunk_work.percentile(0.95) / self.chunk_media_s

    def report(self) -> dict[str, object]:
        """Return the figures of the session."""
        return {
            "first_output_seconds": self.first_output_s,
            "control_to_output_seconds": self.control_to_output.report(),
            "chunk_period_seconds": self.chunk_period.report(),
            "chunk_work_seconds": self.chunk_work.report(),
            "real_time_factor": self.real_time_factor(),
        }
