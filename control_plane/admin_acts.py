"""Who did what as an admin?

Each act is one line of the log and one entry of the pool's audit trail, beside the changes that it
caused: who, what, to what, when, and how it went. An act is noted once it is over, so that its
outcome is in it; one that failed is noted, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import structlog

from control_plane.access import Caller
from shared.errors import GreenroomError, StoreUnavailable
from shared.store import Registry

_MOST_CHARS = 80
_log = structlog.get_logger()


class AdminActs:
    """Writes down what admins do over HTTP."""

    def __init__(self, *, registry: Registry) -> None:
        self._registry = registry

    @contextlib.asynccontextmanager
    async def noted(self, caller: Caller, act: str, pool: str, subject: str) -> AsyncIterator[None]:
        """Note that *caller* did *act* to *subject* of *pool*, once the block is over."""
        outcome = "failed"
        try:
            yield
            outcome = "done"
        except GreenroomError as refusal:
            outcome = refusal.code
            raise
        finally:
            who = who_is(caller)
            # It may be made up by whoever calls, and terminals obey some characters.
            subject = "".join(filter(str.isprintable, subject[:_MOST_CHARS]))
            _log.info("admin_act", act=act, pool=pool, on=subject, who=who, outcome=outcome)
            # The act counts, not the note; what can't be noted now stands in the log.
            with contextlib.suppress(StoreUnavailable):
                await self._registry.access.note_act(pool, act, subject, who=who, outcome=outcome)


def who_is(caller: Caller) -> str:
    """Name a caller for the trail: the key's name, and its id, since names may repeat."""
    return f"{caller.name} ({caller.key_id})" if caller.key_id else caller.name
