"""Why doesn't a node's memory grow with the sessions that it has had?

Video encoders come and go with the rooms, each with buffers of some hundred KB from threads of its
own. glibc keeps such buffers on its heaps as soon as it has seen one freed (its threshold for
mapping them is dynamic), where they stay behind between small things that live on: measured half a
megabyte to one per session. With a fixed threshold they are mapped and go back to the system when
they're freed; the page faults cost a tenth of the copy of a frame. A service that computes on the
processor inside of the node pays them for its arrays, too; in a process of its own it doesn't.
"""

from __future__ import annotations

import ctypes

MAPPED_FROM_BYTES = 64 * 1024
_M_MMAP_THRESHOLD = -3
"""Source: glibc's malloc.h."""


def keep_large_buffers_off_the_heap() -> bool:
    """Fix glibc's threshold, for the whole process; False with another C library."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM_BYTES) == 1
