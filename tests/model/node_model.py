"""What should the scripts of nodes do, and answer: lives, beats, and what a node brings back?

One method per script, with what matters of its arguments. A reply is the script's word and fields,
sessions in it reduced to their state, lists in the order of their epochs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.model.pool_model import Node, PoolModel, Session

TTL_MS = 10_000
STEP = {"assigned": 1, "joining_room": 2, "starting_pipeline": 3, "running": 4}

Reply = tuple[object, ...]
Owner = tuple[str, int, str, int]
"""Node, incarnation, session, epoch."""

Listed = list[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a node says of itself, and of what it holds and held, in one beat."""

    state: str
    capacity: int
    media_ok: bool
    draining: bool
    steps: dict[tuple[str, int], str]
    """What it holds (session, epoch), and how far each has come; '' before its first step."""
    ended: tuple[tuple[str, int, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What a node keeps of a session (R14)."""

    session: Session
    left: int | None
    """What was left of its limit."""
    print: str | None
    """Whose its idempotency key was."""


class NodeModel(PoolModel):
    """A pool whose nodes come, beat, bring back and go."""

    def register_node(
        self, nid: str, boot: str, previous: int, capacity: int, residents: Listed
    ) -> Reply:
        n = self.nodes.setdefault(nid, Node())
        residents = self.follow_rebases(nid, residents)
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
                elif not self.in_grace:
                    self.back(name, "node_lost_it", 0, n.beat)
                elif self.sessions[name].acked is not None:
                    self.sessions[name].acked = 0
        self.last["ttl"] = TTL_MS
        for number in ("epoch", "ticket"):
            self.fold(number, max((epoch for _, epoch in residents), default=0))
        n.strangers = self.strangers(nid, residents)
        n.inc, n.boot, n.state, n.capacity = self.number("inc", previous), boot, "idle", capacity
        n.ttl, n.lease, n.beat, n.stamp = TTL_MS, self.rt + TTL_MS, self.rt, 0
        n.media_ok, n.mates, n.draining, n.gen = True, None, False, self.gen
        if previous == 0:
            self.forgive(nid)
        self.refresh(nid)
        self.dispatch()
        return ("registered", str(n.inc), kept)

    def beat_node(self, nid: str, inc: int, stamp: int, report: Report) -> Reply:
        n = self.nodes.get(nid)
        if n is None or inc > n.inc:
            return ("register", "keep")
        if inc != n.inc or n.lease is None or n.state == "dead":
            return ("register", "drop")
        if stamp <= n.stamp:
            return ("stale",)
        self.keep()
        seen = n.beat
        n.stamp, n.beat, n.lease, n.gen = stamp, self.rt, self.rt + n.ttl, self.gen
        n.state, n.capacity, n.media_ok = report.state, report.capacity, report.media_ok
        n.draining, n.mates = report.draining, None if n.capacity else n.mates
        listed = self.follow_rebases(nid, list(report.steps))
        self.fold("epoch", max((epoch for _, epoch in listed), default=0))
        for name, epoch, reason in report.ended:
            if self.may_end(nid, name, epoch):
                self.finish(name, reason)
        self._miss(nid, stamp, seen, listed)
        reply = self._converge(nid, listed, list(report.steps.values()))
        n.strangers = self.strangers(nid, listed)
        self.refresh(nid)
        self.dispatch()
        if n.move_at is None:
            return ("ok", *reply)
        return ("ok", *reply, str(max(n.move_at - self.rt, int(self.in_grace))))

    def _miss(self, nid: str, stamp: int, seen: int, listed: Listed) -> None:
        """What the node should hold and doesn't list is lost, or cleaned up."""
        for name, epoch, quarantined in self.members(nid):
            if (name, epoch) in listed:
                continue
            if quarantined:
                if self.nodes[nid].free_after[name] < stamp:
                    self.release(nid, name)
            elif not self.in_grace:
                acked = self.sessions[name].acked
                if acked is not None and acked < stamp:
                    self.back(name, "node_lost_it", 1, seen)

    def _converge(self, nid: str, listed: Listed, steps: list[str]) -> Reply:
        owned: list[list[str]] = []
        todo: list[list[str]] = []
        kills: list[list[str]] = []
        adopt: list[list[str]] = []
        held: dict[tuple[str, int], str] = {}
        for name, epoch, quarantined in self.members(nid):
            if quarantined:
                continue
            s, row = self.sessions[name], [name, str(epoch)]
            held[name, epoch] = s.state
            owned.append(row)
            if s.state == "draining":
                kills.append([*row, s.reason])
            elif s.state == "assigned" and (name, epoch) not in listed:
                todo.append(row)
        for (name, epoch), step in zip(listed, steps, strict=True):
            row = [name, str(epoch)]
            if (known := held.get((name, epoch))) is not None:
                if is_behind(known, step):
                    adopt.append(row)
            elif self.may_adopt(nid, name, epoch):
                adopt.append(row)
            else:
                kills.append([*row, "fenced"])
        return tuple(in_order(rows) for rows in (owned, todo, kills, adopt))

    # After a loss of data.

    def follow_rebases(self, nid: str, listed: Listed) -> Listed:
        """The same list under the epochs of now."""
        known = {(name, epoch) for name, epoch, _ in self.members(nid)} if nid in self.nodes else ()
        followed = []
        for name, epoch in listed:
            s = self.sessions.get(name)
            now = epoch if s is None else s.epoch
            is_old = s is not None and s.node == nid and s.rebased == epoch
            is_old = is_old and (name, epoch) not in known and (name, now) in known
            followed.append((name, now if is_old else epoch))
        return followed

    def claim(self, name: str, epoch: int) -> str:
        """How a claim stands to the record: of two, the higher one wins."""
        s = self.sessions.get(name)
        if s is None:
            return "unknown"
        if not s.is_live:
            return "ended"
        return "same" if s.epoch == epoch else "newer" if epoch > s.epoch else "older"

    def may_adopt(self, nid: str, name: str, epoch: int) -> bool:
        claim = self.claim(name, epoch)
        return claim in ("newer", "unknown") and not self.is_quarantined(nid, name, epoch)

    def may_end(self, nid: str, name: str, epoch: int) -> bool:
        claim = self.claim(name, epoch)
        if claim == "same":
            return self.sessions[name].node == nid
        return claim == "newer" and not self.is_quarantined(nid, name, epoch)

    def pack(self, name: str) -> Bundle | None:
        s = self.sessions.get(name)
        if s is None:
            return None
        left = max(s.at["session"] - self.rt, 0) if "session" in s.at else None
        print_ = self.idem.get(s.idem) if s.idem else None
        return Bundle(session=replace(s), left=left, print=print_)

    def adopt_session(
        self, owner: Owner, stamp: int, state: str, bundle: Bundle, age_ms: int
    ) -> Reply:
        nid, inc, name, epoch = owner
        mine = self.owns(*owner)
        if mine and not is_behind(self.sessions[name].state, state):
            return ("adopted",)
        n = self.nodes.get(nid)
        if n is None or n.inc != inc or n.state == "dead" or n.lease is None:
            return ("fenced",)
        if not (mine or self.may_adopt(nid, name, epoch)):
            return ("fenced",)
        self.keep()
        self.fold("epoch", epoch)
        self.fold("ticket", bundle.session.ticket)
        if not mine and name in self.sessions:
            self.leave_slot(name)
        s = self._restore(name, bundle)
        s.node, s.epoch, s.acked = nid, epoch, stamp
        if s.state != "draining":
            s.state = state
            self._resume(name, bundle.left, age_ms)
        self.top = max(self.top, s.ticket)
        n.slots[name] = epoch
        n.strangers -= int(not mine and n.strangers > 0)
        self.refresh(nid)
        return ("adopted",)

    def _restore(self, name: str, bundle: Bundle) -> Session:
        kept = bundle.session
        if name not in self.sessions:
            self.brought += 1
        s = self.sessions.setdefault(name, Session(ticket=kept.ticket, limits=kept.limits))
        s.ticket, s.attempt, s.admitted = kept.ticket, kept.attempt, kept.admitted
        s.limits = kept.limits
        s.counts, s.failed_on = kept.counts or s.counts, kept.failed_on or s.failed_on
        s.mates = kept.mates or s.mates
        s.left = s.left if kept.left is None else kept.left
        if kept.idem:
            s.idem = kept.idem
            if bundle.print and self.idem.setdefault(kept.idem, bundle.print) != bundle.print:
                s.idem = ""
        return s

    def _resume(self, name: str, kept_left: int | None, age_ms: int) -> None:
        s = self.sessions[name]
        s.at = {}
        if s.state in ("joining_room", "starting_pipeline"):
            s.at = self.due(name, "joining" if s.state == "joining_room" else "starting")
        left = None if kept_left is None else max(kept_left - age_ms, 0)
        if left is None and s.state == "running":
            left = s.left
        if left is not None:
            s.at["session"], s.left = self.rt + left, None

    def rebase_epoch(self, owner: Owner, seen: int) -> Reply:
        nid, inc, name, epoch = owner
        s, n = self.sessions.get(name), self.nodes.get(nid)
        if s is None or n is None:
            return ("fenced",)
        if s.node == nid and s.rebased == epoch and n.inc == inc:
            return ("rebased", str(s.epoch))
        if not self.owns(*owner) or n.slots.get(name) != epoch:
            return ("fenced",)
        if epoch > seen:
            return ("rebased", str(epoch))
        self.keep()
        if self.in_grace:
            return ("wait",)
        self.fold("epoch", seen)
        s.rebased, s.epoch = epoch, self.number("epoch")
        n.slots[name] = s.epoch
        return ("rebased", str(s.epoch))

    # Ways out.

    def set_node_admin(
        self, nid: str, admin: str, move_in_ms: int | None, order: str, replaces: str
    ) -> Reply:
        n = self.nodes.get(nid)
        if n is None:
            return ("gone",)
        if n.order not in (order, replaces):
            return ("changed",)
        self.keep()
        if n.order != order:
            n.admin, n.order = admin, order
            n.move_at = None if move_in_ms is None else self.rt + move_in_ms
            self.refresh(nid)
        held = str(n.used)
        self.dispatch()
        return ("set", held)

    def set_node_capacity(self, nid: str, capacity: int | None, order: str, replaces: str) -> Reply:
        n = self.nodes.get(nid)
        if n is None:
            return ("gone",)
        if n.order not in (order, replaces):
            return ("changed",)
        self.keep()
        if n.order != order:
            n.limit, n.order = capacity, order
            self.refresh(nid)
        held = str(n.used)
        self.dispatch()
        return ("set", held)

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


def is_behind(known: str, step: str) -> bool:
    """Whether the record stands before a step that was already confirmed to its node."""
    return known in STEP and step in STEP and STEP[known] < STEP[step]


def in_order(rows: list[list[str]]) -> list[list[str]]:
    """Rows that begin with session and epoch, by epoch."""
    return sorted(rows, key=lambda row: (int(row[1]), row))
