"""What may never happen, whatever scripts and model think of it?

The twenty invariants of a queue, read from Redis alone. Places, slots, `free`, deadlines, lifetimes
(1, 2, 4, 9, 10, 13, 17) are the audit's; that stale and repeated calls change nothing (11, 12) and
that nothing expires in a grace (16) shows against the model; conservation of work and an end to all
waiting (5, 15) are asked when a run settles. The rest is here.

After a loss of data each of them holds from where the registry came back to: it is sound at once.
These are weaker then, and no rule could make them stronger:

- An end, an epoch or a number that was lost may be seen again in its earlier form (8, 13, 14): they
  are compared with what the registry came back with. But no (session, epoch) ever has two nodes.
- Who was served before may stand in line again behind others, and the other way round (7): in each
  call the head of the line is still served first.
- Numbers follow the clock, so what was issued in the lost time isn't issued again, unless the clock
  was set back before: then they had run ahead of it, and only what nodes still name is safe (6, 8).
- Sessions that nobody plays are lost with their records (19): those that a node brought back count.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from tests.model.node_model import Owner
from tests.support.audit import Pool

NUMBERS = ("ticket", "epoch", "inc", "version")


@dataclass(slots=True, kw_only=True)
class Remembered:
    """What was seen so far, and may not be undone except by a loss."""

    epochs: dict[str, int] = field(default_factory=dict)
    ends: dict[str, tuple[str, str]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)


class Invariants:
    """Looks at the pool after each call."""

    def __init__(self) -> None:
        self.owners: list[Owner] = []
        """Every assignment that ever was, oldest first; no loss makes it undone."""
        self.may_reissue = False
        """The clock had been set back when data was lost."""
        self._seen = Remembered()
        self._before: Pool | None = None
        self._has_lost = False

    def remember(self) -> Remembered:
        """Return what a registry that comes back to this moment must keep to."""
        return copy.deepcopy(self._seen)

    def lose(self, seen: Remembered, now_ms: int) -> None:
        """The registry is what it was when *seen* was remembered."""
        self.may_reissue |= any(number > now_ms for number in self._seen.numbers.values())
        self._seen, self._before, self._has_lost = copy.deepcopy(seen), None, True

    def check(self, pool: Pool, *, brought: int) -> None:
        """Look at the pool as the last call left it; *brought*: records that nodes brought back."""
        self._never_back(pool)
        self._never_twice(pool)
        self._in_order(pool)
        assert int(pool.ctr.get("n_opened", 0)) + brought == len(pool.sessions)
        self._before = pool

    def _never_back(self, pool: Pool) -> None:
        """8, 13, 14: numbers don't fall, ends don't change."""
        for name, session in pool.sessions.items():
            assert int(session["epoch"]) >= self._seen.epochs.get(name, 0)
            self._seen.epochs[name] = int(session["epoch"])
            if name not in pool.live:
                end = (session["state"], session["reason"])
                assert self._seen.ends.setdefault(name, end) == end
        for number in NUMBERS:
            issued = int(pool.ctr.get(number, 0))
            assert issued >= self._seen.numbers.get(number, 0)
            self._seen.numbers[number] = issued

    def _never_twice(self, pool: Pool) -> None:
        """8: one epoch of a session has one node, before and after any loss."""
        for name, session in pool.live.items():
            node, epoch = session["node"], int(session["epoch"])
            if not node:
                continue
            owner = (node, int(pool.records[node]["inc"]), name, epoch)
            twice = [o for o in self.owners if o[2:] == (name, epoch) and o[0] != node]
            assert self.may_reissue or not twice
            if owner not in self.owners:
                self.owners.append(owner)

    def _in_order(self, pool: Pool) -> None:
        """3, 7: the head of the line is served first, and nobody beyond what a node can hold."""
        newly = [
            session
            for name, session in pool.live.items()
            if session["state"] == "assigned" and self._is_new(name, session)
        ]
        served = max((int(session["ticket"]) for session in newly), default=0)
        assert served < min(pool.line.values(), default=2**53)
        for node in {session["node"] for session in newly}:
            record = pool.records[node]
            used = len(pool.members[node]) + int(record["strangers"])
            capacity = int(record["capacity"])
            allowed = min(capacity, int(record.get("admin_capacity", capacity)))
            assert used <= allowed, f"{node} was given one too many"
        if not self._has_lost:
            ever = {int(s["ticket"]) for s in pool.sessions.values() if "admitted" in s}
            newcomers = {int(pool.sessions[name]["ticket"]) for name in pool.line} - ever
            assert max(ever, default=0) < min(newcomers, default=2**53)

    def _is_new(self, name: str, session: dict[str, str]) -> bool:
        """Whether the last call assigned it; a rebase gives another epoch as well."""
        if self._before is None:
            return False
        before = self._before.sessions.get(name, {}).get("epoch")
        return before not in (session["epoch"], session.get("rebased", ""))
