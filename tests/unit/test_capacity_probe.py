"""The memory probe asks the process's own allocator, and copes with whatever is missing.

There is no GPU here, so torch is played by a module with its names; the device level asks a real
one where there is one.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gpu_node.capacity import measure, reset_peaks
from gpu_node.capacity.formulas import GIB


class PlayedCuda:
    """Two cards; notes what was reset."""

    def __init__(self) -> None:
        self.reset: list[int] = []
        self.synchronized: list[int] = []

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 2

    def synchronize(self, index: int) -> None:
        self.synchronized.append(index)

    def reset_peak_memory_stats(self, index: int) -> None:
        self.reset.append(index)

    def mem_get_info(self, index: int) -> tuple[int, int]:
        return (50 + index) * GIB, 80 * GIB

    def get_device_properties(self, index: int) -> SimpleNamespace:
        return SimpleNamespace(name=f"card {index}", uuid=f"uuid-{index}")

    def memory_allocated(self, index: int) -> int:
        return 10

    def memory_reserved(self, index: int) -> int:
        return 14

    def max_memory_allocated(self, index: int) -> int:
        return 18

    def max_memory_reserved(self, index: int) -> int:
        return 20


def module(name: str, **names: Any) -> ModuleType:
    """A module with these names in it."""
    made = ModuleType(name)
    vars(made).update(names)
    return made


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> PlayedCuda:
    """A torch that sees two cards, and no NVML."""
    played = PlayedCuda()
    monkeypatch.setitem(sys.modules, "torch", module("torch", cuda=played))
    distributed = module("torch.distributed", is_available=lambda: False)
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    return played


def test_each_visible_card_is_asked(cuda: PlayedCuda) -> None:
    """After its work is done, in this process."""
    first, second = measure("denoise")
    assert (first.device_index, second.device_index) == (0, 1)
    assert (first.device_name, first.role, first.rank) == ("card 0", "denoise", 0)
    assert (first.free_bytes, first.total_bytes) == (50 * GIB, 80 * GIB)
    assert (first.cached_bytes, first.transient_bytes) == (4, 8)
    assert first.process_id == os.getpid()
    assert cuda.synchronized == [0, 1]
    assert [one.device_index for one in measure("vae_decode", [1])] == [1]


def test_the_peaks_are_forgotten_before_the_warm_up(cuda: PlayedCuda) -> None:
    """On all cards or on those named."""
    reset_peaks()
    reset_peaks([1])
    assert cuda.reset == [0, 1, 1]


def test_the_rank_comes_from_the_process_group(
    cuda: PlayedCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is one."""
    group = module(
        "torch.distributed",
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_rank=lambda: 3,
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", group)
    assert measure("denoise", [0])[0].rank == 3


class NVMLError(Exception):
    """Of the played NVML."""


@pytest.mark.parametrize(("driver_gib", "free_gib"), [(40, 40), (60, 50), (None, 50)])
def test_the_smaller_figure_for_free_memory_counts(
    cuda: PlayedCuda, monkeypatch: pytest.MonkeyPatch, driver_gib: int | None, free_gib: int
) -> None:
    """The driver sees what other processes have taken; one that can't be asked is left out."""
    shut: list[bool] = []

    def handle(name: str) -> str:
        assert name == "GPU-uuid-0"
        if driver_gib is None:
            raise NVMLError("not supported")
        return name

    nvml = module(
        "pynvml",
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: shut.append(True),
        nvmlDeviceGetHandleByUUID=handle,
        nvmlDeviceGetMemoryInfo=lambda _: SimpleNamespace(free=(driver_gib or 0) * GIB),
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert measure("denoise", [0])[0].free_bytes == free_gib * GIB
    assert shut == [True]


@pytest.mark.parametrize("torch", [None, "blind"])
def test_without_torch_or_a_gpu_there_are_no_facts(
    monkeypatch: pytest.MonkeyPatch, torch: str | None
) -> None:
    """And nothing to reset."""
    blind = module("torch", cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", blind if torch else None)
    assert measure("denoise") == ()
    reset_peaks()
