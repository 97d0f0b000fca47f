"""Do Redis and the replicas keep up, and do they tell the truth? Their dashboard."""

from __future__ import annotations

from scripts.dashboards.fleet import POOL, known
from scripts.dashboards.model import QUERY_WINDOW, Dashboard, Panel, Query, quantiles

_REPLICAS = '{job="greenroom-replica"}'
_W = QUERY_WINDOW

DASHBOARD = Dashboard(
    uid="greenroom-registry",
    title="Greenroom: registry and replicas",
    text="Redis, the replicas that ask it, and whether ledger, nodes and rooms agree.",
    variables=(POOL,),
    rows={
        "Now": (
            Panel(
                title="Replicas that answer",
                kind="stat",
                queries=(Query(f"sum(up{_REPLICAS})"),),
            ),
            Panel(title="Redis answers", kind="stat", queries=(Query("max(greenroom_redis_up)"),)),
            Panel(
                title="LiveKit answers", kind="stat", queries=(Query("max(greenroom_livekit_up)"),)
            ),
            Panel(
                title="Event streams",
                kind="stat",
                queries=(Query("sum(greenroom_event_streams)"),),
            ),
            Panel(
                title="Differences",
                kind="stat",
                text="Lasting ones between ledger, nodes and rooms: `greenroom audit` names them.",
                queries=(Query(f"sum({known('greenroom_truth_differences', by='pool, part')})"),),
                warn_at=1,
            ),
            Panel(
                title="Silence of a node, at most",
                kind="stat",
                unit="s",
                queries=(Query(f"max({known('greenroom_node_silence_seconds', by='node')})"),),
                warn_at=6,
            ),
        ),
        "Redis": (
            Panel(
                title="Script time, p95",
                unit="s",
                text="Round trip as replicas see it.",
                queries=quantiles("greenroom_script_seconds", "", shares=(0.95,), by="script"),
            ),
            Panel(
                title="Script time on nodes, p95",
                unit="s",
                queries=quantiles("greenroom_node_script_seconds", "", shares=(0.95,), by="script"),
            ),
            Panel(
                title="Calls per second by script",
                unit="reqps",
                stacked=True,
                queries=(
                    Query(
                        f"sum by (script) (rate(greenroom_script_seconds_count[{_W}]))",
                        "{{script}}",
                    ),
                ),
            ),
            Panel(
                title="Calls that weren't answered",
                unit="reqps",
                queries=(
                    Query(
                        f"sum by (why) (rate(greenroom_redis_errors_total[{_W}]))",
                        "replicas: {{why}}",
                    ),
                    Query(
                        f"sum by (why) (rate(greenroom_node_redis_errors_total[{_W}]))",
                        "nodes: {{why}}",
                    ),
                ),
            ),
            Panel(
                title="Beats per second",
                unit="reqps",
                queries=(
                    Query(
                        f"sum by (outcome) (rate(greenroom_node_beats_total[{_W}]))", "{{outcome}}"
                    ),
                ),
            ),
            Panel(
                title="Silence of nodes",
                unit="s",
                queries=(Query(known("greenroom_node_silence_seconds", by="node"), "{{node}}"),),
            ),
        ),
        "Replicas": (
            Panel(
                title="Event loop is late by, p99",
                unit="s",
                queries=quantiles("greenroom_loop_lag_seconds", "", shares=(0.99,), by="instance"),
            ),
            Panel(
                title="Processor",
                unit="percentunit",
                queries=(
                    Query(f"rate(process_cpu_seconds_total{_REPLICAS}[{_W}])", "{{instance}}"),
                ),
            ),
            Panel(
                title="Memory",
                unit="bytes",
                queries=(Query(f"process_resident_memory_bytes{_REPLICAS}", "{{instance}}"),),
            ),
            Panel(
                title="Create calls by replica",
                unit="reqps",
                queries=(
                    Query(
                        f"sum by (instance) (rate(greenroom_admissions_total[{_W}]))",
                        "{{instance}}",
                    ),
                ),
            ),
            Panel(
                title="Event streams",
                queries=(Query("greenroom_event_streams", "{{instance}}"),),
            ),
            Panel(
                title="Time for this page's numbers",
                unit="s",
                queries=(Query(f"scrape_duration_seconds{_REPLICAS}", "{{instance}}"),),
            ),
        ),
        "Rooms and truth": (
            Panel(
                title="Chores in rooms",
                unit="reqps",
                queries=(
                    Query(
                        f"sum by (chore, outcome) (rate(greenroom_room_chores_total[{_W}]))",
                        "{{chore}} {{outcome}}",
                    ),
                ),
            ),
            Panel(
                title="Events from LiveKit",
                unit="reqps",
                queries=(
                    Query(
                        f"sum by (outcome) (rate(greenroom_webhooks_total[{_W}]))", "{{outcome}}"
                    ),
                ),
            ),
            Panel(
                title="Comparisons of ledger, nodes and rooms",
                unit="reqps",
                queries=(
                    Query(
                        f"sum by (outcome) (rate(greenroom_truth_checks_total[{_W}]))",
                        "{{outcome}}",
                    ),
                ),
            ),
        ),
    },
)
