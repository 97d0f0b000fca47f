"""What does one machine do, and what keeps it from doing more? The dashboard of one node."""

from __future__ import annotations

from scripts.dashboards.model import (
    QUERY_WINDOW,
    Dashboard,
    Panel,
    Query,
    Variable,
    quantiles,
    within,
)

_HERE = '{instance=~"$node"}'
NODE = Variable(
    name="node",
    label="Node",
    values_of="label_values(greenroom_node_slots, instance)",
    several=False,
)


def rate(metric: str, by: str = "") -> str:
    """Return the pace of one of the node's counters."""
    kept = f"sum by ({by}) " if by else "sum"
    return f"{kept}(rate({metric}{_HERE}[{QUERY_WINDOW}]))"


DASHBOARD = Dashboard(
    uid="greenroom-node",
    title="Greenroom: one node",
    text="One node: its state, its sessions, its model, its machine.",
    variables=(NODE,),
    rows={
        "Now": (
            Panel(
                title="State",
                kind="stat",
                queries=(Query(f"greenroom_node_state{_HERE} == 1", "{{state}}"),),
            ),
            Panel(
                title="Sessions",
                kind="stat",
                queries=(Query(f"sum(greenroom_node_slots_used{_HERE})"),),
            ),
            Panel(
                title="Slots", kind="stat", queries=(Query(f"sum(greenroom_node_slots{_HERE})"),)
            ),
            Panel(
                title="Clean-ups that hang",
                kind="stat",
                queries=(Query(f"sum(greenroom_node_cleanups_unconfirmed{_HERE})"),),
                warn_at=1,
            ),
            Panel(
                title="Reaches LiveKit",
                kind="stat",
                queries=(Query(f"min(greenroom_node_media_ok{_HERE})"),),
            ),
            Panel(
                title="Age",
                kind="stat",
                unit="s",
                queries=(Query(f"time() - max(process_start_time_seconds{_HERE})"),),
            ),
        ),
        "The model": (
            Panel(
                title="Time for a chunk",
                unit="s",
                text="Over the time that it plays, pictures come late.",
                queries=quantiles("greenroom_node_chunk_seconds", _HERE),
            ),
            Panel(
                title="Chunks in time",
                unit="percentunit",
                queries=(
                    Query(
                        "sum(rate(greenroom_node_slo_chunks_total"
                        f"{within(_HERE, outcome='met')}[{QUERY_WINDOW}]))"
                        f" / {rate('greenroom_node_slo_chunks_total')}",
                        "met",
                    ),
                ),
            ),
            Panel(
                title="The player waited for a chunk",
                unit="s",
                queries=quantiles("greenroom_node_chunk_wait_seconds", _HERE),
            ),
            Panel(
                title="Waiting for their turn on the model",
                queries=(Query(f"sum(greenroom_node_lease_waiting{_HERE})", "sessions"),),
            ),
            Panel(
                title="Wait for a turn",
                unit="s",
                queries=quantiles("greenroom_node_lease_wait_seconds", _HERE),
            ),
            Panel(
                title="The model has been at its chunk for",
                unit="s",
                queries=(Query(f"max(greenroom_node_lease_busy_seconds{_HERE})", "busy"),),
            ),
            Panel(
                title="Slots of the model, as it says",
                queries=(
                    Query(f"sum by (state) (greenroom_node_model_slots{_HERE})", "{{state}}"),
                ),
            ),
            Panel(
                title="Deaths of its process, faults of the service",
                queries=(
                    Query(
                        f"sum(increase(greenroom_node_worker_deaths_total{_HERE}[1h]))", "deaths"
                    ),
                    Query(
                        f"sum by (kind) (increase(greenroom_node_service_faults_total{_HERE}[1h]))",
                        "{{kind}}",
                    ),
                ),
            ),
            Panel(
                title="Time to load and warm up",
                unit="s",
                queries=(Query(f"max(greenroom_node_service_load_seconds{_HERE})", "load"),),
            ),
        ),
        "What leaves": (
            Panel(
                title="Frames per second",
                queries=(
                    Query(rate("greenroom_node_frames_total"), "all"),
                    Query(
                        "telefuser_serving_published_fps"
                        + within(_HERE, scope="per_active_session_min"),
                        "slowest session",
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
                title="Round trip to LiveKit",
                unit="s",
                queries=quantiles("greenroom_node_media_rtt_seconds", _HERE),
            ),
            Panel(
                title="Sessions end and go back here",
                queries=(
                    Query(
                        "sum by (reason) "
                        f"(increase(greenroom_node_sessions_ended_total{_HERE}[1h]))",
                        "{{reason}}",
                    ),
                    Query(
                        "sum by (why) "
                        f"(increase(greenroom_node_sessions_returned_total{_HERE}[1h]))",
                        "back: {{why}}",
                    ),
                ),
            ),
            Panel(
                title="Joins",
                queries=(Query(rate("greenroom_node_joins_total", "outcome"), "{{outcome}}"),),
            ),
            Panel(
                title="Silences",
                text="A session was silent because the node's lease didn't hold.",
                queries=(
                    Query(f"sum(increase(greenroom_node_silences_total{_HERE}[1h]))", "silences"),
                    Query(
                        f"sum(increase(greenroom_node_sessions_fenced_total{_HERE}[1h]))", "fenced"
                    ),
                ),
            ),
        ),
        "The process": (
            Panel(
                title="Beats",
                unit="reqps",
                queries=(Query(rate("greenroom_node_beats_total", "outcome"), "{{outcome}}"),),
            ),
            Panel(
                title="Time until a beat's answer",
                unit="s",
                queries=quantiles("greenroom_node_beat_seconds", _HERE),
            ),
            Panel(
                title="Event loop is late by",
                unit="s",
                queries=quantiles("greenroom_node_loop_lag_seconds", _HERE, shares=(0.5, 0.99)),
            ),
            Panel(
                title="Processor",
                unit="percentunit",
                queries=(Query(rate("process_cpu_seconds_total"), "cores"),),
            ),
            Panel(
                title="Memory",
                unit="bytes",
                queries=(Query(f"sum(process_resident_memory_bytes{_HERE})", "resident"),),
            ),
            Panel(
                title="Registry calls, and those unanswered",
                unit="reqps",
                queries=(
                    Query(rate("greenroom_node_script_seconds_count"), "calls"),
                    Query(rate("greenroom_node_redis_errors_total", "why"), "{{why}}"),
                ),
            ),
        ),
        "GPUs": (
            Panel(
                title="Memory in use",
                unit="bytes",
                queries=(
                    Query(f"greenroom_node_gpu_memory_used_bytes{_HERE}", "GPU {{gpu}}"),
                    Query(f"greenroom_node_gpu_memory_bytes{_HERE}", "GPU {{gpu}} has"),
                ),
            ),
            Panel(
                title="At work",
                unit="percentunit",
                queries=(Query(f"greenroom_node_gpu_busy_ratio{_HERE}", "GPU {{gpu}}"),),
            ),
            Panel(
                title="Temperature",
                unit="celsius",
                queries=(Query(f"greenroom_node_gpu_temperature_celsius{_HERE}", "GPU {{gpu}}"),),
            ),
            Panel(
                title="Can be used",
                text="0: the node goes out of service; its log and `greenroom nodes` say why.",
                queries=(Query(f"greenroom_node_gpu_ok{_HERE}", "GPU {{gpu}}"),),
            ),
            Panel(
                title="Memory errors that weren't corrected, last XID",
                queries=(
                    Query(f"greenroom_node_gpu_memory_errors{_HERE}", "GPU {{gpu}} errors"),
                    Query(f"greenroom_node_gpu_xid{_HERE}", "GPU {{gpu}} XID"),
                ),
            ),
            Panel(
                title="The driver hasn't answered for",
                unit="s",
                queries=(Query(f"greenroom_node_gpu_unknown_seconds{_HERE}", "silent"),),
            ),
        ),
    },
)
