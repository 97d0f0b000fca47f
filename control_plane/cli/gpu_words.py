"""How do a node's GPUs look in a list, to people and to programs? Pure."""

from __future__ import annotations

from dataclasses import asdict

from shared.gpus import Gpu, GpuFacts

_MIB_PER_GIB = 1024


def gpu_words(facts: GpuFacts | None) -> str:
    """Return memory, use and heat in a few words: of several GPUs the sum, mean and highest."""
    if facts is None or not facts.gpus:
        return ""
    gpus = facts.gpus
    parts = [f"{len(gpus)}×"] if len(gpus) > 1 else []
    if total := _known(gpus, "total_mib"):
        used = sum(_known(gpus, "used_mib"))
        parts.append(f"{used / _MIB_PER_GIB:.0f}/{sum(total) / _MIB_PER_GIB:.0f} GiB")
    if busy := _known(gpus, "busy_percent"):
        parts.append(f"{sum(busy) / len(busy):.0f}%")
    if heat := _known(gpus, "temperature_c"):
        parts.append(f"{max(heat)}°C")
    return " ".join(parts)


def gpus_json(facts: GpuFacts | None) -> dict[str, object]:
    """Return the GPUs as programs get them."""
    gpus = () if facts is None else facts.gpus
    told = [asdict(gpu) for gpu in gpus]
    for gpu in told:
        del gpu["in_use"]
    return {"gpus": told, "gpus_unknown_for_s": 0 if facts is None else facts.unknown_s}


def _known(gpus: tuple[Gpu, ...], name: str) -> list[int]:
    return [value for gpu in gpus if (value := getattr(gpu, name)) is not None]
