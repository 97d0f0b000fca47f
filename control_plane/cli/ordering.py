"""How is an operator's order given, and written down?

It is carried out on the registry, then noted in the audit trail: who gave it, on which machine,
what it was about and how it went. An order that was refused is noted, too.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar

from control_plane.cli.options import Given
from control_plane.cli.registry_access import asked
from shared.errors import GreenroomError, StoreUnavailable
from shared.store import Registry

T = TypeVar("T")


def ordered(
    given: Given,
    act: str,
    subject: str,
    work: Callable[[Registry, str], Awaitable[T]],
    *,
    session_id: str = "",
) -> T:
    """Do *work* as `asked` does, and note that *act* was done to *subject*."""

    async def noted(registry: Registry, pool: str) -> T:
        outcome = "failed"
        try:
            result = await work(registry, pool)
        except GreenroomError as refusal:
            outcome = refusal.code
            raise
        else:
            outcome = "done"
            return result
        finally:
            with contextlib.suppress(StoreUnavailable):  # the order counts, not the note
                await registry.access.note_act(pool, act, subject, who=who(), outcome=outcome)

    return asked(given, noted, session_id=session_id)


def who() -> str:
    """Return who sits at this terminal: the user's name and the machine's."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container without a list of users
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
