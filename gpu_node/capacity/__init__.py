"""How many sessions fit into this machine's memory?

For service files, which may import this package by itself: it needs nothing but the standard
library, and torch only in a process that has loaded it anyway. In four steps, once, after the
weights are loaded and before sessions come::

    from gpu_node.capacity import Budget, measure, plan_capacity, reset_peaks

    reset_peaks()                      # so that the peak shows one representative request
    ...                                # make a chunk of the largest kind that is offered
    plan = plan_capacity(
        measure("denoise"),            # in each process that owns an allocator
        {"denoise": Budget(persistent_bytes=kv_bytes(kv_size, max_sequence_length))},
        limit=max_sessions,            # as configure_session_capacity() got it
    )
    return plan.metadata()             # has effective_capacity; the rest is for people

``formulas`` is pure; ``probe`` asks CUDA. Without CUDA there is nothing to compute: the operator's
number counts, or 1.

Lowering the number of a node never ends a session: the registry gives it nothing new until it has
fewer than that.
"""

from gpu_node.capacity.formulas import (
    GIB,
    Budget,
    CapacityPlan,
    DevicePlan,
    Envelope,
    NoRoom,
    Policy,
    Settled,
    Snapshot,
    batched_capacity,
    cache_bytes,
    calibrated_session_bytes,
    kv_bytes,
    plan_capacity,
)
from gpu_node.capacity.probe import measure, reset_peaks

__all__ = [
    "GIB",
    "Budget",
    "CapacityPlan",
    "DevicePlan",
    "Envelope",
    "NoRoom",
    "Policy",
    "Settled",
    "Snapshot",
    "batched_capacity",
    "cache_bytes",
    "calibrated_session_bytes",
    "kv_bytes",
    "measure",
    "plan_capacity",
    "reset_peaks",
]
