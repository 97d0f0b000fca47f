"""What is known of a node's GPUs, and when is one not to be used any more? Pure.

A node tells the registry in its beats how its GPUs are: short rows, bounded in number and length.
``None`` stands for what the driver doesn't offer: a slice of a GPU has no utilisation, a consumer
card counts no memory errors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

MOST_GPUS = 16
"""So many are told; a node with more has them looked after, and untold."""
_TROUBLE_KEPT = 120
_NAME_KEPT = 40
FATAL_XIDS = {
    48: "a double-bit memory error",
    79: "it has fallen off the bus",
    95: "a memory error that couldn't be contained",
    119: "its system processor doesn't answer",
    120: "its system processor failed",
}
"""After these only a reset of the GPU helps; others may be a program's own fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU, or one slice of one, as the driver showed it last."""

    number: int
    """As nvidia-smi counts."""
    uuid: str
    name: str = ""
    used_mib: int | None = None
    total_mib: int | None = None
    busy_percent: int | None = None
    temperature_c: int | None = None
    ecc_errors: int | None = None
    """Memory errors that couldn't be corrected, since the driver started."""
    xid: int | None = None
    """The last one that the driver reported while this node watched."""
    trouble: str = ""
    """Why it can't be used; empty while it can."""
    in_use: bool = True
    """Some process computes on it, or that can't be known. Not told to the registry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """All GPUs of one node."""

    gpus: tuple[Gpu, ...] = ()
    unknown_s: int = 0
    """For so long the driver hasn't answered, and all this may be old; 0: it answers."""


def trouble_of(
    *, ecc_errors: int | None, xid: int | None, ecc_limit: int, needs_reset: bool = False
) -> str:
    """Return why a GPU that still answers isn't to be used; empty if it is.

    Args:
        ecc_errors: Uncorrectable memory errors since the driver started.
        xid: The last error number that the driver reported.
        ecc_limit: From so many errors on it is broken; 0: never.
        needs_reset: The driver says that nothing else helps.
    """
    if xid in FATAL_XIDS:
        return f"the driver reported XID {xid}: {FATAL_XIDS[xid]}"
    if needs_reset:
        return "the driver says that it needs a reset"
    if ecc_errors and 0 < ecc_limit <= ecc_errors:
        count = "1 memory error" if ecc_errors == 1 else f"{ecc_errors} memory errors"
        return f"{count} couldn't be corrected"
    return ""


def broken(facts: GpuFacts) -> str:
    """Return in a sentence which GPUs in use fail and why; empty if none does."""
    failing = [gpu for gpu in facts.gpus if gpu.trouble and gpu.in_use]
    if not failing:
        return ""
    told = "; ".join(f"GPU {gpu.number} ({gpu.uuid}): {gpu.trouble}" for gpu in failing)
    return f"{told}. Reset it (nvidia-smi --gpu-reset) or restart the machine."


def gpus_text(facts: GpuFacts) -> str:
    """Return *facts* as a beat carries them and ``n:<nid>`` keeps them."""
    rows = [
        [
            gpu.number, gpu.uuid, gpu.name[:_NAME_KEPT], gpu.used_mib, gpu.total_mib,
            gpu.busy_percent, gpu.temperature_c, gpu.ecc_errors, gpu.xid,
            gpu.trouble[:_TROUBLE_KEPT],
        ]
        for gpu in facts.gpus[:MOST_GPUS]
    ]  # fmt: skip
    told = {"gpus": rows, **({"unknown_s": facts.unknown_s} if facts.unknown_s else {})}
    return json.dumps(told, separators=(",", ":"), ensure_ascii=False)


def read_gpus(text: str) -> GpuFacts | None:
    """Decode what a node told, perhaps of another release; None for nothing or nonsense."""
    try:
        told = json.loads(text or "null")
        return GpuFacts(
            gpus=tuple(_gpu(row) for row in told["gpus"]), unknown_s=int(told.get("unknown_s", 0))
        )
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return None


def _gpu(row: list[object]) -> Gpu:
    number, uuid, name, used, total, busy, temperature, ecc, xid, trouble = row[:10]
    return Gpu(
        number=int(str(number)),
        uuid=str(uuid),
        name=str(name),
        used_mib=_count(used),
        total_mib=_count(total),
        busy_percent=_count(busy),
        temperature_c=_count(temperature),
        ecc_errors=_count(ecc),
        xid=_count(xid),
        trouble=str(trouble),
    )


def _count(value: object) -> int | None:
    return None if value is None else int(str(value))
