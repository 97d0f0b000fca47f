"""What does a pool consist of, and by which rules do sessions and slots change?

The rules of the scripts once more, in plain Python on dictionaries: without Redis, presence, texts
or images. `script_model` makes the scripts of them. Where the two disagree, one of them is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.states import ENDED_AS, ENDED_STATES, Reason

NEVER = -(10**15)
WINDOW_MS = 600_000
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
    count: int = 0
    counted: int = NEVER
    acked: int | None = None
    assigned_rt: int = 0
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
    struck: int = NEVER
    rest: int = 0
    slots: dict[str, int] = field(default_factory=dict)
    """Session → epoch; ``!session`` for a quarantined one."""
    free_after: dict[str, int] = field(default_factory=dict)
    """Quarantined session → the stamp that a beat must exceed to free it."""
    mates: tuple[int, int] | None = None
    strangers: int = 0
    """What it listed last beyond its slots."""

    @property
    def used(self) -> int:
        return len(self.slots) + self.strangers


class PoolModel:
    """Sessions, nodes, the line, and the clocks."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.nodes: dict[str, Node] = {}
        self.free: dict[str, float] = {}
        self.last = {"ticket": 0, "epoch": 0, "inc": 0}
        self.top = 0
        self.deaths = (0, 0)
        self.kept: tuple[int, int] | None = None
        """Registry time and wall clock at the last call that kept them."""
        self.now = self.rt = 0

    def look_at_clock(self, now_ms: int) -> None:
        """Each script begins so: registry time follows the clock by 0 to 2 s."""
        rt, wall = self.kept or (now_ms, now_ms)
        self.now, self.rt = now_ms, rt + min(max(now_ms - wall, 0), 2000)

    def keep(self) -> None:
        self.kept = (self.rt, self.now)

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

    def refresh(self, nid: str) -> None:
        n = self.nodes[nid]
        fit = n.lease is not None and n.lease > self.rt and n.state in ("idle", "busy")
        self.free.pop(nid, None)
        if fit and n.media_ok and n.rest <= self.rt and n.used < n.capacity:
            self.free[nid] = n.used / n.capacity

    def pick(self, avoid: str) -> str | None:
        last = None
        for nid in sorted(self.free, key=lambda nid: (self.free[nid], nid)):
            lease = self.nodes[nid].lease
            if lease is None or lease <= self.rt:
                del self.free[nid]
            elif nid != avoid:
                return nid
            else:
                last = nid
        return last

    def dispatch(self) -> None:
        for name in self.line:
            s = self.sessions[name]
            if (nid := self.pick(s.avoid)) is None:
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
        n.strikes = n.strikes + 1 if self.rt - n.struck < WINDOW_MS else 1
        n.struck = self.rt
        n.rest = self.rt + (30_000 if n.strikes >= 3 else min(5_000 * n.strikes, 20_000))
        self.refresh(nid)

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
        count = weight + (s.count if self.rt - s.counted < WINDOW_MS else 0)
        if s.state == "draining" or count >= 6:
            self.finish(name, ENDS_AS.get(why, "recovery_limit"), quarantine=quarantine)
            return "ended"
        if "session" in s.at:
            s.left = max(s.at["session"] - max(lost_at, s.assigned_rt), 0)
        self.leave_slot(name, quarantine=quarantine)
        s.state, s.avoid, s.node, s.epoch = "queued", s.node, "", self.number("epoch")
        s.count, s.acked, s.attempt = count, None, s.attempt + 1
        s.counted = self.rt if weight else s.counted
        s.at = self.due(name, "queued")
        return "returned"

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

    def owns(self, nid: str, inc: int, name: str, epoch: int) -> bool:
        s = self.sessions.get(name)
        mine = s is not None and (s.node, s.epoch) == (nid, epoch)
        return mine and nid in self.nodes and self.nodes[nid].inc == inc

    def is_quarantined(self, nid: str, name: str, epoch: int) -> bool:
        return nid in self.nodes and self.nodes[nid].slots.get("!" + name) == epoch
