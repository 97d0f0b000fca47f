"""Which key holds what, of which type, for how long?

All keys of a pool share one hash tag, so a pool lives in one slot of a Redis Cluster. Lua builds
the same names from the prefix (``lua/include/core.lua``); nothing else builds keys. The table below
is the documentation: ``scripts/keys`` prints it and checks a live server against it, and the leak
check of the tests fails on any key that it doesn't know.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from shared.ids import check_pool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyKind:
    """One row of the key table."""

    suffix: str
    """Part behind ``gr:{<pool>}:``; ``<sid>``, ``<nid>`` and ``<hash>`` stand for names."""
    type: str
    what: str
    lifetime: str
    lasting: bool
    """True: may stand without a time to live while nothing is live."""


KEY_TABLE: tuple[KeyKind, ...] = (
    KeyKind(
        suffix="q",
        type="zset",
        what="the line: waiting session, score = ticket",
        lifetime="while somebody waits",
        lasting=True,
    ),
    KeyKind(
        suffix="s:<sid>",
        type="hash",
        what="one session: state, ticket, epoch, node, deadlines (t_…), limits (d_…)",
        lifetime="while live, then 1 h",
        lasting=False,
    ),
    KeyKind(
        suffix="sd:<sid>",
        type="hash",
        what="its longer texts: identity, error, the service's id",
        lifetime="as s:<sid>",
        lasting=False,
    ),
    KeyKind(
        suffix="sp:<sid>",
        type="string",
        what="its request as JSON",
        lifetime="as s:<sid>",
        lasting=False,
    ),
    KeyKind(
        suffix="a:<sid>",
        type="string",
        what="its image (JPEG)",
        lifetime="while live; 60 s before the session is opened",
        lasting=False,
    ),
    KeyKind(
        suffix="n:<nid>",
        type="hash",
        what="one node: what it reported, what was judged",
        lifetime="while live, then 24 h",
        lasting=False,
    ),
    KeyKind(
        suffix="ns:<nid>",
        type="zset",
        what="its slots in use: session, or !session for a quarantined one; score = epoch",
        lifetime="while it holds any",
        lasting=False,
    ),
    KeyKind(
        suffix="nodes",
        type="zset",
        what="live nodes, score = liveness deadline in registry time (ms)",
        lifetime="while any node lives",
        lasting=True,
    ),
    KeyKind(
        suffix="free",
        type="zset",
        what="nodes that may be given a session, score = used/capacity (derived)",
        lifetime="while any has room",
        lasting=True,
    ),
    KeyKind(
        suffix="dl",
        type="zset",
        what="live sessions, score = next deadline in registry time (ms)",
        lifetime="while any session lives",
        lasting=True,
    ),
    KeyKind(
        suffix="idem:<hash>",
        type="string",
        what="idempotency: session id and fingerprint of the body",
        lifetime="as its session",
        lasting=False,
    ),
    KeyKind(
        suffix="wh:<hash>",
        type="string",
        what="an event that the media server told of, so that it counts once",
        lifetime="10 min",
        lasting=False,
    ),
    KeyKind(
        suffix="holds",
        type="list",
        what="how long the last sessions held their slots (ms), for estimates",
        lifetime="for ever, the last 64",
        lasting=True,
    ),
    KeyKind(
        suffix="ended",
        type="zset",
        what="ended sessions whose records are kept, score = version of the end",
        lifetime="1 h after the last end",
        lasting=False,
    ),
    KeyKind(
        suffix="id:<hash>",
        type="zset",
        what="live sessions of one identity while its number is limited, score = ticket",
        lifetime="while it has any",
        lasting=True,
    ),
    KeyKind(
        suffix="keys",
        type="hash",
        what="API keys by id: name, scopes and a digest each; under the tag access alone",
        lifetime="until each is revoked",
        lasting=True,
    ),
    KeyKind(
        suffix="rate:<hash>",
        type="string",
        what="what a key may still do at once; under the tag access alone",
        lifetime="until it is full again",
        lasting=False,
    ),
    KeyKind(
        suffix="ctr",
        type="hash",
        what="last numbers issued, registry time, totals, schema",
        lifetime="for ever",
        lasting=True,
    ),
    KeyKind(
        suffix="ev",
        type="stream",
        what="audit trail, about the last 10,000 changes",
        lifetime="for ever, trimmed",
        lasting=True,
    ),
)

ACCESS = "access"
"""The tag of what belongs to no pool. A pool may have the same name: their keys differ."""

SCHEMA = 1
"""Version of the meaning of these keys, kept in ``ctr.schema``; see `schema`."""

_NAME = {"<sid>": r"[a-z0-9-]+", "<nid>": r"[a-z0-9-]+", "<hash>": r"[0-9a-f]+"}


COUNTERS_OF_ALL = "gr:{*}:ctr"
"""Pattern of a key that every pool has, from its first session or node on."""


def prefix(pool: str) -> str:
    """Return the start of every key of *pool*; also what KEYS[1] of each script is."""
    return f"gr:{{{check_pool(pool)}}}:"


def assignments_channel(pool: str, node_id: str) -> str:
    """Return the pub/sub channel with hints for one node (a hint, never truth)."""
    return f"{prefix(pool)}w:{node_id}"


def changes_channel(pool: str, replica: str) -> str:
    """Return the pub/sub channel with hints for one replica's followers of sessions."""
    return f"{prefix(pool)}r:{replica}"


def line_key(pool: str) -> str:
    """Return the key of the line."""
    return f"{prefix(pool)}q"


def nodes_key(pool: str) -> str:
    """Return the key of the nodes' leases."""
    return f"{prefix(pool)}nodes"


def counters_key(pool: str) -> str:
    """Return the key of the last numbers, totals and schema."""
    return f"{prefix(pool)}ctr"


def slots_key(pool: str, node_id: str) -> str:
    """Return the key of one node's slots in use."""
    return f"{prefix(pool)}ns:{node_id}"


def deadlines_key(pool: str) -> str:
    """Return the key of all sessions' next deadlines."""
    return f"{prefix(pool)}dl"


def api_keys_key() -> str:
    """Return the key of all API keys."""
    return f"{prefix(ACCESS)}keys"


def trail_key(pool: str) -> str:
    """Return the key of the audit trail."""
    return f"{prefix(pool)}ev"


def idempotency_key(pool: str, digest: str) -> str:
    """Return the key that remembers one idempotent call."""
    return f"{prefix(pool)}idem:{digest}"


def heard_key(pool: str, digest: str) -> str:
    """Return the key that remembers one event of the media server."""
    return f"{prefix(pool)}wh:{digest}"


def image_key(pool: str, session_id: str) -> str:
    """Return the key of a session's image."""
    return f"{prefix(pool)}a:{session_id}"


def request_key(pool: str, session_id: str) -> str:
    """Return the key of what a session's client asked for."""
    return f"{prefix(pool)}sp:{session_id}"


def kind_of(key: str) -> KeyKind | None:
    """Return the row of the key table that *key* belongs to, or None: nobody owns it."""
    match = re.fullmatch(r"gr:\{[a-z0-9-]{1,32}\}:(.+)", key)
    if match is None:
        return None
    for kind in KEY_TABLE:
        pattern = re.escape(kind.suffix)
        for hole, name in _NAME.items():
            pattern = pattern.replace(re.escape(hole), name)
        if re.fullmatch(pattern, match[1]):
            return kind
    return None
