"""What should the scripts of sessions and of the sweeps do, and answer?

One method per script, with what matters of its arguments. A reply is the script's word and fields,
sessions in it reduced to their state.
"""

from __future__ import annotations

from shared.states import SESSION_MOVES
from tests.model.node_model import TTL_MS, NodeModel, Owner, Reply
from tests.model.pool_model import Session

STEPS = ("joining_room", "starting_pipeline", "running", "draining")
STEPS_OF: dict[str, set[str]] = {
    state: {move for move in moves if move in STEPS} for state, moves in SESSION_MOVES.items()
}
ASK_AGAIN_MS = 10_000
KINDS = ("queued", "assigned", "joining", "starting", "session", "draining")


class ScriptModel(NodeModel):
    """A pool that is changed by scripts only."""

    # Sessions.

    def open_session(
        self, name: str, queue_size: int, limits: dict[str, int], idem: str = ""
    ) -> Reply:
        if (known := self.idem.get(idem, name)) not in self.sessions:
            known = name
        if known in self.sessions:
            self.touch_sessions(known)  # whoever asks again is there
            return ("exists", self.sessions[known].state)
        if self.gen and not self.knows_run:
            self.keep()
        if self.line or self.is_held() or self.pick(None) is None:
            newcomers = [n for n in self.line if self.sessions[n].ticket > self.top]
            if len(newcomers) >= queue_size:
                return ("full",)
        self.keep()
        self.sessions[name] = Session(ticket=self.number("ticket"), limits=limits, idem=idem)
        if idem:
            self.idem[idem] = name
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
        n.capacity, n.media_ok = capacity, why != "media_lost"
        weight = 0
        if why in ("service_lost", "gpu_lost"):
            weight = self._service_lost(nid, name, is_down=capacity == 0)
        elif why == "join_failed":
            self.strike(nid)
            weight = self.failure(name, nid)
        outcome = self.back(name, why, weight, self.rt)
        if why == "node_drained":  # its node lists it until it has cleaned up
            n.strangers += 1
            self.refresh(nid)
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
        silent = [] if self.in_grace else silent
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
        due = [] if self.in_grace else due
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
            beaten = self.nodes[s.node].beat > (s.assigned_rt or 0)
            if beaten and kind != "starting":
                self.strike(s.node)
            weight = self.failure(name, s.node) if beaten else 0
            self.back(name, why, weight, self.rt, quarantine=True)
