"""What do we count here?

All instruments of a node. Labels come from closed sets, never a session or an identity. The node
itself isn't a label: each node is scraped by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from gpu_node.recent_play import RecentPlay
from shared.gpus import MOST_GPUS, GpuFacts
from shared.states import NodeState, Reason
from shared.store import FAULTS

_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
_LEASE_WAITS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SLOW_CHUNKS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_MIB = 1024**2
_REACTIONS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
_MODE_KEPT = 40
_BATCHES = (1, 2, 3, 4, 6, 8, 16, 32)
_SLOW = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)

_STATE = Gauge("greenroom_node_state", "1 for the state that the node is in.", ["state"])
_CAPACITY = Gauge("greenroom_node_slots", "Sessions that the model service keeps at once.")
_RESIDENTS = Gauge(
    "greenroom_node_slots_used", "Sessions held now, unconfirmed clean-ups included."
)
_UNCONFIRMED = Gauge(
    "greenroom_node_cleanups_unconfirmed", "Sessions whose clean-up takes longer than it may."
)
_MODEL_SLOTS = Gauge(
    "greenroom_node_model_slots",
    "Slots of the model service, as it says: free, quarantined by it, taken by nobody (leaked).",
    ["state"],
)
_MEDIA_OK = Gauge("greenroom_node_media_ok", "1 while the node reaches the media server.")
_WORKER_DEATHS = Counter(
    "greenroom_node_worker_deaths_total", "Deaths of the service's own process."
)
_LOAD = Gauge("greenroom_node_service_load_seconds", "Time that loading and warming up took.")

_GPU_USED = Gauge("greenroom_node_gpu_memory_used_bytes", "Memory in use on a GPU.", ["gpu"])
_GPU_TOTAL = Gauge("greenroom_node_gpu_memory_bytes", "Memory of a GPU.", ["gpu"])
_GPU_BUSY = Gauge("greenroom_node_gpu_busy_ratio", "Share of the time that a GPU works.", ["gpu"])
_GPU_HEAT = Gauge("greenroom_node_gpu_temperature_celsius", "Temperature of a GPU.", ["gpu"])
_GPU_ECC = Gauge(
    "greenroom_node_gpu_memory_errors",
    "Uncorrectable memory errors of a GPU since its driver started.",
    ["gpu"],
)
_GPU_XID = Gauge("greenroom_node_gpu_xid", "Last XID of a GPU that the driver told.", ["gpu"])
_GPU_OK = Gauge("greenroom_node_gpu_ok", "1 while a GPU can be used.", ["gpu"])
_GPU_UNKNOWN = Gauge(
    "greenroom_node_gpu_unknown_seconds", "For how long the GPU driver hasn't answered."
)

_BEATS = Counter("greenroom_node_beats_total", "Heartbeats by outcome.", ["outcome"])
_BEAT_SECONDS = Histogram(
    "greenroom_node_beat_seconds", "Time until a beat's answer.", buckets=_FAST
)
_SILENCES = Counter(
    "greenroom_node_silences_total", "Times that a session fell silent for its lease."
)
_REGISTRATIONS = Counter("greenroom_node_registrations_total", "Node lives begun.")
_SCRIPT_SECONDS = Histogram(
    "greenroom_node_script_seconds", "Time of a registry call.", ["script"], buckets=_FAST
)

_ENDED = Counter(
    "greenroom_node_sessions_ended_total", "Sessions ended here, by reason.", ["reason"]
)
_RETURNED = Counter(
    "greenroom_node_sessions_returned_total", "Sessions given back, by cause.", ["why"]
)
_FENCED = Counter(
    "greenroom_node_sessions_fenced_total", "Sessions that belonged to somebody else."
)
_JOINS = Counter("greenroom_node_joins_total", "Attempts to join a room, by outcome.", ["outcome"])
_FIRST_FRAME = Histogram(
    "greenroom_node_first_frame_seconds",
    "From accepting a session to its first frame.",
    buckets=_SLOW,
)
_CHUNK_WAIT = Histogram(
    "greenroom_node_chunk_wait_seconds", "Time that the player waited for a chunk.", buckets=_FAST
)
_LEASE_WAIT = Histogram(
    "greenroom_node_lease_wait_seconds",
    "Time that a chunk waited for its session's turn on the shared model.",
    buckets=_LEASE_WAITS,
)
_LEASE_WAITING = Gauge(
    "greenroom_node_lease_waiting", "Sessions that wait for their turn on the shared model."
)
_LEASE_BUSY = Gauge(
    "greenroom_node_lease_busy_seconds",
    "For how long the shared model has been at its present chunk.",
)
_CHUNKS = Counter("greenroom_node_chunks_total", "Chunks taken from the service.")
_SLO = Counter(
    "greenroom_node_slo_chunks_total",
    "Chunks made within the time that they play (met), the wait for the model included, or not.",
    ["outcome"],
)
_SLO_BUDGET = Histogram(
    "greenroom_node_slo_budget_seconds", "How long a chunk plays.", buckets=_SLOW_CHUNKS
)
_REACTION = Histogram(
    "greenroom_node_action_to_first_frame_seconds",
    "From a control to the first frame of a chunk that was begun after it.",
    buckets=_REACTIONS,
)
_STAGES = Histogram(
    "greenroom_node_stage_seconds",
    "Time in one stage of the model, as the service tells it with a chunk.",
    ["stage"],
    buckets=_SLOW_CHUNKS,
)
_BATCH = Histogram(
    "greenroom_node_batch_size",
    "Sessions whose chunks the service made together, as it tells it with each chunk.",
    buckets=_BATCHES,
)
_BATCHES_MADE = Counter(
    "greenroom_node_batches_total", "Batches that the service made; each member counts its share."
)
_SCHEDULER = Gauge(
    "greenroom_node_scheduler_mode", "1 for the way in which the service says it works.", ["mode"]
)
_FAULTS = Counter(
    "greenroom_node_service_faults_total",
    "Sessions that ended by a fault of the service: out of memory, or another.",
    ["kind"],
)
_FRAMES = Counter("greenroom_node_frames_total", "Frames played.")
_LATENESS = Histogram(
    "greenroom_node_frame_lateness_seconds", "How late a frame left after its time.", buckets=_FAST
)
_CHUNK_MADE = Histogram(
    "greenroom_node_chunk_seconds", "Time that the service took for a chunk.", buckets=_SLOW_CHUNKS
)
_RTT = Histogram(
    "greenroom_node_media_rtt_seconds", "Round trip to the media server.", buckets=_FAST
)
_DELIVERIES = Counter(
    "greenroom_node_deliveries_total", "Lossless deliveries, by outcome.", ["outcome"]
)
_SOUND_DROPPED = Counter(
    "greenroom_node_sound_dropped_seconds_total", "Sound of controllers that no service took."
)
_ASSETS = Counter("greenroom_node_assets_total", "Files from controllers.", ["outcome"])
_LOOP_LAG = Histogram(
    "greenroom_node_loop_lag_seconds", "How late the event loop comes to its timers.", buckets=_FAST
)
_REDIS_ERRORS = Counter(
    "greenroom_node_redis_errors_total", "Registry calls that weren't answered, by why.", ["why"]
)
_CONTROLS = Counter("greenroom_node_controls_total", "Messages from controllers.", ["outcome"])


PLAY = RecentPlay()
"""What gauges of the last half minute are made of, when they are asked for."""
STAGES = {
    "input_prepare": "input_prepare_seconds",
    "cache_collate": "cache_collate_seconds",
    "dit": "denoise_seconds",
    "cache_scatter": "cache_scatter_seconds",
    "vae_encode": "vae_encode_seconds",
    "vae_decode": "vae_decode_seconds",
    "postprocess": "postprocess_seconds",
}
"""Stage → what the service calls its time. Source: reference, pipeline_stage_latency."""
last_stages: dict[str, float] = {}
"""The last time of each."""

for _counter, _words in (
    (_SLO, "met missed"),
    (_FAULTS, "oom model"),
    (_REDIS_ERRORS, " ".join(FAULTS)),
    (_BEATS, "answered unanswered"),
    (_ENDED, " ".join(Reason)),
    (_RETURNED, "node_shutdown node_drained media_lost join_failed service_lost gpu_lost"),
    (_JOINS, "joined failed"),
    (_DELIVERIES, "complete incomplete unacknowledged"),
    (_CONTROLS, "applied ignored"),
    (_SCRIPT_SECONDS, "advance_session end_session give_back note_first_frame read_bundle"),
):
    for _word in _words.split():  # from 0 on, or the first of each isn't seen as an increase
        _counter.labels(_word)


def node_state(state: NodeState, capacity: int, residents: int) -> None:
    """Set what the node is, offers and holds."""
    for other in NodeState:
        _STATE.labels(state=other).set(other is state)
    _CAPACITY.set(capacity)
    _RESIDENTS.set(residents)


def model_slots(*, free: int, quarantined: int, leaked: int) -> None:
    """Set what became of the service's own slots."""
    _MODEL_SLOTS.labels(state="free").set(free)
    _MODEL_SLOTS.labels(state="quarantined").set(quarantined)
    _MODEL_SLOTS.labels(state="leaked").set(leaked)


def media_ok(reached: bool) -> None:
    """Set whether the media server is reached."""
    _MEDIA_OK.set(reached)


def gpus(facts: GpuFacts) -> None:
    """Set how the GPUs are, by their place on this node; what a GPU doesn't offer has no value."""
    _GPU_UNKNOWN.set(facts.unknown_s)
    for place, gpu in enumerate(facts.gpus[:MOST_GPUS]):
        for gauge, value, unit in (
            (_GPU_USED, gpu.used_mib, _MIB),
            (_GPU_TOTAL, gpu.total_mib, _MIB),
            (_GPU_BUSY, gpu.busy_percent, 0.01),
            (_GPU_HEAT, gpu.temperature_c, 1),
            (_GPU_ECC, gpu.ecc_errors, 1),
            (_GPU_XID, gpu.xid, 1),
        ):
            if value is not None:
                gauge.labels(gpu=place).set(value * unit)
        _GPU_OK.labels(gpu=place).set(not gpu.trouble)


def service_loaded(seconds: float) -> None:
    """Set how long the service took until it could serve."""
    _LOAD.set(seconds)


def worker_died() -> None:
    """Count a death of the service's own process."""
    _WORKER_DEATHS.inc()


def cleanup_overdue(change: int) -> None:
    """Count a clean-up that takes longer than it may (+1), or that came through after all (-1)."""
    _UNCONFIRMED.inc(change)


def registered() -> None:
    """Count a node life."""
    _REGISTRATIONS.inc()


def beat_answered(seconds: float) -> None:
    """Count a beat that was answered."""
    _BEATS.labels(outcome="answered").inc()
    _BEAT_SECONDS.observe(seconds)


def beat_unanswered() -> None:
    """Count a beat without an answer in time."""
    _BEATS.labels(outcome="unanswered").inc()


def fell_silent() -> None:
    """Count a session that fell silent."""
    _SILENCES.inc()


def script_ran(script: str, seconds: float) -> None:
    """Observe one call of a registry script."""
    _SCRIPT_SECONDS.labels(script=script).observe(seconds)


def ended(reason: Reason) -> None:
    """Count a session that ended here."""
    _ENDED.labels(reason=reason).inc()


def returned(why: str) -> None:
    """Count a session that was given back."""
    _RETURNED.labels(why=why).inc()


def fenced() -> None:
    """Count a session whose leftovers alone were cleaned."""
    _FENCED.inc()


def joined(outcome: str) -> None:
    """Count one attempt to join: joined or failed."""
    _JOINS.labels(outcome=outcome).inc()


def first_frame(seconds: float) -> None:
    """Observe the time from accepting a session to its first frame."""
    _FIRST_FRAME.observe(seconds)


def chunk_taken(waited_s: float, made_in_s: float) -> None:
    """Observe how long the player waited for the service, and how long that took."""
    _CHUNKS.inc()
    _CHUNK_MADE.observe(made_in_s)
    _CHUNK_WAIT.observe(waited_s)


def lease_waited(seconds: object) -> float:
    """Observe how long a chunk waited for the execution lease; None: it needed none."""
    if not isinstance(seconds, int | float):
        return 0.0
    _LEASE_WAIT.observe(seconds)
    return seconds


def chunk_due(made_in_s: float, plays_s: float) -> None:
    """Compare how long a chunk took, all waits included, with how long it plays."""
    _SLO_BUDGET.observe(plays_s)
    _SLO.labels(outcome="met" if made_in_s <= plays_s else "missed").inc()
    PLAY.chunk(made_in_s, in_time=made_in_s <= plays_s)


def scheduled(facts: object) -> None:
    """Observe what a service says of the making of a chunk (`scheduler` of the reference)."""
    if not isinstance(facts, Mapping):
        return
    size = facts.get("batch_size")
    if isinstance(size, int) and size >= 1:
        _BATCH.observe(size)
        _BATCHES_MADE.inc(1 / size)
    for stage, name in STAGES.items():
        seconds = facts.get(name)
        if isinstance(seconds, int | float) and seconds >= 0:
            _STAGES.labels(stage=stage).observe(seconds)
            last_stages[stage] = float(seconds)


def reacted(seconds: float | None) -> None:
    """Observe how long a control waited for its picture; None: the picture answers none."""
    if seconds is not None:
        _REACTION.observe(seconds)


def service_fault(*, out_of_memory: bool) -> None:
    """Count a session that its service's fault has ended."""
    _FAULTS.labels(kind="oom" if out_of_memory else "model").inc()


def loop_lagged(seconds: float) -> None:
    """Observe how late the event loop came to a timer."""
    _LOOP_LAG.observe(seconds)


def redis_failed(why: str) -> None:
    """Count a registry call without an answer."""
    _REDIS_ERRORS.labels(why=why).inc()


def service_says(figures: Mapping[str, Any]) -> None:
    """Set what a service measures of itself: how many wait for it, for how long it has been at one
    chunk, and in which way it works.
    """
    if isinstance(lease := figures.get("lease"), dict):
        _LEASE_WAITING.set(lease["waiting"])
        PLAY.lease(lease["waiting"])
        _LEASE_BUSY.set(lease["busy_seconds"])
    if isinstance(mode := figures.get("scheduler_mode"), str):
        _SCHEDULER.clear()
        _SCHEDULER.labels(mode=mode[:_MODE_KEPT]).set(1)


def frame_played(late_s: float, session: object) -> None:
    """Observe one frame and how late it left; *session* is only told from others."""
    _FRAMES.inc()
    PLAY.frame(session, late_s)
    _LATENESS.observe(late_s)


def control(outcome: str) -> None:
    """Count one message: applied, answered or ignored."""
    _CONTROLS.labels(outcome=outcome).inc()


def media_rtt(seconds: float) -> None:
    """Observe one room's round trip to the media server."""
    _RTT.observe(seconds)


def delivered(outcome: str) -> None:
    """Count one lossless delivery: complete, incomplete or unacknowledged."""
    _DELIVERIES.labels(outcome=outcome).inc()


def sound_dropped(seconds: float) -> None:
    """Count sound of controllers that a service was too slow for."""
    _SOUND_DROPPED.inc(seconds)


def asset(outcome: str) -> None:
    """Count one file: accepted or rejected."""
    _ASSETS.labels(outcome=outcome).inc()
