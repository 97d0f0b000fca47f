"""Are there GPUs, are they well, and would torch see them?"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from control_plane.cli.doctor.findings import Finding, fine, note, wrong
from control_plane.cli.gpu_words import gpu_words
from control_plane.cli.settings import chosen_gpus
from shared.gpus import Gpu, GpuFacts
from shared.lifecycle import in_thread
from shared.nvml import Nvml, NvmlSilent

AREA = "gpu"
_DRIVER_WITHIN_S = 10.0
_TORCH_WITHIN_S = 60.0
_DEVICES = "nvidia[0-9]*"
_ASK_TORCH = (
    "import json, torch; print(json.dumps({'version': torch.__version__, "
    "'cuda': torch.version.cuda, 'sees': torch.cuda.device_count()}))"
)


async def look_at_gpus(devices: Path = Path("/dev")) -> list[Finding]:
    """Look at the driver, at each GPU that may be used, and at torch."""
    try:
        async with asyncio.timeout(_DRIVER_WITHIN_S):
            seen = await in_thread("doctor-gpus", _ask_driver)
    except TimeoutError:
        return [
            wrong(
                AREA,
                f"The GPU driver doesn't answer within {_DRIVER_WITHIN_S:.0f} s.",
                "timeout 20 nvidia-smi, dmesg | grep -i xid, then restart the machine",
            )
        ]
    except NvmlSilent as fault:
        return [wrong(AREA, f"The GPU driver can't be asked ({fault}).", "nvidia-smi")]
    if seen is None:
        return [_without_driver(devices)]
    driver, gpus = seen
    found = _of_each(gpus)
    if not gpus:
        return found or [note(AREA, f"driver {driver} lists no GPU that may be used here")]
    found += await _of_torch(len(gpus))
    if not any(one.try_ for one in found):
        found.insert(0, fine(AREA, f"{gpu_words(GpuFacts(gpus=gpus))}, driver {driver}"))
    return found


def _of_each(gpus: tuple[Gpu, ...]) -> list[Finding]:
    found = [
        wrong(
            AREA,
            f"GPU {gpu.number} ({gpu.uuid}): {gpu.trouble}.",
            f"nvidia-smi -q -i {gpu.number}, then nvidia-smi --gpu-reset -i {gpu.number}",
        )
        for gpu in gpus
        if gpu.trouble
    ]
    chosen = chosen_gpus()
    if chosen and len(gpus) < len(chosen):
        found.append(
            wrong(
                AREA,
                f"CUDA_VISIBLE_DEVICES names {chosen[len(gpus)]}, which the driver doesn't know; "
                "CUDA leaves it and all after it out.",
                "nvidia-smi -L",
            )
        )
    return found


def _ask_driver() -> tuple[str, tuple[Gpu, ...]] | None:
    nvml = Nvml.open(chosen_gpus(), ecc_limit=1)
    if nvml is None:
        return None
    try:
        return nvml.driver, nvml.look()
    finally:
        nvml.close()


def _without_driver(devices: Path) -> Finding:
    there = sorted(path.name for path in devices.glob(_DEVICES))
    if there:
        return wrong(
            AREA,
            f"/dev/{there[0]} is there and the driver's library libnvidia-ml.so.1 isn't, or the "
            "driver isn't loaded.",
            "nvidia-smi; in a container the NVIDIA runtime with the utility capability",
        )
    return note(AREA, "no NVIDIA driver: services that need a GPU can't run here")


async def _of_torch(gpus: int) -> list[Finding]:
    if importlib.util.find_spec("torch") is None:
        return [note("torch", "torch isn't installed", "pip install 'greenroom[gpu]'")]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", _ASK_TORCH),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    told: dict[str, Any] = {}
    try:
        async with asyncio.timeout(_TORCH_WITHIN_S):
            answer, _ = await process.communicate()
        told = json.loads(answer.splitlines()[-1])
    except (TimeoutError, IndexError, ValueError):
        process.kill()
    if not told:
        return [wrong("torch", "torch can't be loaded.", f"{sys.executable} -c 'import torch'")]
    if not told.get("cuda"):
        return [
            wrong(
                "torch",
                f"torch {told['version']} is a build without CUDA.",
                "pip install torch from PyPI",
            )
        ]
    if told["sees"] < gpus:
        return [
            wrong(
                "torch",
                f"torch {told['version']} (CUDA {told['cuda']}) sees {told['sees']} of {gpus} "
                "GPUs: the driver is too old for it, or a GPU doesn't start.",
                "compare the CUDA version of nvidia-smi with torch's",
            )
        ]
    return [fine("torch", f"{told['version']}, CUDA {told['cuda']}, sees {told['sees']}")]
