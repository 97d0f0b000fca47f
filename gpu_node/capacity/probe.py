"""How much memory do this process's GPUs have, and how much of it does this process use?

Called inside the process that owns the allocator, for only that one knows what it has cached. torch
and NVML are imported when they are asked, never before; without torch, CUDA or a GPU there are
simply no facts. NVML sees the whole device, also what other processes took a moment ago, so of two
figures for free memory the smaller one counts.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Sequence
from typing import Any

from gpu_node.capacity.formulas import Snapshot


def measure(role: str, devices: Sequence[int] | None = None) -> tuple[Snapshot, ...]:
    """Return one snapshot per device; none without CUDA.

    Args:
        role: What this process does: denoise, vae_encode, vae_decode, pipeline, …
        devices: Indices as torch counts them; left out: all that are visible.
    """
    cuda = _cuda()
    if cuda is None:
        return ()
    chosen = range(cuda.device_count()) if devices is None else devices
    return tuple(_snapshot(cuda, index, role) for index in chosen)


def reset_peaks(devices: Sequence[int] | None = None) -> None:
    """Forget the peaks so far, so that those of the warm-up stand out."""
    cuda = _cuda()
    if cuda is not None:
        for index in range(cuda.device_count()) if devices is None else devices:
            cuda.synchronize(index)
            cuda.reset_peak_memory_stats(index)


def _cuda() -> Any:
    """torch.cuda where there is a GPU, else None."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return None
    return torch.cuda if torch.cuda.is_available() else None


def _snapshot(cuda: Any, index: int, role: str) -> Snapshot:
    cuda.synchronize(index)
    free_bytes, total_bytes = cuda.mem_get_info(index)
    properties = cuda.get_device_properties(index)
    seen = _free_by_nvml(str(getattr(properties, "uuid", "")))
    return Snapshot(
        device_index=index,
        device_name=str(properties.name),
        process_id=os.getpid(),
        role=role,
        rank=_rank(),
        total_bytes=int(total_bytes),
        free_bytes=int(free_bytes) if seen is None else min(int(free_bytes), seen),
        allocated_bytes=int(cuda.memory_allocated(index)),
        reserved_bytes=int(cuda.memory_reserved(index)),
        peak_allocated_bytes=int(cuda.max_memory_allocated(index)),
        peak_reserved_bytes=int(cuda.max_memory_reserved(index)),
    )


def _rank() -> int:
    """Rank of this process in torch's process group, 0 without one."""
    distributed: Any = importlib.import_module("torch.distributed")
    is_member = distributed.is_available() and distributed.is_initialized()
    return int(distributed.get_rank()) if is_member else 0


def _free_by_nvml(uuid: str) -> int | None:
    """Free bytes of the device as the driver counts them; None if it can't be asked."""
    if not uuid:
        return None
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return None
    with contextlib.suppress(nvml.NVMLError):
        nvml.nvmlInit()
        try:
            name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
            handle = nvml.nvmlDeviceGetHandleByUUID(name)
            return int(nvml.nvmlDeviceGetMemoryInfo(handle).free)
        finally:
            nvml.nvmlShutdown()
    return None
