"""Why does somebody wait, and who is on stage? The dashboard of fleet and line."""

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
from shared.states import ENDED_AS, Reason, SessionState

POOL = Variable(name="pool", label="Pool", values_of="label_values(greenroom_queue_depth, pool)")
_IN = '{pool=~"$pool"}'
_STAGE = '{pool=~"$pool", state=~"assigned|joining_room|starting_pipeline|running"}'
_FAILURES = "|".join(reason for reason in Reason if ENDED_AS[reason] is SessionState.FAILED)
_FAILED = f'{_IN[:-1]}, reason=~"{_FAILURES}"}}'


def known(metric: str, where: str = _IN, by: str = "pool") -> str:
    """Return what the registry knows: the same on each replica, so the highest counts."""
    return f"max by ({by}) ({metric}{where})"


def known_rate(metric: str, by: str, where: str = _IN) -> str:
    """Return the pace of one of the registry's totals."""
    return f"max by ({by}) (rate({metric}{where}[{QUERY_WINDOW}]))"


def durations(metric: str) -> tuple[Query, ...]:
    """Return median and 95th percentile of durations that the registry counts."""
    return quantiles(metric, _IN, same_everywhere=True)


DASHBOARD = Dashboard(
    uid="greenroom-fleet",
    title="Greenroom: fleet and line",
    text="Who waits, who plays, where slots are, and how long people saw nothing.",
    variables=(POOL,),
    rows={
        "Now": (
            Panel(
                title="Waiting",
                kind="stat",
                queries=(Query(f"sum({known('greenroom_queue_depth')})"),),
            ),
            Panel(
                title="Longest wait",
                kind="stat",
                unit="s",
                queries=(Query(f"max({known('greenroom_queue_oldest_wait_seconds')})"),),
                warn_at=600,
            ),
            Panel(
                title="On stage",
                kind="stat",
                queries=(Query(f"sum({known('greenroom_sessions', _STAGE, 'pool, state')})"),),
            ),
            Panel(
                title="Slots in use",
                kind="stat",
                unit="percentunit",
                queries=(
                    Query(
                        f"sum({known('greenroom_slots', within(_IN, kind='used'))})"
                        f" / sum({known('greenroom_slots', within(_IN, kind='total'))})"
                    ),
                ),
            ),
            Panel(
                title="Nodes that serve",
                kind="stat",
                queries=(
                    Query(
                        "sum("
                        + known(
                            "greenroom_nodes", _IN[:-1] + ', state=~"idle|busy"}', "pool, state"
                        )
                        + ")"
                    ),
                ),
            ),
            Panel(
                title="Failures in the last hour",
                kind="stat",
                text="Sessions that ended by a fault. `greenroom explain SESSION` tells why.",
                queries=(
                    Query(
                        "sum(max by (pool, reason) (increase(greenroom_sessions_ended_total"
                        f"{_FAILED}[1h])))"
                    ),
                ),
                warn_at=1,
            ),
        ),
        "The line": (
            Panel(
                title="Waiting",
                queries=(Query(known("greenroom_queue_depth"), "{{pool}}"),),
            ),
            Panel(
                title="The head of the line has waited",
                unit="s",
                queries=(Query(known("greenroom_queue_oldest_wait_seconds"), "{{pool}}"),),
            ),
            Panel(
                title="Create calls by outcome",
                unit="reqps",
                text="What replicas answered: assigned, queued, replayed, or why not.",
                stacked=True,
                queries=(
                    Query(
                        f"sum by (outcome) (rate(greenroom_admissions_total{_IN}[{QUERY_WINDOW}]))",
                        "{{outcome}}",
                    ),
                ),
            ),
            Panel(
                title="Wait until the first slot",
                unit="s",
                queries=durations("greenroom_queue_wait_seconds"),
            ),
            Panel(
                title="What people were told came true",
                unit="percentunit",
                text="Share of admissions within the range that the client was told.",
                queries=(
                    Query(
                        "sum(max by (pool) (rate(greenroom_estimates_total"
                        f"{within(_IN, outcome='within')}[{QUERY_WINDOW}])))"
                        " / sum(max by (pool, outcome) "
                        f"(rate(greenroom_estimates_total{_IN}[{QUERY_WINDOW}])))",
                        "within",
                    ),
                ),
            ),
            Panel(
                title="Estimates were off by",
                unit="s",
                queries=quantiles(
                    "greenroom_estimate_error_seconds", _IN, by="side", same_everywhere=True
                ),
            ),
        ),
        "The fleet": (
            Panel(
                title="Sessions by state",
                stacked=True,
                queries=(Query(known("greenroom_sessions", by="state"), "{{state}}"),),
            ),
            Panel(
                title="Slots",
                text="Quarantined: over for people, but the node hasn't confirmed its clean-up.",
                queries=(Query(known("greenroom_slots", by="pool, kind"), "{{pool}} {{kind}}"),),
            ),
            Panel(
                title="Nodes by state",
                stacked=True,
                queries=(
                    Query(known("greenroom_nodes", by="pool, state"), "{{pool}} {{state}}"),
                    Query(known("greenroom_nodes_suspect"), "{{pool}} suspect"),
                ),
            ),
            Panel(
                title="Sessions end, by reason",
                unit="reqps",
                stacked=True,
                queries=(
                    Query(known_rate("greenroom_sessions_ended_total", "reason"), "{{reason}}"),
                ),
            ),
            Panel(
                title="Sessions go back to the line, by cause",
                unit="reqps",
                stacked=True,
                queries=(Query(known_rate("greenroom_sessions_returned_total", "why"), "{{why}}"),),
            ),
            Panel(
                title="Sessions come, get a slot; nodes die",
                unit="reqps",
                queries=(
                    Query(known_rate("greenroom_sessions_opened_total", "pool"), "opened"),
                    Query(known_rate("greenroom_sessions_assigned_total", "pool"), "assigned"),
                    Query(known_rate("greenroom_nodes_died_total", "pool"), "nodes died"),
                ),
            ),
        ),
        "How long people saw nothing": (
            Panel(
                title="From a slot to the first frame",
                unit="s",
                queries=durations("greenroom_first_frame_seconds"),
            ),
            Panel(
                title="A slot is empty between two users",
                unit="s",
                text="From the last that the one saw to the first frame of the next, who waited.",
                queries=durations("greenroom_slot_idle_seconds"),
            ),
            Panel(
                title="Kill to first frame",
                unit="s",
                text="From the last beat of a node or model that died to the next frame elsewhere.",
                queries=durations("greenroom_kill_to_first_frame_seconds"),
            ),
            Panel(
                title="Recovery, whatever the cause",
                unit="s",
                queries=durations("greenroom_recovery_seconds"),
            ),
            Panel(
                title="Wait after a return",
                unit="s",
                queries=durations("greenroom_readmission_wait_seconds"),
            ),
        ),
    },
)
