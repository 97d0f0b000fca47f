"""How is one call sent to the scripts and to the model, and what is compared?

Replies, and all that is in Redis. Beside the model stand the audit and what may never happen, both
read from Redis alone: a rule that scripts and model got wrong in the same way shows there. Both
sides can be taken back to an earlier moment, as a server that lost the tail of its log.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from shared.store.keys import prefix
from tests.model.invariants import Invariants, Remembered
from tests.model.node_model import Bundle, Reply, in_order
from tests.model.pool_model import Session
from tests.model.script_model import ScriptModel
from tests.support.audit import DEADLINES, Pool, violations
from tests.support.key_dump import Key, read_all
from tests.support.redis_server import POOL, RawRedis
from tests.support.scenario import World, in_full

RESTART_MS = 300
"""A server that was killed takes at least so long to answer again."""

_REMEMBER = """
redis.call('SELECT', 1)
redis.call('FLUSHDB')
redis.call('SELECT', 0)
for _, name in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', name, name, 'DB', 1) end
"""
_COME_BACK = """
redis.call('FLUSHDB')
redis.call('SELECT', 1)
for _, name in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', name, name, 'DB', 0) end
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call as the model and as the scripts want it."""

    script: str
    model: tuple[object, ...]
    real: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """All that is lost when the registry comes back to it."""

    model: ScriptModel
    seen: Remembered


class BothSides:
    """A pool in Redis and its model, under one clock."""

    def __init__(self, raw: RawRedis) -> None:
        raw.flushall()
        self.world = World(raw)
        self.model = ScriptModel()
        self.calls: list[Call] = []
        self.invariants = Invariants()
        self._found: list[Key] = []
        self._moment: Moment | None = None
        self.is_agreed = True
        """False from the start of a call until all was compared."""

    def send(self, call: Call) -> Reply:
        """Send one call to both sides and compare."""
        self.is_agreed = False
        self.model.look_at_clock(self.world.now_ms)
        expected = getattr(self.model, call.script)(*call.model)
        word, fields = in_full(self.world.run(call.script, **call.real), call.real)
        got = _told(call.script, word, fields)
        assert got == expected
        self._found = read_all(self.world.raw)
        self._agree(self._found)
        known = ("a ticket was given out twice",) if self.invariants.may_reissue else ()
        assert [wrong for wrong in violations(self._found) if wrong not in known] == []
        if call.script.startswith("sweep_"):
            acted_on: list[Any] = fields[1:] if call.script == "sweep_nodes" else fields
            assert sum(len(rows) for rows in acted_on) <= int(call.real["budget"])
        self.is_agreed = True
        return got

    def repeat(self, call: Call) -> None:
        """Send the last call once more in the same instant: nothing may change."""
        self.world.run(call.script, **call.real)
        again = read_all(self.world.raw)
        assert _lasting(again) == _lasting(self._found), "a repeat changed something"

    def pack(self, name: str) -> tuple[str, Bundle] | None:
        """Return what a node keeps of a session, for the scripts and for the model."""
        self.model.look_at_clock(self.world.now_ms)
        kept = self.model.pack(name)
        word, fields = self.world.run("read_bundle", session_id=name)
        assert (word == "ok") == (kept is not None)
        return None if kept is None else (str(fields[0]), kept)

    # Loss of data.

    def remember(self) -> None:
        """What comes from now on may be lost."""
        self.world.raw.eval(_REMEMBER, 0)
        self._moment = Moment(model=copy.deepcopy(self.model), seen=self.invariants.remember())

    @property
    def can_lose(self) -> bool:
        """Whether there is a moment to come back to."""
        return self._moment is not None

    def lose(self, *, everything: bool) -> None:
        """The server is another run of itself, without what came after, or without anything."""
        self.world.now_ms += RESTART_MS
        self.world.raw.script_flush()
        if everything or self._moment is None:
            self.world.raw.flushdb()
            moment = Moment(model=ScriptModel(), seen=Remembered())
        else:
            self.world.raw.eval(_COME_BACK, 0)
            moment = self._moment
        self.model = copy.deepcopy(moment.model)
        self.model.knows_run = False
        if self.world.fact("ctr", "run"):
            self.world.restart()
        self.invariants.lose(moment.seen, self.world.now_ms)
        self._found = read_all(self.world.raw)

    # Comparing.

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
        run = {"gen": model.gen, "grace": model.grace, "hold": model.hold}
        assert {name: int(pool.ctr.get(name, 0)) for name in run} == run
        self.invariants.check(pool, brought=model.brought)


def _told(script: str, word: str, fields: list[Any]) -> Reply:
    """Reduce a script's reply to what the model says."""
    if script in ("open_session", "cancel_session"):
        return (word, *(session[1] for session in fields))
    if script in ("touch_sessions", "sweep_deadlines") or word == "wait":
        return (word,)
    if script == "sweep_nodes":
        return (word, fields[0])
    if script == "beat_node" and word == "ok":
        return (word, *map(in_order, fields[:4]), *fields[4:])
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
