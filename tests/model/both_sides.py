"""How is one call sent to the scripts and to the model, and what is compared?

Replies, and all that is in Redis. Beside the model stand the audit and what may never happen, both
read from Redis alone: a rule that scripts and model got wrong in the same way shows there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shared.store.keys import prefix
from tests.model.pool_model import Session
from tests.model.script_model import Owner, Reply, ScriptModel
from tests.support.audit import DEADLINES, Pool, violations
from tests.support.key_dump import Key, read_all
from tests.support.redis_server import POOL, RawRedis
from tests.support.scenario import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call as the model and as the scripts want it."""

    script: str
    model: tuple[object, ...]
    real: dict[str, Any]


class BothSides:
    """A pool in Redis and its model, under one clock."""

    def __init__(self, raw: RawRedis) -> None:
        raw.flushall()
        self.world = World(raw)
        self.model = ScriptModel()
        self.calls: list[Call] = []
        self.owners: list[Owner] = []
        """Every assignment that ever was, oldest first."""
        self._found: list[Key] = []
        self._epochs: dict[str, int] = {}
        self._ends: dict[str, tuple[str, str]] = {}

    def send(self, call: Call) -> Reply:
        """Send one call to both sides and compare."""
        self.model.look_at_clock(self.world.now_ms)
        expected = getattr(self.model, call.script)(*call.model)
        word, fields = self.world.run(call.script, **call.real)
        got = _told(call.script, word, fields)
        assert got == expected
        self._found = read_all(self.world.raw)
        self._agree(self._found)
        assert violations(self._found) == []
        return got

    def repeat(self, call: Call) -> None:
        """Send the last call once more in the same instant: nothing may change."""
        self.world.run(call.script, **call.real)
        again = read_all(self.world.raw)
        assert _lasting(again) == _lasting(self._found), "a repeat changed something"

    def _agree(self, found: list[Key]) -> None:
        pool, model = Pool(found, prefix(POOL)), self.model
        assert {name: _seen(record) for name, record in pool.sessions.items()} == {
            name: _expected(session) for name, session in model.sessions.items()
        }
        assert list(pool.line) == model.line
        nodes = model.nodes.items()
        assert pool.nodes == {nid: node.lease for nid, node in nodes if node.lease is not None}
        assert pool.members == {nid: node.slots for nid, node in nodes if node.slots}
        assert pool.free == model.free
        self._never(pool)

    def _never(self, pool: Pool) -> None:
        """Numbers don't fall, ends don't change, nobody is overtaken, nothing is lost."""
        for name, session in pool.sessions.items():
            epoch, node = int(session["epoch"]), session["node"]
            assert epoch >= self._epochs.get(name, 0)
            self._epochs[name] = epoch
            if name in pool.live and node:
                self._note_owner((node, int(pool.records[node]["inc"]), name, epoch))
            if name not in pool.live:
                end = (session["state"], session["reason"])
                assert self._ends.setdefault(name, end) == end
        served = {int(s["ticket"]) for s in pool.sessions.values() if "admitted" in s}
        newcomers = {int(pool.sessions[name]["ticket"]) for name in pool.line} - served
        assert max(served, default=0) < min(newcomers, default=2**53)
        assert int(pool.ctr.get("n_opened", 0)) == len(pool.sessions)

    def _note_owner(self, owner: Owner) -> None:
        node, _, name, epoch = owner
        assert not any(o[2:] == (name, epoch) and o[0] != node for o in self.owners)
        if owner not in self.owners:
            self.owners.append(owner)


def _told(script: str, word: str, fields: list[Any]) -> Reply:
    """Reduce a script's reply to what the model says."""
    if script in ("open_session", "cancel_session"):
        return (word, *(session[1] for session in fields))
    if script in ("touch_sessions", "sweep_deadlines") or word == "wait":
        return (word,)
    if script == "sweep_nodes":
        return (word, fields[0])
    return (word, *fields)


def _seen(record: dict[str, str]) -> dict[str, object]:
    at = {kind: int(record[f"t_{kind}"]) for kind in DEADLINES if f"t_{kind}" in record}
    return {
        "state": record["state"],
        "node": record["node"],
        "epoch": int(record["epoch"]),
        "attempt": int(record["attempt"]),
        "counts": record.get("counts", ""),
        "reason": record.get("reason", ""),
        "at": at,
    }


def _expected(session: Session) -> dict[str, object]:
    return {
        "state": session.state,
        "node": session.node,
        "epoch": session.epoch,
        "attempt": session.attempt,
        "counts": " ".join(f"{at}:{weight}" for at, weight in session.counts),
        "reason": session.reason,
        "at": session.at,
    }


def _lasting(found: list[Key]) -> list[tuple[str, dict[str, str]]]:
    return [(key.name, key.parts) for key in found]
