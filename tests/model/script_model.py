"""What should each script do, and answer?

One method per script, with what matters of its arguments. A reply is the script's word and fields,
sessions in it reduced to their state.
"""

from __future__ import annotations

from shared.states import SESSION_MOVES
from tests.model.pool_model import Node, PoolModel, Session

STEPS = ("joining_room", "starting_pipeline", "running", "draining")
STEPS_OF: dict[str, set[str]] = {
    state: {move for move in moves if move in STEPS} for state, moves in SESSION_MOVES.items()
}
TTL_MS = 10_000
ASK_AGAIN_MS = 10_000
KINDS = ("queued", "assigned", "joining", "starting", "session", "draining")

Reply = tuple[object, ...]
Owner = tuple[str, int, str, int]
"""Node, incarnation, session, epoch."""

Listed = list[tuple[str, int]]


class ScriptModel(PoolModel):
    """A pool that is changed by scripts only."""

    # Sessions.

    def open_session(self, name: str, queue_size: int, limits: dict[str, int]) -> Reply:
        if name in self.sessions:
            return ("exists", self.sessions[name].state)
        if self.line or self.pick(None) is None:
            newcomers = [n for n in self.line if self.sessions[n].ticket > self.top]
            if len(newcomers) >= queue_size:
                return ("full",)
        self.keep()
        self.sessions[name] = Session(ticket=self.number("ticket"), limits=limits)
        self.sessions[name].at = self.due(name, "queued")
        self.dispatch()
        return ("created", self.sessions[name].state)

    def cancel_session(self, name: str, reason: str) -> Reply:
        if name not in self.sessions:
            return ("gone",)
        s = self.sessions[name]
        if s.state == "draining" or not s.is_live:
            return ("already", s.state)
        self.keep()
        if s.state == "queued":
            self.finish(name, reason)
            return ("ended", s.state)
        self.drain(name, reason)
        return ("draining", s.state)

    def touch_sessions(self, name: str) -> Reply:
        s = self.sessions.get(name)
        if s is not None and s.state == "queued" and s.limits["queued"]:
            self.keep()
            s.at = self.due(name, "queued")
        return ("ok",)

    def advance_session(self, owner: Owner, target: str, stamp: int) -> Reply:
        if not self.owns(*owner):
            return ("fenced",)
        nid, _, name, _ = owner
        s = self.sessions[name]
        if s.state == "draining":
            return ("stop", s.reason)
        if not s.is_live and s.state != target:
            return ("fenced",)
        if s.state != target and target not in STEPS_OF[s.state]:
            return ("illegal", s.state)
        if s.state != target:
            self.keep()
            self._step(nid, name, target, stamp)
        return ("moved", target)

    def _step(self, nid: str, name: str, target: str, stamp: int) -> None:
        if target == "draining":
            self.drain(name, "completed")
            return
        s = self.sessions[name]
        s.state = target
        limit = {"session": s.at["session"]} if "session" in s.at else {}
        if target == "joining_room":
            s.acked, s.at = stamp, limit | self.due(name, "joining")
        elif target == "starting_pipeline":
            s.at = limit | self.due(name, "starting")
        else:
            s.at = limit if s.left is None else {"session": self.rt + s.left}
            s.left = None
            self.forgive(nid)
            self.refresh(nid)
            self.dispatch()

    def end_session(self, owner: Owner, reason: str) -> Reply:
        nid, _, name, epoch = owner
        if self.is_quarantined(nid, name, epoch):
            self.keep()
            self.release(nid, name)
            self.dispatch()
            return ("already",)
        if not self.owns(*owner):
            return ("fenced",)
        if not self.sessions[name].is_live:
            return ("already",)
        self.keep()
        self.finish(name, reason)
        self.dispatch()
        return ("ended", self.sessions[name].reason)

    def give_back(self, owner: Owner, why: str, capacity: int) -> Reply:
        nid, _, name, epoch = owner
        if self.is_quarantined(nid, name, epoch):
            self.keep()
            self.release(nid, name)
            self.dispatch()
            return ("fenced",)
        if not self.owns(*owner) or not self.sessions[name].is_live:
            return ("fenced",)
        self.keep()
        n = self.nodes[nid]
        n.capacity, n.media_ok = capacity, True
        weight = 0
        if why == "service_lost":
            weight = self._service_lost(nid, name, is_down=capacity == 0)
        elif why == "join_failed":
            self.strike(nid)
            weight = self.failure(name, nid)
        outcome = self.back(name, why, weight, self.rt)
        self.dispatch()
        return (outcome,)

    def _service_lost(self, nid: str, name: str, *, is_down: bool) -> int:
        n = self.nodes[nid]
        if is_down and n.mates is None:
            self.strike(nid)
            n.mates = self.mates(nid)
        weight = self.weight(name, n.mates if is_down and n.mates else self.mates(nid))
        if is_down and weight:
            self.sessions[name].mates = f"{nid}@{n.inc}"
        return weight

    # Nodes.

    def register_node(
        self, nid: str, boot: str, previous: int, capacity: int, residents: Listed
    ) -> Reply:
        n = self.nodes.setdefault(nid, Node())
        has_lease, is_older = n.lease is not None, previous < n.inc
        dying = has_lease and n.state == "dead"
        kept = [[m[0], str(m[1])] for m in self.members(nid) if not m[2] and m[:2] in residents]
        if has_lease and not dying and n.boot == boot:
            return ("registered", str(n.inc), kept)
        if has_lease and is_older and previous > 0:
            return ("superseded",)
        self.keep()
        if has_lease and (is_older or dying):
            return ("wait",)
        for name, epoch, quarantined in self.members(nid):
            if (name, epoch) not in residents:
                if quarantined:
                    self.release(nid, name)
                else:
                    self.back(name, "node_lost_it", 0, n.beat)
        n.strangers = self.strangers(nid, residents)
        n.inc, n.boot, n.state, n.capacity = self.number("inc", previous), boot, "idle", capacity
        n.ttl, n.lease, n.beat, n.stamp = TTL_MS, self.rt + TTL_MS, self.rt, 0
        n.media_ok, n.mates = True, None
        if previous == 0:
            self.forgive(nid)
        self.refresh(nid)
        self.dispatch()
        return ("registered", str(n.inc), kept)

    def beat_node(
        self, nid: str, inc: int, stamp: int, report: tuple[str, int, bool], listed: Listed
    ) -> Reply:
        n = self.nodes.get(nid)
        if n is None or inc > n.inc:
            return ("register", "keep")
        if inc != n.inc or n.lease is None or n.state == "dead":
            return ("register", "drop")
        if stamp <= n.stamp:
            return ("stale",)
        self.keep()
        seen = n.beat
        n.stamp, n.beat, n.lease = stamp, self.rt, self.rt + n.ttl
        n.state, n.capacity, n.media_ok = report
        n.mates = None if n.capacity else n.mates
        for name, epoch, quarantined in self.members(nid):
            if (name, epoch) in listed:
                continue
            acked = self.sessions[name].acked
            if quarantined and n.free_after[name] < stamp:
                self.release(nid, name)
            elif not quarantined and acked is not None and acked < stamp:
                self.back(name, "node_lost_it", 1, seen)
        reply = self._converge(nid, listed)
        n.strangers = self.strangers(nid, listed)
        self.refresh(nid)
        self.dispatch()
        return ("ok", *reply)

    def _converge(self, nid: str, listed: Listed) -> Reply:
        owned: list[list[str]] = []
        todo: list[list[str]] = []
        kills: list[list[str]] = []
        members = self.members(nid)
        for name, epoch, quarantined in members:
            if quarantined:
                continue
            s, row = self.sessions[name], [name, str(epoch)]
            owned.append(row)
            if s.state == "draining":
                kills.append([*row, s.reason])
            elif s.state == "assigned" and (name, epoch) not in listed:
                todo.append(row)
        held = {(name, epoch) for name, epoch, quarantined in members if not quarantined}
        kills += [[n, str(e), "fenced"] for n, e in listed if (n, e) not in held]
        return (owned, todo, kills, [])

    def retire_node(self, nid: str, inc: int) -> Reply:
        n = self.nodes.get(nid)
        if n is None or n.inc != inc or n.lease is None:
            return ("gone",)
        self.keep()
        n.lease = None
        self._evacuate(nid, "node_shutdown", self.rt, budget=1024)
        n.state = "dead"
        self.refresh(nid)
        self.dispatch()
        return ("retired",)

    def _evacuate(self, nid: str, why: str, lost_at: int, *, budget: int) -> int:
        """Return how many sessions left; the node's slots are empty if that was all."""
        n, left = self.nodes[nid], 0
        n.mates = n.mates or self.mates(nid)
        for name, _, quarantined in self.members(nid)[:budget]:
            if quarantined:
                del n.slots["!" + name], n.free_after[name]
            else:
                weight = self.weight(name, n.mates) if why == "node_died" else 0
                if weight:
                    self.sessions[name].mates = f"{nid}@{n.inc}"
                self.back(name, why, weight, lost_at)
                left += 1
        if not n.slots:
            n.mates = None
        return left

    # Sweeps.

    def sweep_nodes(self, budget: int) -> Reply:
        self.keep()
        leases = {nid: n.lease for nid, n in self.nodes.items() if n.lease is not None}
        allowed = max(2, len(leases) // 10)
        since, deaths = self.deaths
        if self.rt - since >= 1000:
            since, deaths = self.rt, 0
        dead: list[str] = []
        more = False
        silent = sorted((lease, nid) for nid, lease in leases.items() if lease <= self.rt)
        for _, nid in silent[:allowed]:
            if deaths >= allowed or budget <= 0:
                more = budget <= 0
                break
            n = self.nodes[nid]
            n.state = "dead"
            self.refresh(nid)
            budget -= self._evacuate(nid, "node_died", n.beat, budget=budget)
            if n.slots:
                more = True
                continue
            n.lease = None
            self.strike(nid)
            deaths += 1
            dead.append(nid)
        self.deaths = (since, deaths)
        if not more:
            self.dispatch()
        return ("more" if more else "done", dead)

    def sweep_deadlines(self, budget: int) -> Reply:
        self.keep()
        first = {name: min(s.at.values()) for name, s in self.sessions.items() if s.at}
        due = sorted((at, name) for name, at in first.items() if at <= self.rt)
        for _, name in due[:budget]:
            at = self.sessions[name].at
            self._fire(name, min((k for k in KINDS if k in at), key=lambda kind: at[kind]))
        self.dispatch()
        return ("more" if len(due) > budget else "done",)

    def _fire(self, name: str, kind: str) -> None:
        s = self.sessions[name]
        if kind == "queued":
            s.at = {"queued": self.rt + ASK_AGAIN_MS}
        elif kind == "session" and self.rt - self.nodes[s.node].beat > TTL_MS / 2:
            s.at["session"] = self.rt + 1_000
        elif kind == "session":
            self.drain(name, "session_timeout")
        elif kind == "draining":
            self.finish(name, s.reason, quarantine=True)
        else:
            why = {"assigned": "accept_timeout", "joining": "join_timeout"}.get(
                kind, "start_timeout"
            )
            beaten = self.nodes[s.node].beat > s.assigned_rt
            if beaten and kind != "starting":
                self.strike(s.node)
            weight = self.failure(name, s.node) if beaten else 0
            self.back(name, why, weight, self.rt, quarantine=True)
