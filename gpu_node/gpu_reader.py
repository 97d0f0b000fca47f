"""How are this node's GPUs, without anybody's waiting for the driver?

A thread of its own asks every few seconds, for a driver in trouble may not answer for minutes;
everybody else reads what it saw last, and for how long that is. Where there is no driver the thread
ends at once. Trouble counts when a second look, a moment later, shows it again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from shared.clock import Clock
from shared.gpus import Gpu, GpuFacts
from shared.nvml import Nvml, NvmlSilent

_log = structlog.get_logger()

LOOK_EVERY_S = 5.0
LOOK_AGAIN_S = 1.0
UNKNOWN_AFTER_S = 15.0
"""Three looks without an answer."""
_UNKNOWN_STEP_S = 5


class GpuReader:
    """Looks at the GPUs of one node. Any thread may ask for what it saw."""

    def __init__(
        self,
        names: Sequence[str] | None,
        clock: Clock,
        *,
        ecc_limit: int = 0,
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        """Prepare to look at the GPUs *names*, as ``CUDA_VISIBLE_DEVICES`` has them; None: all."""
        self._open: Callable[[], Nvml | None] = lambda: Nvml.open(names, ecc_limit=ecc_limit)
        self._clock = clock
        self._every_s = every_s
        self._closing = threading.Event()
        self._began_s = clock.monotonic_s()
        self._lock = threading.Lock()
        """Guards what follows: the thread writes it, anybody reads."""
        self._seen: tuple[Gpu, ...] = ()
        self._seen_at_s: float | None = None
        self._is_absent = False
        self._suspected: frozenset[str] = frozenset()
        """Thread only: in trouble at the last look."""
        self._is_silent = False
        """Thread only: the driver couldn't be asked the last time."""

    def start(self) -> None:
        """Look from now on."""
        threading.Thread(target=self._run, name="gpu-reader", daemon=True).start()

    def close(self) -> None:
        """Look no more; a look that hangs isn't waited for."""
        self._closing.set()

    def facts(self) -> GpuFacts | None:
        """Return what is known; None where there is nothing to know."""
        with self._lock:
            if self._is_absent:
                return None
            since_s = self._began_s if self._seen_at_s is None else self._seen_at_s
            age_s = self._clock.monotonic_s() - since_s
            if self._seen_at_s is None and age_s < UNKNOWN_AFTER_S:
                return None
            is_old = age_s >= max(UNKNOWN_AFTER_S, 3 * self._every_s)
            unknown_s = int(age_s // _UNKNOWN_STEP_S * _UNKNOWN_STEP_S) if is_old else 0
            return GpuFacts(gpus=self._seen, unknown_s=unknown_s)

    # --- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        nvml: Nvml | None = None
        while not self._closing.is_set():
            is_suspect = False
            try:
                nvml = nvml or self._open()
                if nvml is not None:
                    is_suspect = self._look(nvml)
                elif self._is_absent_for_good():
                    return
                self._is_silent = False
            except NvmlSilent as fault:
                nvml = None
                if not self._is_silent:
                    _log.warning("gpus_unknown", why=str(fault))
                self._is_silent = True
            self._closing.wait(min(LOOK_AGAIN_S, self._every_s) if is_suspect else self._every_s)
        if nvml is not None:
            nvml.close()

    def _look(self, nvml: Nvml) -> bool:
        """Note how the GPUs are; True if one may be in trouble, which the next look decides."""
        now, before = nvml.look(), {gpu.uuid: gpu for gpu in self._seen}
        told, suspects = [], False
        for gpu in now:
            was = before.get(gpu.uuid)
            is_news = bool(gpu.trouble) and gpu.uuid not in self._suspected
            suspects = suspects or is_news
            told.append(replace(gpu, trouble=was.trouble if was else "") if is_news else gpu)
        self._suspected = frozenset(gpu.uuid for gpu in now if gpu.trouble)
        with self._lock:
            self._seen, self._seen_at_s = tuple(told), self._clock.monotonic_s()
        return suspects

    def _is_absent_for_good(self) -> bool:
        """Whether there is no driver; one that was there once only can't be asked now."""
        with self._lock:
            self._is_absent = self._seen_at_s is None
            return self._is_absent
