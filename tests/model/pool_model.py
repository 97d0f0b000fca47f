"""What does a pool consist of, and by which rules do sessions and slots change?

The rules of the scripts once more, in plain Python on dictionaries: without Redis, presence, texts
or images. `node_model` and `script_model` make the scripts of them. Where the two disagree, one of
them is wrong. A loss of data takes the model back to what it was, just as it does the registry.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from shared.states import ENDED_AS, ENDED_STATES, Reason

T = TypeVar("T")
WINDOW_S = 600
ENDS_AS = dict.fromkeys(("accept_timeout", "join_failed", "join_timeout"), "join_timeout")
ENDS_AS["start_timeout"] = "start_timeout"


@dataclass(slots=True, kw_only=True)
class Session:
    """What is known of one session."""

    ticket: int
    limits: dict[str, int]
    state: str = "queued"
    node: str = ""
    epoch: int = 0
    reason: str = ""
    avoid: str = ""
    attempt: int = 1
    counts: list[tuple[int, int]] = field(default_factory=list)
    """Second and weight of each accident that counted."""
    failed_on: list[tuple[int, str]] = field(default_factory=list)
    mates: str = ""
    acked: int | None = None
    assigned_rt: int | None = None
    rebased: int | None = None
    """The epoch before the last rebase."""
    idem: str = ""
    admitted: bool = False
    left: int | None = None
    at: dict[str, int] = field(default_factory=dict)
    """Running deadlines by kind."""

    @property
    def is_live(self) -> bool:
        return self.state not in ENDED_STATES


@dataclass(slots=True, kw_only=True)
class Node:
    """What is known of one node; ``lease`` is None without a life."""

    inc: int = 0
    boot: str = ""
    lease: int | None = None
    ttl: int = 0
    state: str = "dead"
    capacity: int = 0
    media_ok: bool = True
    stamp: int = 0
    beat: int = 0
    strikes: int = 0
    struck: list[tuple[int, int]] = field(default_factory=list)
    rest: int = 0
    slots: dict[str, int] = field(default_factory=dict)
    """Session → epoch; ``!session`` for a quarantined one."""
    free_after: dict[str, int] = field(default_factory=dict)
    """Quarantined session → the stamp that a beat must exceed to free it."""
    mates: tuple[int, int] | None = None
    strangers: int = 0
    """What it listed last beyond its slots."""
    gen: int = 0
    """The run of the server in which it beat last."""
    draining: bool = False
    admin: str = "open"
    limit: int | None = None
    """How many the operator allows it; None: as many as it says."""
    order: str = ""
    """The operator's last one."""
    move_at: int | None = None
    """From when on its sessions move elsewhere."""

    @property
    def used(self) -> int:
        return len(self.slots) + self.strangers

    @property
    def allowed(self) -> int:
        return self.capacity if self.limit is None else min(self.capacity, self.limit)


class PoolModel:
    """Sessions, nodes, the line, and the clocks."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.nodes: dict[str, Node] = {}
        self.free: dict[str, float] = {}
        self.last = {"ticket": 0, "epoch": 0, "inc": 0, "ttl": 0}
        self.top = 0
        self.deaths = (0, 0)
        self.kept: tuple[int, int] | None = None
        """Registry time and wall clock at the last call that kept them."""
        self.now = self.rt = 0
        self.idem: dict[str, str] = {}
        self.gen = self.grace = self.hold = 0
        self.knows_run = False
        """False: the server is another run than the one that is noted, and no script saw it yet."""
        self.brought = 0
        """Records that nodes brought back, unknown before."""

    def look_at_clock(self, now_ms: int) -> None:
        """Each script begins so: registry time follows the clock by 0 to 2 s."""
        rt, wall = self.kept or (now_ms, now_ms)
        self.now, self.rt = now_ms, rt + min(max(now_ms - wall, 0), 2000)

    def keep(self) -> None:
        """Note the clocks, and whether the server is another run of itself (R6)."""
        self.kept = (self.rt, self.now)
        if self.knows_run:
            return
        self.knows_run, self.gen = True, self.gen + 1
        if self.gen > 1:
            ttl = self.last["ttl"]
            self.grace, self.hold = self.rt + ttl, self.rt + ttl * 4 // 10
            self.free.clear()

    @property
    def in_grace(self) -> bool:
        return self.rt < self.grace

    def is_held(self) -> bool:
        if not self.hold or not self.in_grace:
            return False
        alive = [n for n in self.nodes.values() if n.lease is not None]
        return self.rt < self.hold or any(n.gen != self.gen for n in alive)

    def fold(self, name: str, seen: int) -> None:
        self.last[name] = max(self.last[name], seen)

    def number(self, name: str, at_least: int = 0) -> int:
        self.last[name] = max(self.last[name] + 1, self.now, at_least + 1)
        return self.last[name]

    @property
    def line(self) -> list[str]:
        waiting = [name for name, s in self.sessions.items() if s.state == "queued"]
        return sorted(waiting, key=lambda name: self.sessions[name].ticket)

    def due(self, name: str, kind: str) -> dict[str, int]:
        limit = self.sessions[name].limits[kind]
        return {kind: self.rt + limit} if limit else {}

    # Slots.

    def serves(self, nid: str) -> bool:
        n = self.nodes[nid]
        fit = n.lease is not None and n.lease > self.rt and n.state in ("idle", "busy")
        is_open = n.admin == "open" and not n.draining and n.gen == self.gen
        return fit and is_open and n.media_ok and n.allowed > 0

    def refresh(self, nid: str) -> None:
        n = self.nodes[nid]
        self.free.pop(nid, None)
        if self.serves(nid) and n.rest <= self.rt and n.used < n.allowed:
            self.free[nid] = n.used / n.allowed

    def recent(self, entries: list[tuple[int, T]]) -> list[tuple[int, T]]:
        return [entry for entry in entries if entry[0] > self.rt // 1000 - WINDOW_S]

    def dislike(self, nid: str, s: Session | None) -> int:
        if s is None:
            return 0
        if nid == s.avoid or nid in (node for _, node in self.recent(s.failed_on)):
            return 2
        held = [self.sessions[name] for name in self.nodes[nid].slots if name[0] != "!"]
        return int(bool(s.mates) and any(mate.mates == s.mates for mate in held))

    def pick(self, s: Session | None) -> str | None:
        best, least = None, 3
        for nid in sorted(self.free, key=lambda nid: (self.free[nid], nid)):
            lease = self.nodes[nid].lease
            if lease is None or lease <= self.rt:
                del self.free[nid]
            elif (how_much := self.dislike(nid, s)) == 0:
                return nid
            elif how_much < least:
                best, least = nid, how_much
        return best

    def dispatch(self) -> None:
        if self.is_held():
            return
        self.hold = 0
        for name in self.line:
            s = self.sessions[name]
            if (nid := self.pick(s)) is None:
                return
            s.state, s.node, s.epoch, s.assigned_rt = "assigned", nid, self.number("epoch"), self.rt
            s.at = self.due(name, "assigned") | {k: v for k, v in s.at.items() if k == "session"}
            if not s.admitted:
                s.admitted, s.at = True, s.at | self.due(name, "session")
            self.top = max(self.top, s.ticket)
            self.nodes[nid].slots[name] = s.epoch
            self.refresh(nid)

    def leave_slot(self, name: str, *, quarantine: bool = False) -> None:
        s = self.sessions[name]
        if not s.node:
            return
        n = self.nodes[s.node]
        n.slots.pop(name, None)
        if quarantine and n.lease is not None:
            n.slots["!" + name] = s.epoch
            n.free_after[name] = n.stamp + 1
        self.refresh(s.node)

    def release(self, nid: str, name: str) -> None:
        self.nodes[nid].slots.pop("!" + name, None)
        self.nodes[nid].free_after.pop(name, None)
        self.refresh(nid)

    def strike(self, nid: str) -> None:
        n = self.nodes[nid]
        n.struck = [*self.recent(n.struck), (self.rt // 1000, 1)][-5:]
        n.strikes = len(n.struck)
        n.rest = self.rt + (30_000 if n.strikes >= 3 else min(5_000 * n.strikes, 20_000))
        self.refresh(nid)

    def forgive(self, nid: str) -> None:
        n = self.nodes[nid]
        n.strikes, n.rest, n.struck = 0, 0, []

    # Ends and returns.

    def finish(self, name: str, reason: str, *, quarantine: bool = False) -> None:
        s = self.sessions[name]
        s.reason = s.reason or reason
        self.leave_slot(name, quarantine=quarantine)
        s.state, s.at = ENDED_AS[Reason(s.reason)], {}

    def drain(self, name: str, reason: str) -> None:
        s = self.sessions[name]
        s.state, s.reason, s.at = "draining", reason, self.due(name, "draining")

    def back(
        self, name: str, why: str, weight: int, lost_at: int, *, quarantine: bool = False
    ) -> str:
        s = self.sessions[name]
        counts = self.recent(s.counts)
        count = weight + sum(before for _, before in counts)
        if s.state == "draining" or count >= 6:
            self.finish(name, ENDS_AS.get(why, "recovery_limit"), quarantine=quarantine)
            return "ended"
        if "session" in s.at:
            s.left = max(s.at["session"] - self.served_until(s, lost_at), 0)
        self.leave_slot(name, quarantine=quarantine)
        s.state, s.avoid, s.node, s.epoch = "queued", s.node, "", self.number("epoch")
        s.acked, s.rebased, s.attempt = None, None, s.attempt + 1
        if weight:
            s.counts = [*counts, (self.rt // 1000, weight)]
        s.at = self.due(name, "queued")
        return "returned"

    def served_until(self, s: Session, lost_at: int) -> int:
        if s.assigned_rt is None:  # adopted: nobody knows since when it was there
            return lost_at
        return max(lost_at, s.assigned_rt) if s.state == "running" else s.assigned_rt

    def members(self, nid: str) -> list[tuple[str, int, bool]]:
        """A node's slots in the order of their epochs: session, epoch, whether quarantined."""
        slots = sorted(self.nodes[nid].slots.items(), key=lambda item: item[1])
        return [(name.lstrip("!"), epoch, name[0] == "!") for name, epoch in slots]

    def strangers(self, nid: str, listed: list[tuple[str, int]]) -> int:
        known = {(name, epoch) for name, epoch, _ in self.members(nid)}
        return sum(resident not in known for resident in listed)

    def mates(self, nid: str) -> tuple[int, int]:
        held = [self.sessions[name] for name in self.nodes[nid].slots if name[0] != "!"]
        accepted = [s for s in held if s.acked is not None]
        return len(accepted), sum(s.state == "starting_pipeline" for s in accepted)

    def weight(self, name: str, mates: tuple[int, int]) -> int:
        s = self.sessions[name]
        if s.acked is None:
            return 0
        return 2 if mates[0] == 1 or (s.state == "starting_pipeline" and mates[1] == 1) else 1

    def failure(self, name: str, nid: str) -> int:
        s = self.sessions[name]
        s.failed_on, before = self.recent(s.failed_on), s.failed_on
        tried = {node for _, node in s.failed_on}
        if nid not in tried:
            s.failed_on.append((self.rt // 1000, nid))
            return 2
        s.failed_on = before
        return 0 if any(self.serves(other) for other in self.nodes.keys() - tried) else 2

    def owns(self, nid: str, inc: int, name: str, epoch: int) -> bool:
        s = self.sessions.get(name)
        mine = s is not None and (s.node, s.epoch) == (nid, epoch)
        return mine and nid in self.nodes and self.nodes[nid].inc == inc

    def is_quarantined(self, nid: str, name: str, epoch: int) -> bool:
        return nid in self.nodes and self.nodes[nid].slots.get("!" + name) == epoch
