"""What did calls cost the server, by its own word?

``INFO commandstats`` counts every command, those inside of scripts too, and the time that each
took in the server: no network, no client. Calls go out in pipelines of `BATCH`, and the quickest of
these batches counts: the others measure who else wanted the core.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

import redis

Command: TypeAlias = Sequence[str | bytes | int]
Client: TypeAlias = "redis.Redis"
T = TypeVar("T")

BATCH = 25
_OUR_OWN = "config|resetstat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one call cost, on average of the quickest batch."""

    us: float
    inner: float
    """Commands that a script ran."""
    per_s: float
    """Calls per second as one client saw them, all its calls pipelined."""


def parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield *items* in lists of at most *size*."""
    part: list[T] = []
    for item in items:
        part.append(item)
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part


def send(client: Client, commands: Iterable[Command]) -> list[Any]:
    """Send commands in one go and return their raw replies; the first error raises."""
    pipeline = client.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
    return pipeline.execute()


def cost_of(client: Client, commands: Sequence[Command], *, batch: int = BATCH) -> Cost:
    """Send *commands*, all of one kind, and return what the server says of them."""
    return min((_batch(client, part) for part in parts(commands, batch)), key=lambda cost: cost.us)


def longest_ms(client: Client, commands: Sequence[Command]) -> float:
    """Send *commands* one by one; return the processor time of the one that took longest.

    Of its main thread alone: for as long nobody else is served.
    """
    longest_s = 0.0
    for command in commands:
        before_s = _main_thread_s(client)
        send(client, [command])
        longest_s = max(longest_s, _main_thread_s(client) - before_s)
    return longest_s * 1000


def _main_thread_s(client: Client) -> float:
    used = client.info("cpu")
    return float(used["used_cpu_user_main_thread"]) + float(used["used_cpu_sys_main_thread"])


def _batch(client: Client, commands: Sequence[Command]) -> Cost:
    client.config_resetstat()
    started_s = time.perf_counter()
    send(client, commands)
    elapsed_s = time.perf_counter() - started_s
    stats = cast("dict[str, dict[str, float]]", client.info("commandstats"))
    by_name = {name.removeprefix("cmdstat_"): row for name, row in stats.items()}
    asked = str(commands[0][0]).lower()
    inner = sum(row["calls"] for name, row in by_name.items() if name not in (asked, _OUR_OWN))
    return Cost(
        us=by_name[asked]["usec"] / len(commands),
        inner=inner / len(commands),
        per_s=len(commands) / elapsed_s,
    )


def memory_bytes(client: Client) -> int:
    """Return what the server's data take."""
    return int(client.info("memory")["used_memory"])


def cpu_s(client: Client) -> float:
    """Return the processor time that the server has used, all its threads, user and system."""
    used = client.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])
