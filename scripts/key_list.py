"""Which keys does a live registry hold, of which type, for how long, and whose are they?

``scripts/keys [URL]`` groups the keys of a server by the row of the key table that they belong to;
without a URL it takes the one that was started with ``.greenroom``. Keys that no row knows are
named one by one, and make the exit status 1. ``scripts/keys --doc`` redraws the documents.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import redis

from scripts import docs
from shared.embedded.valkey import running_url
from shared.store.endpoints import Endpoints
from shared.store.keys import KEY_TABLE, kind_of

_SCAN_BATCH = 500


def main() -> int:
    """List the keys; returns the exit status."""
    if "--doc" in sys.argv:
        sys.argv.remove("--doc")
        return docs.main()
    url = sys.argv[1] if len(sys.argv) > 1 else running_url(Path(".greenroom"))
    if url is None:
        print("Nothing was started with .greenroom here.\nTry: scripts/keys URL", file=sys.stderr)
        return 2
    counts: Counter[str] = Counter()
    lasting: Counter[str] = Counter()
    strangers: list[str] = []
    for client in Endpoints(url).clients():
        _count(client, counts, lasting, strangers)
    for kind in KEY_TABLE:
        kept = f", {lasting[kind.suffix]} without a time to live" if lasting[kind.suffix] else ""
        count = counts[kind.suffix]
        print(f"{count:7}  {kind.suffix:12} {kind.type:7} {kind.lifetime}{kept}")
    for key in strangers:
        print(f"no owner: {key}")
    return 1 if strangers else 0


def _count(
    client: redis.Redis, counts: Counter[str], lasting: Counter[str], strangers: list[str]
) -> None:
    for raw in client.scan_iter(count=_SCAN_BATCH):
        key = raw.decode()
        kind = kind_of(key)
        if kind is None or client.type(key) not in {kind.type.encode(), b"none"}:
            strangers.append(key)
            continue
        counts[kind.suffix] += 1
        if client.ttl(key) == -1 and not kind.lasting:
            lasting[kind.suffix] += 1


if __name__ == "__main__":
    sys.exit(main())
