"""What does a pipeline tell about itself?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gpu_node.orchestrator.core import Core
from gpu_node.orchestrator.session import PipelineSession


def report_of(core: Core, now_s: float) -> dict[str, Any]:
    """Return what all sessions together did and what each stage waited for."""
    return {
        **core.totals.report(),
        "sessions": len(core.sessions),
        "artifacts_held": sum(one.held for one in core.sessions.values()),
        "stages": {
            step.stage.id: {
                "ready": len(line.ready),
                "in_flight": line.in_flight,
                **asdict(line.counts),
                "idle_seconds": line.idle.report(now_s),
                "idle_intervals": dict(line.idle.intervals),
            }
            for step, line in zip(core.plan.steps, core.turns.lines, strict=True)
        },
        "diagnostics": asdict(core.diagnostics),
    }


def report_of_session(session: PipelineSession) -> dict[str, Any]:
    """Return how quick one session's outputs are, its real-time factor among them."""
    return {
        **session.times.report(),
        "phase": session.phase.value,
        "in_flight": len(session.in_flight),
        "artifacts_held": session.held,
    }
