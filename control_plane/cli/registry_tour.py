"""What stands in the registry right now, in plain words?

Behind ``greenroom redis``: with words behind it, one raw command and its reply; without, a short
tour of the line, the nodes and the sessions, with the command that shows each of them raw. The
registry is readable with any Redis client; this is for machines that have none.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from shared.records import NodeRecord, SessionRecord, Snapshot
from shared.store import Registry, keys
from shared.store.console import ask

_SHOWN = 20


def reply_lines(reply: object, indent: str = "") -> Iterator[str]:
    """Yield a raw reply line by line: fields beside their values, lists numbered."""
    if isinstance(reply, dict):
        width = max((len(str(key)) for key in reply), default=0)
        for key, value in reply.items():
            yield f"{indent}{key:{width}}  {value}"
        if not reply:
            yield f"{indent}(empty)"
    elif isinstance(reply, list):
        for number, item in enumerate(reply, 1):
            if isinstance(item, list | dict):
                yield f"{indent}{number})"
                yield from reply_lines(item, indent + "   ")
            else:
                yield f"{indent}{number}) {item}"
        if not reply:
            yield f"{indent}(empty)"
    else:
        yield f"{indent}{'(nothing)' if reply is None else reply}"


async def tour(url: str, pool: str) -> list[str]:
    """Return the tour of one pool as lines."""
    registry = Registry.connect(url)
    try:
        snapshot = await registry.snapshot(pool)
        live = ask(url, pool, ("ZRANGE", f"{keys.prefix(pool)}dl", "0", "-1"))
        names = [str(name) for name in live] if isinstance(live, list) else []
        sessions = [await registry.read(name) for name in names[:_SHOWN]]
    finally:
        await registry.aclose()
    return [
        f"Pool {pool}",
        *_line(snapshot, sessions),
        *_nodes(snapshot.nodes),
        *_sessions(sessions, more=len(names) - len(sessions)),
        *_closer_look(pool, snapshot, names),
    ]


def _line(snapshot: Snapshot, sessions: list[SessionRecord]) -> Iterator[str]:
    yield f"\nIn line: {snapshot.queued}"
    known = {session.session_id: session for session in sessions}
    for place, name in enumerate(snapshot.waiting[:_SHOWN], 1):
        since = f", since {_age(known[name].created_at_s)}" if name in known else ""
        yield f"  {place}. {name}{since}"


def _nodes(nodes: tuple[NodeRecord, ...]) -> Iterator[str]:
    yield f"\nNodes: {len(nodes)}"
    for node in nodes:
        words = [str(node.state), f"{node.used} of {node.capacity} slots in use"]
        words.append(f"last heartbeat {node.beat_age_s:.1f} s ago")
        if node.draining:
            words.append("takes no new sessions")
        if node.quarantined:
            words.append(f"{node.quarantined} slots not confirmed as clean")
        if not node.media_ok:
            words.append("doesn't reach LiveKit")
        yield f"  {node.node_id}: {', '.join(words)}"


def _sessions(sessions: list[SessionRecord], *, more: int) -> Iterator[str]:
    yield f"\nLive sessions: {len(sessions) + more}"
    for session in sessions:
        where = f" on {session.node_id}" if session.node_id else ""
        tries = f", attempt {session.attempt}" if session.attempt > 1 else ""
        yield (
            f"  {session.session_id}: {session.state}{where}{tries}, "
            f"since {_age(session.updated_at_s)}"
        )
    if more > 0:
        yield f"  … and {more} more"


def _closer_look(pool: str, snapshot: Snapshot, names: list[str]) -> Iterator[str]:
    start = keys.prefix(pool)
    node = snapshot.nodes[0].node_id if snapshot.nodes else "NODE"
    session = names[0] if names else "SESSION"
    yield "\nThe same with any Redis client, or from here:"
    for command, what in (
        (f"ZRANGE '{start}q' 0 -1 WITHSCORES", "the line, in order, with tickets"),
        (f"HGETALL '{start}n:{node}'", "one node"),
        (f"ZRANGE '{start}ns:{node}' 0 -1 WITHSCORES", "its slots in use, with epochs"),
        (f"HGETALL '{start}s:{session}'", "one session"),
        (f"XREVRANGE '{start}ev' + - COUNT 10", "the last ten changes"),
    ):
        yield f"  greenroom redis {command}\n      {what}"


def _age(since_s: float) -> str:
    age_s = max(0, round(time.time() - since_s))
    minutes, seconds = divmod(age_s, 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
