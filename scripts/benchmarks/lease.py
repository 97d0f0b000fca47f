"""What does it cost to hand the execution lease from one session to the next?

Sessions that always want another chunk, whose chunks cost nothing, take turns under a maximum hold
of one chunk, so each chunk is a hand-over. The baseline in the same run is a plain `asyncio.Lock`
that as many tasks pass round: what any order among tasks of one loop costs at least.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gpu_node.lease.turns import Turns

CROWDS = (2, 10, 64)
HANDOVERS = 20_000
ROUNDS = 5


async def by_lease(sessions: int) -> float:
    """Return the seconds of one hand-over, all else included."""
    turns = Turns(max_chunks=1)
    handovers, last = 0, ""

    async def play(name: str) -> None:
        nonlocal handovers, last
        for _ in range(HANDOVERS // sessions):
            async with turns.turn(name, lambda _: None) as turn:
                turn.counts = True
                await asyncio.sleep(0)
                handovers += last != name
                last = name

    names = [f"session-{number}" for number in range(sessions)]
    for name in names:
        turns.enter(name)
    began_s = time.perf_counter()
    await asyncio.gather(*(play(name) for name in names))
    return (time.perf_counter() - began_s) / handovers


async def by_lock(tasks: int) -> float:
    """The same with a lock; whoever has it lets the others come, as a chunk does."""
    lock = asyncio.Lock()

    async def play() -> None:
        for _ in range(HANDOVERS // tasks):
            async with lock:
                await asyncio.sleep(0)

    began_s = time.perf_counter()
    await asyncio.gather(*(play() for _ in range(tasks)))
    return (time.perf_counter() - began_s) / HANDOVERS


def main() -> None:
    """Print one line per crowd: the best of some rounds, which others disturbed least."""
    for crowd in CROWDS:
        lease_s = min(asyncio.run(by_lease(crowd)) for _ in range(ROUNDS))
        lock_s = min(asyncio.run(by_lock(crowd)) for _ in range(ROUNDS))
        print(
            f"{crowd:3} sessions: {1e6 * lease_s:.0f} µs a hand-over, "
            f"an asyncio lock {1e6 * lock_s:.0f} µs"
        )


if __name__ == "__main__":
    main()
