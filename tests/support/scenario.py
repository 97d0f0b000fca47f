"""How does a test bring a pool into a state, act once, and see all that changed?

`World` drives the real scripts on a hand-moved server clock, so every number in Redis is known
beforehand. ``call`` compares every key before and after; then it sends the same call again, since
after a lost reply a caller can't know whether it ran, and fails if that changes anything.

Session ``"a"`` is ``default-aaaa…`` (26 times) in Redis and ``a`` in what tests compare.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

import redis

from shared.records import SessionLimits, SessionRecord
from shared.states import SessionState
from shared.store import keys, replies
from shared.store.nodes import digests_of
from shared.store.scripts import Argument, load
from tests.support.key_dump import Changes, changes, dump, kind, short
from tests.support.lua_headers import header
from tests.support.redis_server import POOL, RawRedis

START_MS = 1_800_000_000_000
"""Wall clock and registry time when a world begins, and so the first number that is issued."""

LIMITS = SessionLimits(queued_s=60)

Reply = tuple[str, list[object]]

_WAY = (
    SessionState.ASSIGNED,
    SessionState.JOINING_ROOM,
    SessionState.STARTING_PIPELINE,
    SessionState.RUNNING,
)


@dataclass(slots=True, kw_only=True)
class Life:
    """One life of a node, as that node remembers it."""

    node_id: str
    incarnation: int
    capacity: int
    stamp: int = 0
    residents: dict[str, int] = field(default_factory=dict)
    """Session letter → epoch under which it was accepted."""


def sid(letter: str) -> str:
    """Return the session id that *letter* stands for."""
    return f"{POOL}-{letter * 26}"


def listed(*residents: tuple[object, ...]) -> str:
    """Return rows of a beat or a registration as JSON; the first item is a session's letter."""
    return json.dumps([[sid(str(row[0])), str(row[1]), *row[2:]] for row in residents])


def listed_ids(residents: Iterable[tuple[str, int]]) -> str:
    """Return (session id, epoch) pairs as `listed` does."""
    return json.dumps([[name, str(epoch)] for name, epoch in residents])


def in_full(reply: Reply, beat: Mapping[str, Argument]) -> Reply:
    """Return the reply to a beat; "same" as the one that it stands for."""
    word, fields = reply
    if word != "same":
        return reply
    owned = [row[:2] for row in json.loads(str(beat["residents"]))]
    return "ok", [owned, [], [], [], *fields]


class World:
    """One pool and its clock; sessions and nodes go by short names."""

    def __init__(self, raw: RawRedis) -> None:
        self.raw = raw
        self.now_ms = START_MS
        self.prefix = keys.prefix(POOL)
        self.lives: dict[str, Life] = {}
        self.changes: Changes = {}
        self.called: set[str] = set()
        self.orders = 0
        """How many an operator has given."""

    # Time.

    def pass_time(self, seconds: float) -> None:
        """Let time pass as it does while others keep calling: both clocks move on together."""
        ms = round(seconds * 1000)
        self.now_ms += ms
        self.raw.hset(f"{self.prefix}ctr", "rt", self.registry_ms + ms)
        self.raw.hset(f"{self.prefix}ctr", "rt_wall", self.now_ms)

    def step_clock(self, seconds: float) -> None:
        """Set the server's wall clock, as NTP or an operator does; nobody called meanwhile."""
        self.now_ms += round(seconds * 1000)

    @property
    def registry_ms(self) -> int:
        """Registry time when it was kept last."""
        return int(self.fact("ctr", "rt") or START_MS)

    # Calls.

    def run(self, script: str, /, **named: Argument) -> Reply:
        """Call *script* at the present time."""
        self.called.add(script)
        loaded = load(script)
        arguments = loaded.arguments({"now_ms": self.now_ms, **named})
        try:
            reply = self.raw.evalsha(loaded.digest, 1, self.prefix, *arguments)
        except redis.exceptions.NoScriptError:
            reply = self.raw.eval(loaded.source, 1, self.prefix, *arguments)
        told = loaded.check(reply)
        if script in ("end_session", "give_back") and told[0] != "fenced":
            self._drop(named)
        return told

    def _drop(self, named: Mapping[str, Argument]) -> None:
        """A session leaves its node's list when its end or return was answered (R7)."""
        life = self.lives.get(str(named["node_id"]))
        letter = short(str(named["session_id"]))
        if life is not None and str(life.residents.get(letter)) == str(named["epoch"]):
            del life.residents[letter]

    def call_once(self, script: str, /, **named: Argument) -> Reply:
        """Call *script* and keep what it changed in ``changes``."""
        before = dump(self.raw)
        reply = self.run(script, **named)
        self.changes = changes(before, dump(self.raw))
        undeclared = {kind(fact) for fact in self.changes} - set(header(script).words("Touches"))
        assert not undeclared, f"{script} changed {undeclared}, which its header doesn't list"
        return reply

    def call(self, script: str, /, **named: Argument) -> Reply:
        """Call *script*, keep what it changed, then repeat it: that may change nothing more."""
        reply = self.call_once(script, **named)
        before = dump(self.raw)
        self.run(script, **named)
        repeated = changes(before, dump(self.raw))
        assert not repeated, f"a repeated {script} changed {repeated}"
        return reply

    @contextlib.contextmanager
    def listening(self, channel: str) -> Iterator[Callable[[], str]]:
        """Subscribe to one of the pool's channels; the result gives the next message, or ''."""
        subscriber = self.raw.pubsub()  # type: ignore[no-untyped-call]
        subscriber.subscribe(f"{self.prefix}{channel}")
        assert subscriber.get_message(timeout=1)["type"] == "subscribe"

        def heard() -> str:
            message = subscriber.get_message(timeout=1)
            return str(message["data"]) if message else ""

        yield heard
        subscriber.close()

    # Reading.

    def fact(self, key: str, name: str) -> str:
        """Return one hash field of a pool's key, '' if it isn't there."""
        return cast("str | None", self.raw.hget(f"{self.prefix}{key}", name)) or ""

    def session(self, letter: str) -> SessionRecord:
        """Return a session as any caller reads it."""
        word, fields = self.run("read_session", session_id=sid(letter))
        assert word == "ok", f"there is no session {letter}"
        return replies.session(fields[0])

    def state(self, letter: str) -> str:
        """Return a session's state and, where it has one, its node: ``running n1``."""
        return f"{self.fact(self._s(letter), 'state')} {self.fact(self._s(letter), 'node')}".strip()

    def epoch(self, letter: str) -> int:
        """Return a session's present epoch."""
        return int(self.fact(self._s(letter), "epoch"))

    def count(self, letter: str) -> int:
        """Return what its accidents of the last ten minutes cost a session, as last written."""
        entries = self.fact(self._s(letter), "counts").split()
        return sum(int(entry.split(":")[1]) for entry in entries)

    def line(self) -> str:
        """Return the waiting sessions in order, by their letters."""
        return "".join(map(short, cast("list[str]", self.raw.zrange(f"{self.prefix}q", 0, -1))))

    def slots(self, node_id: str = "n1") -> list[str]:
        """Return what takes a node's slots: letters, quarantined ones with their ``!``."""
        members = cast("list[str]", self.raw.zrange(f"{self.prefix}ns:{node_id}", 0, -1))
        return sorted(map(short, members))

    def free(self) -> list[str]:
        """Return the nodes that may be given a session, best first."""
        return cast("list[str]", self.raw.zrange(f"{self.prefix}free", 0, -1))

    # Arguments of calls.

    def opening(self, letter: str, **named: Argument) -> dict[str, Argument]:
        """Arguments of `open_session`."""
        return {
            "session_id": sid(letter),
            "idempotency_hash": "",
            "fingerprint": "",
            "queue_size": 100,
            "identity_hash": "",
            "most_waiting": 0,
            "most_active": 0,
            "identity": "ann",
            "request": "{}",
            **replies.limits(LIMITS),
            **named,
        }

    def registration(self, node_id: str, **named: Argument) -> dict[str, Argument]:
        """Arguments of `register_node` for a fresh process."""
        return {
            "node_id": node_id,
            "boot_id": f"boot-of-{node_id}",
            "previous": 0,
            "ttl_ms": 10_000,
            "capacity": 1,
            "state": "idle",
            "profile": "{}",
            "start_ms": 0,
            "session_capacity": "null",
            "options": "{}",
            "residents": "[]",
            **named,
        }

    def beat_of(self, node_id: str, **named: Argument) -> dict[str, Argument]:
        """Arguments of the next beat of a node, with a new stamp and what it holds."""
        life = self.lives[node_id]
        life.stamp += 1
        told: dict[str, Argument] = {
            "node_id": node_id,
            "incarnation": life.incarnation,
            "stamp": life.stamp,
            "state": "busy" if life.residents else "idle",
            "capacity": life.capacity,
            "draining": 0,
            "media_ok": 1,
            "residents": listed(*life.residents.items()),
            "ended": "[]",
            "gpus": "",
            **named,
        }
        return told | digests_of(told)

    def owner(self, letter: str) -> dict[str, Argument]:
        """Who holds a session now, as its node quotes it."""
        node_id = self.fact(self._s(letter), "node")
        return {
            "node_id": node_id,
            "incarnation": self.lives[node_id].incarnation,
            "session_id": sid(letter),
            "epoch": self.epoch(letter),
        }

    def frame(self, letter: str, *, ago_ms: int = 0) -> dict[str, Argument]:
        """Arguments of `note_first_frame` by the session's owner."""
        return {**self.owner(letter), "ago_ms": ago_ms}

    def step(self, letter: str, target: str, **named: Argument) -> dict[str, Argument]:
        """Arguments of `advance_session` by the session's owner."""
        life = self.lives[self.fact(self._s(letter), "node")]
        quoted: dict[str, Argument] = {"stamp": life.stamp, "reason": "", "pipeline_session_id": ""}
        return {**self.owner(letter), "target": target, **quoted, **named}

    def giving(self, letter: str, why: str, **named: Argument) -> dict[str, Argument]:
        """Arguments of `give_back` by the session's node, which can serve nobody now."""
        state: dict[str, Argument] = {
            "capacity": 0,
            "media_ok": 1,
            "unplayed_ms": 0,
            "earlier_ms": 0,
        }
        return {**self.owner(letter), "why": why, **state, **named}

    def order(self, node_id: str, admin: str, **named: Argument) -> dict[str, Argument]:
        """Arguments of `set_node_admin` by somebody who has just looked at the node."""
        self.orders += 1
        return {
            "node_id": node_id,
            "admin": admin,
            "move_in_ms": "",
            "order": f"order-{self.orders}",
            "replaces": self.fact(f"n:{node_id}", "order"),
            **named,
        }

    def limit(self, node_id: str, capacity: int | str, **named: Argument) -> dict[str, Argument]:
        """Arguments of `set_node_capacity` by somebody who has just looked at the node."""
        self.orders += 1
        return {
            "node_id": node_id,
            "capacity": capacity,
            "order": f"order-{self.orders}",
            "replaces": self.fact(f"n:{node_id}", "order"),
            **named,
        }

    # Seeding.

    def add_node(self, node_id: str = "n1", *, capacity: int = 1, **named: Argument) -> Life:
        """Register a fresh process and remember its life."""
        word, fields = self.run(
            "register_node", **self.registration(node_id, capacity=capacity, **named)
        )
        assert word == "registered"
        life = Life(node_id=node_id, incarnation=int(str(fields[0])), capacity=capacity)
        self.lives[node_id] = life
        return life

    def beat(self, node_id: str = "n1", **named: Argument) -> Reply:
        """Send a node's next beat; "same" is returned as what it stands for."""
        beat = self.beat_of(node_id, **named)
        return in_full(self.run("beat_node", **beat), beat)

    def open(self, *letters: str, **named: Argument) -> None:
        """Open sessions, one after the other."""
        for letter in letters:
            assert self.run("open_session", **self.opening(letter, **named))[0] == "created"

    def bring(self, letter: str, target: str, **named: Argument) -> None:
        """Open a session if need be and lead it to *target*, as its node does."""
        if not self.raw.exists(f"{self.prefix}{self._s(letter)}"):
            self.open(letter, **named)
        for state in _WAY[1 : _WAY.index(SessionState(target)) + 1]:
            if state is SessionState.JOINING_ROOM:
                self.accept(letter)
            else:
                assert self.run("advance_session", **self.step(letter, state))[0] == "moved"

    def accept(self, letter: str) -> None:
        """Let the session's node take it: it lists it first, then says so."""
        life = self.lives[self.fact(self._s(letter), "node")]
        life.residents[letter] = self.epoch(letter)
        assert self.run("advance_session", **self.step(letter, "joining_room"))[0] == "moved"

    def restart(self) -> None:
        """Let the server be another run of itself: it came back, or another one took over (R6)."""
        self.raw.hset(f"{self.prefix}ctr", "run", "0" * 40)

    def bundle(self, letter: str) -> str:
        """What a node keeps of a session (R14)."""
        word, fields = self.run("read_bundle", session_id=sid(letter))
        assert word == "ok", f"there is no session {letter}"
        return str(fields[0])

    def claim(
        self, node_id: str, letter: str, epoch: int, bundle: str, **named: Argument
    ) -> dict[str, Argument]:
        """Arguments of `adopt_session` by a node that plays a session."""
        life = self.lives[node_id]
        return {
            "node_id": node_id,
            "incarnation": life.incarnation,
            "session_id": sid(letter),
            "epoch": epoch,
            "stamp": life.stamp,
            "state": "running",
            "bundle": bundle,
            "age_ms": 0,
            **named,
        }

    def kill(self, node_id: str) -> None:
        """Let a node fall silent until the registry declares it dead."""
        self.pass_time(10)
        word, (dead, _, _) = self.run("sweep_nodes", budget=64)
        assert (word, dead) == ("done", [node_id])

    def _s(self, letter: str) -> str:
        return f"s:{sid(letter)}"
