"""The only code that speaks Redis: one registry, seen as admission, sessions and nodes.

Whatever changes a session, a slot or the line is one Lua script (``lua/``); nothing else writes
those keys. `Registry` is the whole of it, built once in each process's composition root.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Self

from shared.store.access import AccessRecords
from shared.store.admission import Admission
from shared.store.connection import FAULTS, Connection, Observe
from shared.store.hearsay import Hearsay
from shared.store.inspection import Inspection
from shared.store.listing import Listing
from shared.store.nodes import BeatLink, Nodes
from shared.store.schema import check_schema
from shared.store.server_check import check_servers
from shared.store.sessions import Sessions
from shared.store.trail import Trail
from shared.store.wakeups import assignment_hints, session_hints

__all__ = ["FAULTS", "BeatLink", "Registry"]


class Registry:
    """One process's way to the registry; connections are made when they are first needed."""

    def __init__(self, connection: Connection, images: Connection) -> None:
        self._connection, self._images = connection, images
        admission, sessions = Admission(connection, images), Sessions(connection, images)
        nodes = Nodes(connection)
        self.open = admission.open
        self.cancel = admission.cancel
        self.cancel_waiting = admission.cancel_waiting
        self.line = admission.line
        self.settle_waiting = admission.settle_waiting
        self.note_estimate = admission.note_estimate
        self.put_image = admission.put_image
        self.touch = sessions.touch
        self.read = sessions.read
        self.request = sessions.request
        self.image = sessions.image
        self.advance = sessions.advance
        self.bundle = sessions.bundle
        self.left_s = sessions.left_s
        self.credit = sessions.credit
        self.adopt = sessions.adopt
        self.rebase = sessions.rebase
        self.give_back = sessions.give_back
        self.end = sessions.end
        self.register = nodes.register
        self.retire = nodes.retire
        self.sweep_nodes = nodes.sweep_nodes
        self.sweep_deadlines = nodes.sweep_deadlines
        self.snapshot = nodes.snapshot
        self.set_node_admin = nodes.set_node_admin
        self.set_node_capacity = nodes.set_node_capacity
        self.note_progress, self.note_play = nodes.note_progress, nodes.note_play
        self.note_first_frame = sessions.note_first_frame
        self.count_people = sessions.count_people
        self.listing = Listing(connection)
        self.inspection = Inspection(connection)
        self.trail = Trail(connection)
        self.hearsay = Hearsay(connection)
        self.access = AccessRecords(connection)
        self.ping = connection.ping
        self.concerns: tuple[str, ...] = ()
        """What `check` found that an operator should know."""

    @classmethod
    def connect(cls, url: str) -> Self:
        """Return a registry on *url*; nothing is sent yet."""
        return cls(Connection(url), Connection(url))

    async def check(self, pools: Iterable[str] = (), *, within_s: float = 5.0) -> None:
        """Wait for Redis and refuse one that could lose sessions.

        Raises:
            StartupError: Not reachable within *within_s*, too old, it evicts keys, or one of
                *pools* is used by a release that isn't this one or next to it.
        """
        self.concerns = await check_servers(self._connection.endpoints, within_s=within_s)
        await check_schema(self._connection, pools, within_s=within_s)

    def observe(self, observe: Observe, fault: Callable[[str], None] = lambda _why: None) -> None:
        """Have *observe* told of every script call, its name and the seconds it took; and *fault*
        of every call that wasn't answered: why, one of `FAULTS`.
        """
        self._connection.observe = observe
        self._connection.observe_fault = self._images.observe_fault = fault

    def assignment_hints(self, pool: str, node_id: str) -> AsyncIterator[str | None]:
        """Yield when something may have changed for a node; see `wakeups`."""
        return assignment_hints(self._connection, pool, node_id)

    def session_hints(self, pools: Iterable[str], replica: str) -> AsyncIterator[str | None]:
        """Yield sessions of *pools* that may have changed; see `wakeups`."""
        return session_hints(self._connection, pools, replica)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._connection.aclose()
        await self._images.aclose()
