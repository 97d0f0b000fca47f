"""What does a service's answer about its capacity say?

``configure_session_capacity`` returns a dict with ``effective_capacity``; what else is in it is for
people: it travels to ``/v1/service/metadata`` and, when nothing fits, into the start error. So it
must be small and plain: what JSON can't hold, or what is too large, isn't passed on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import structlog

from gpu_node.services.contract import Capacity
from shared.errors import ServiceLoadFailed

_log = structlog.get_logger()

PROFILE_MAX_BYTES = 16 * 1024
_BULKY = ("snapshots", "observed_vae_cache_bytes")
"""Raw facts, left out first when a profile is too large."""
_WORDS = {
    "free_bytes": "free",
    "reusable_reserved_bytes": "reusable",
    "transient_headroom_bytes": "transient",
    "safety_margin_bytes": "margin",
    "persistent_bytes_per_session": "per session",
}


def told_capacity(name: str, answer: object) -> Capacity:
    """Return what the hook of the service *name* answered; raises `ServiceLoadFailed`."""
    sessions = answer.get("effective_capacity") if isinstance(answer, dict) else None
    if not isinstance(sessions, int) or isinstance(sessions, bool) or sessions < 0:
        raise ServiceLoadFailed(
            f"configure_session_capacity() in {name} must return a dict with a whole number "
            "effective_capacity."
        )
    return Capacity(sessions=sessions, profile=answer if isinstance(answer, dict) else None)


def plain_profile(profile: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return *profile* as JSON holds it, without its bulk if it is too large; None without one."""
    if profile is None:
        return None
    for left_out in ((), _BULKY):
        kept = {key: value for key, value in profile.items() if key not in left_out}
        try:
            text = json.dumps(kept, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            _log.warning("capacity_profile_ignored", why=str(error)[:200])
            return None
        if len(text) <= PROFILE_MAX_BYTES:
            plain: dict[str, Any] = json.loads(text)
            return plain
    _log.warning("capacity_profile_ignored", why=f"larger than {PROFILE_MAX_BYTES} bytes")
    return None


def numbers_of(profile: Mapping[str, Any] | None) -> str:
    """Return the numbers of the limiting device as ``: 3.0 GiB free, …``; empty without any."""
    devices = (profile or {}).get("devices")
    if not isinstance(devices, list | tuple) or not devices:
        return ""
    limiting = (profile or {}).get("limiting_device")
    named = [d for d in devices if isinstance(d, Mapping) and d.get("device_index") == limiting]
    device = (named or [d for d in devices if isinstance(d, Mapping)] or [{}])[0]
    parts = [
        f"{device[key] / 2**30:.2f} GiB {word}"
        for key, word in _WORDS.items()
        if isinstance(device.get(key), int | float)
    ]
    return f": device {device.get('device_index', '?')} has {', '.join(parts)}" if parts else ""
