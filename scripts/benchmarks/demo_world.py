#!/usr/bin/env python3
"""What does the demo world cost? Four players who walk and look around, 16 frames a second each."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gpu_node.services.loader import DEMO_WORLD, load

SESSIONS, FPS, DURATION_S = 4, 16, 10.0
PROMPTS = ("A town at dusk", "neon city", "a frozen palace of ice", "jungle ruins")
STEPS = (["w"], ["w", "ArrowRight"], ["w"], ["w", "j"], ["d", "i"], ["s", "k"])


async def play(service: Any, prompt: str, until_s: float) -> tuple[int, float]:
    """Play one session; return its frames and the worst lateness of a chunk in seconds."""
    session_id = service.create_session({"prompt": prompt, "fps": FPS})
    chunks, began_s, late_s = 0, 0.0, 0.0
    async for chunk in service.pull_chunks(session_id):
        now_s = time.monotonic()
        if now_s > until_s:
            break
        began_s = began_s or now_s
        late_s = max(late_s, now_s - began_s - chunks * len(chunk["frames"]) / FPS)
        chunks += 1
        controls = STEPS[chunks // 4 % len(STEPS)]
        service.push_chunk(session_id, {"type": "control_state", "controls": controls})
    service.close_session(session_id)
    return chunks * 4, late_s


async def measure(service: Any) -> str:
    """Run all sessions together and say what they cost."""
    for prompt in PROMPTS:
        service._place(prompt, None)  # noqa: SLF001 - making a place is measured on its own
    started_s, used_s = time.monotonic(), time.process_time()
    until_s = started_s + DURATION_S
    played = await asyncio.gather(
        *(play(service, prompt, until_s) for prompt in PROMPTS[:SESSIONS])
    )
    elapsed_s, used_s = time.monotonic() - started_s, time.process_time() - used_s
    frames = sum(count for count, _ in played)
    return (
        f"demo world: {SESSIONS} sessions at {FPS} fps use {used_s / elapsed_s:.2f} of one core, "
        f"{1000 * used_s / frames:.1f} ms a frame, "
        f"latest chunk {1000 * max(late for _, late in played):.0f} ms after its time"
    )


def main() -> None:
    """Load the service as the node does, measure, print one line."""
    service: Any = load(DEMO_WORLD, gpu_num=1, gpu_ids=None).service
    began_s = time.process_time()
    service.start()
    start_s = time.process_time() - began_s
    print(f"{asyncio.run(measure(service))}; making a place costs {start_s:.2f} s")


if __name__ == "__main__":
    main()
