"""Does a pool's registry agree with itself?

Read straight from Redis, without our scripts: every session in exactly one place, `free` and `dl`
derived as they should be, no key that nobody owns. A sound registry passes between any two calls.
"""

from __future__ import annotations

from collections.abc import Iterator

from shared.states import ENDED_STATES
from shared.store.keys import kind_of
from tests.support.key_dump import Key

DEADLINES = (
    "queued",
    "assigned",
    "joining",
    "controller",
    "room_empty",
    "starting",
    "session",
    "draining",
)


class Pool:
    """One pool's keys, as of one instant."""

    def __init__(self, found: list[Key], prefix: str) -> None:
        self.keys = {
            key.name.removeprefix(prefix): key for key in found if key.name.startswith(prefix)
        }
        self.ctr = self.fields("ctr")
        self.rt = int(self.ctr.get("rt", 0))
        self.line = self.scores("q")
        self.nodes = self.scores("nodes")
        self.free = self.scores("free")
        self.deadlines = self.scores("dl")
        self.sessions = {name: self.fields(f"s:{name}") for name in self._ids("s")}
        self.records = {name: self.fields(f"n:{name}") for name in self._ids("n")}
        self.members = {name: self.scores(f"ns:{name}") for name in self._ids("ns")}
        self.live = {
            name: session
            for name, session in self.sessions.items()
            if session["state"] not in ENDED_STATES
        }

    def fields(self, key: str) -> dict[str, str]:
        """Return a hash, empty if it isn't there."""
        return self.keys[key].parts if key in self.keys else {}

    def scores(self, key: str) -> dict[str, float]:
        """Return a sorted set, empty if it isn't there."""
        return {member: float(score) for member, score in self.fields(key).items()}

    def _ids(self, kind: str) -> list[str]:
        return [
            name for start, _, name in (key.partition(":") for key in self.keys) if start == kind
        ]


def violations(found: list[Key]) -> list[str]:
    """Return what is wrong in any pool, in words; empty for a sound registry."""
    names = [key.name for key in found]
    wrong = [f"{name} belongs to no row of the key table" for name in names if not kind_of(name)]
    for prefix in sorted({name.split("}:")[0] + "}:" for name in names if kind_of(name)}):
        pool = Pool(found, prefix)
        for check in (_places, _line, _slots, _free, _deadlines, _lifetimes, _images, _identities):
            wrong += check(pool)
    return wrong


def _places(pool: Pool) -> Iterator[str]:
    """Every live session stands in exactly one place, and its record says the same."""
    places: dict[str, list[str]] = {name: ["q"] for name in pool.line}
    for node, members in pool.members.items():
        for member in members:
            if not member.startswith("!"):
                places.setdefault(member, []).append(node)
    for name in places.keys() - pool.live.keys():
        yield f"{name} is in {places[name]} and isn't live"
    for name, session in pool.live.items():
        place = "q" if session["state"] == "queued" else session["node"]
        if places.get(name) != [place]:
            yield f"{name} is {session['state']} on {session['node']!r} and in {places.get(name)}"


def _line(pool: Pool) -> Iterator[str]:
    """The line is ordered by tickets, which are given out once."""
    for name, score in pool.line.items():
        if name in pool.sessions and int(pool.sessions[name]["ticket"]) != score:
            yield f"{name} waits at {score} with ticket {pool.sessions[name]['ticket']}"
    tickets = [session["ticket"] for session in pool.sessions.values()]
    if len(tickets) != len(set(tickets)):
        yield "a ticket was given out twice"


def _slots(pool: Pool) -> Iterator[str]:
    """A slot is held under the session's epoch, on a node that has a lease."""
    for node, members in pool.members.items():
        if node not in pool.nodes:
            yield f"{node} has no lease and holds {sorted(members)}"
        for name, epoch in members.items():
            if name.startswith("!"):
                if name not in pool.records[node]:
                    yield f"{node} holds {name} and doesn't know from which stamp on it may go"
            elif name in pool.live and int(pool.live[name]["epoch"]) != epoch:
                yield f"{name} holds a slot under {epoch}, its epoch is {pool.live[name]['epoch']}"
    for node, record in pool.records.items():
        for name in record:
            if name.startswith("!") and name not in pool.members.get(node, {}):
                yield f"{node} still knows of {name}, which holds no slot"


def _free(pool: Pool) -> Iterator[str]:
    """`free` holds the nodes with room, and only while they may be given a session."""
    for node, lease in pool.nodes.items():
        record = pool.records[node]
        used = len(pool.members.get(node, {})) + int(record.get("strangers", 0))
        capacity = int(record["capacity"])
        capacity = min(capacity, int(record.get("admin_capacity", capacity)))
        usable = record["state"] in ("idle", "busy") and record["draining"] == "0"
        usable = usable and record["media_ok"] == "1" and used < capacity
        usable = usable and record.get("admin") != "draining"
        usable = usable and record.get("gen") in (None, pool.ctr.get("gen"))
        resting = int(record.get("rest", 0)) > int(record["beat"])
        if node in pool.free and not usable:
            yield f"{node} is free and may not be given a session"
        if usable and lease > pool.rt and not resting and node not in pool.free:
            yield f"{node} has room and isn't free"
        if node in pool.free and abs(pool.free[node] - used / max(capacity, 1)) > 1e-9:
            yield f"{node} is free at {pool.free[node]} with {used} of {capacity} used"
    for node in pool.free.keys() - pool.nodes.keys():
        yield f"{node} is free and has no lease"


def _deadlines(pool: Pool) -> Iterator[str]:
    """`dl` holds the earliest deadline of each live session that has any."""
    for name, session in pool.sessions.items():
        at = [int(session[f"t_{kind}"]) for kind in DEADLINES if f"t_{kind}" in session]
        first = min(at) if at else None
        if pool.deadlines.get(name) != first:
            yield f"{name} has deadlines {at} and stands in dl at {pool.deadlines.get(name)}"
        if at and name not in pool.live:
            yield f"{name} has ended and keeps deadlines {at}"
    for name in pool.deadlines.keys() - pool.sessions.keys():
        yield f"{name} has a deadline and no record"


def _lifetimes(pool: Pool) -> Iterator[str]:
    """What lives for ever is listed, or belongs to a live session or node."""
    for name, key in pool.keys.items():
        kind = kind_of(key.name)
        owner = name.split(":", 1)[-1]
        if kind is None or kind.lasting or key.ttl_ms >= 0:
            continue
        if kind.suffix == "idem:<hash>":
            owner = key.parts[""].split()[0]
        if owner not in pool.live and owner not in pool.nodes:
            yield f"{name} would stay for ever: nothing live owns it"
    for name in pool.live:
        if pool.keys[f"s:{name}"].ttl_ms >= 0:
            yield f"s:{name} is live and would vanish"


def _identities(pool: Pool) -> Iterator[str]:
    """Only live sessions count for an identity."""
    for name in pool.keys:
        if name.startswith("id:") and (gone := pool.fields(name).keys() - pool.live.keys()):
            yield f"{name} still counts {sorted(gone)}"


def _images(pool: Pool) -> Iterator[str]:
    """The byte budget counts the images of live sessions, neither more nor less."""
    held = sum(len(pool.fields(f"a:{name}").get("", "")) for name in pool.live)
    counted = int(pool.ctr.get("image_bytes", 0))
    if counted != held:
        yield f"{counted} bytes of images are counted, live sessions hold {held}"
