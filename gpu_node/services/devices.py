"""What has a loaded service put where, once the rubbish of its loading is gone?

Loading leaves behind what nobody needs: unpacked checkpoints, caches of the allocator. `settle`
runs in the process that loaded the service and uses torch only if the service has brought it along.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

import structlog

from shared.errors import ServiceFault
from shared.lifecycle import call_foreign, describe

_log = structlog.get_logger()


def settle() -> list[dict[str, Any]]:
    """Clean up, log what lies on which GPU and return it; blocks.

    What is there now stays as long as the service does: Python's collector, which is called after
    sessions, needn't look through a whole model library each time.
    """
    gc.unfreeze()  # a service that was there before this one may go
    gc.collect()
    gc.freeze()
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    try:
        devices = call_foreign(lambda: _settle_cuda(torch), lambda e: ServiceFault(describe(e)))
    except ServiceFault as error:  # a driver in trouble shows itself at the first frame
        _log.warning("devices_unknown", why=str(error))
        return []
    for device in devices:
        _log.info("device_map", **device)
    return devices


def _settle_cuda(torch: Any) -> list[dict[str, Any]]:
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return []
    torch.cuda.empty_cache()
    return [_device(torch, index) for index in range(torch.cuda.device_count())]


def _device(torch: Any, index: int) -> dict[str, Any]:
    free_bytes, total_bytes = torch.cuda.mem_get_info(index)
    return {
        "device_index": index,
        "device_name": torch.cuda.get_device_name(index),
        "allocated_bytes": torch.cuda.memory_allocated(index),
        "reserved_bytes": torch.cuda.memory_reserved(index),
        "free_bytes": free_bytes,
        "total_bytes": total_bytes,
    }
