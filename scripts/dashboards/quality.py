"""How well do sessions play? The dashboard of session quality."""

from __future__ import annotations

from scripts.dashboards.fleet import POOL, durations
from scripts.dashboards.model import (
    QUERY_WINDOW,
    Dashboard,
    Panel,
    Query,
    Variable,
    quantiles,
    within,
)

_HERE = '{instance=~"$nodes"}'
_NODES = Variable(
    name="nodes", label="Nodes", values_of="label_values(greenroom_node_slots, instance)"
)


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{_HERE}[{QUERY_WINDOW}]))"


def _fps(scope: str) -> str:
    where = within(_HERE, scope=f"per_active_session_{scope}")
    return f"telefuser_serving_published_fps{where}"


DASHBOARD = Dashboard(
    uid="greenroom-quality",
    title="Greenroom: session quality",
    text="What players see: starts, frame rates, lateness, reactions, and losses.",
    variables=(POOL, _NODES),
    rows={
        "Pictures": (
            Panel(
                title="Frames per second of a session",
                queries=(
                    Query(f"avg({_fps('mean')})", "mean"),
                    Query(f"min({_fps('min')})", "slowest"),
                ),
            ),
            Panel(
                title="Chunks made in the time they play",
                unit="percentunit",
                text="Below 1 the model is too slow for the frame rate that it promises.",
                queries=(
                    Query(
                        "sum by (instance) (rate(greenroom_node_slo_chunks_total"
                        f"{within(_HERE, outcome='met')}[{QUERY_WINDOW}]))"
                        f" / {_rate('greenroom_node_slo_chunks_total', 'instance')}",
                        "{{instance}}",
                    ),
                ),
            ),
            Panel(
                title="Frames are late by",
                unit="s",
                queries=quantiles(
                    "greenroom_node_frame_lateness_seconds", _HERE, shares=(0.5, 0.95, 0.99)
                ),
            ),
            Panel(
                title="Time for a chunk",
                unit="s",
                queries=quantiles("greenroom_node_chunk_seconds", _HERE, shares=(0.5, 0.95, 0.99)),
            ),
            Panel(
                title="The player waited for a chunk",
                unit="s",
                queries=quantiles("greenroom_node_chunk_wait_seconds", _HERE),
            ),
            Panel(
                title="Time that a chunk plays",
                unit="s",
                queries=quantiles("greenroom_node_slo_budget_seconds", _HERE),
            ),
        ),
        "Answers": (
            Panel(
                title="From a control to its picture",
                unit="s",
                text="The first picture of a chunk that was begun after the control came.",
                queries=quantiles("greenroom_node_action_to_first_frame_seconds", _HERE),
            ),
            Panel(
                title="Wait for a turn on a shared model",
                unit="s",
                queries=quantiles("greenroom_node_lease_wait_seconds", _HERE),
            ),
            Panel(
                title="Controls by outcome",
                unit="reqps",
                queries=(Query(_rate("greenroom_node_controls_total", "outcome"), "{{outcome}}"),),
            ),
            Panel(
                title="Round trip to LiveKit",
                unit="s",
                queries=quantiles("greenroom_node_media_rtt_seconds", _HERE),
            ),
        ),
        "Starts and losses": (
            Panel(
                title="From a slot to the first frame",
                unit="s",
                queries=durations("greenroom_first_frame_seconds"),
            ),
            Panel(
                title="On the node: from accepting to the first frame",
                unit="s",
                queries=quantiles("greenroom_node_first_frame_seconds", _HERE),
            ),
            Panel(
                title="Kill to first frame",
                unit="s",
                queries=durations("greenroom_kill_to_first_frame_seconds"),
            ),
            Panel(
                title="Recovery, whatever the cause",
                unit="s",
                queries=durations("greenroom_recovery_seconds"),
            ),
            Panel(
                title="Silences and fences",
                queries=(
                    Query(_rate("greenroom_node_silences_total", "instance"), "{{instance}}"),
                    Query(
                        _rate("greenroom_node_sessions_fenced_total", "instance"),
                        "{{instance}} fenced",
                    ),
                ),
            ),
            Panel(
                title="Faults of services",
                queries=(Query(_rate("greenroom_node_service_faults_total", "kind"), "{{kind}}"),),
            ),
        ),
    },
)
