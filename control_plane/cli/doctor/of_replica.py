"""Does a replica answer, and what does it say of the deployment?"""

from __future__ import annotations

import httpx

from control_plane.cli.doctor.findings import Finding, fine, wrong

AREA = "replica"
_ANSWERS_WITHIN_S = 5.0


async def look_at_replica(url: str) -> list[Finding]:
    """Ask the replica, or the balancer in front of several, for its health."""
    base = url.rstrip("/")
    address = f"{base}/v1/service/health"
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=_ANSWERS_WITHIN_S) as client:
            answer = await client.get(address)
            health = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL) as fault:
        why = str(fault) or type(fault).__name__
        return [wrong(AREA, f"No replica answers at {base} ({why}).", f"curl -i {address}")]
    except ValueError:
        health = None
    if not isinstance(health, dict) or "status" not in health:
        return [
            wrong(
                AREA,
                f"What answers at {base} isn't a replica of Greenroom (status "
                f"{answer.status_code}).",
                f"curl -i {address}; the address of `greenroom api` or of its load balancer",
            )
        ]
    if health["status"] == "unhealthy" or not health.get("ready", True):
        return [
            wrong(
                AREA,
                f"The replica at {base} is {health['status']} and not ready: Redis or LiveKit is "
                "out for it, or no node is usable.",
                f"curl -s {address}; greenroom nodes",
            )
        ]
    if health["status"] != "healthy":
        return [
            wrong(AREA, f"The deployment behind {base} is {health['status']}.", "greenroom nodes")
        ]
    return [fine(AREA, f"{base} is healthy")]
