"""How many commands does a script run inside of the server?"""

from __future__ import annotations

from collections import Counter
from typing import cast

from shared.store.scripts import Argument
from tests.support.scenario import Reply, World

_AROUND_IT = frozenset(("evalsha", "eval", "config|resetstat"))


def count_inner(
    world: World, script: str, arguments: dict[str, Argument]
) -> tuple[Reply, Counter[str]]:
    """Run *script* once; return its reply and the commands inside of it, as the server counts."""
    world.raw.config_resetstat()
    reply = world.run(script, **arguments)
    stats = cast("dict[str, dict[str, int]]", world.raw.info("commandstats"))
    named = ((name.removeprefix("cmdstat_"), row["calls"]) for name, row in stats.items())
    return reply, Counter({name: calls for name, calls in named if name not in _AROUND_IT})
