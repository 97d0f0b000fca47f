"""How are the seeds with real rooms played, one after another, on one fleet?"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import time
from pathlib import Path

from gpu_node.settings import remove_proxy_variables
from scripts.chaos_run.live import report
from scripts.chaos_run.live.fleet import LiveFleet
from scripts.chaos_run.live.plan import plan
from scripts.chaos_run.live.play import LivePlayed, play

_SETTLE_S = 1.0
"""A process that ends sooner after its rooms aborts in a few of a hundred cases."""


async def run(wanted: argparse.Namespace, folder: Path, played: list[LivePlayed]) -> None:
    """Play the seeds that are wanted; what was played is in *played*, whatever ends this."""
    remove_proxy_variables()
    logging.getLogger("livekit").setLevel(logging.CRITICAL)  # it tells of every death at length
    fleet = LiveFleet(folder, flavour=wanted.redis, guests=wanted.guests, ttl_s=wanted.ttl)
    began_s = time.monotonic()
    try:
        await fleet.open()
        for seed in range(wanted.first_seed, wanted.first_seed + wanted.seeds):
            if wanted.minutes and time.monotonic() - began_s > 60 * wanted.minutes:
                break
            one = await play(fleet, plan(seed, guests=wanted.guests, ttl_s=wanted.ttl))
            with (folder / "seeds.jsonl").open("a") as file:
                file.write(json.dumps(report.as_dict(one)) + "\n")
            _tell(one, is_first=not played, as_json=wanted.json)
            played.append(one)
    finally:
        await fleet.aclose()
        await asyncio.sleep(_SETTLE_S)


def tell_sum(played: list[LivePlayed], *, as_json: bool) -> None:
    """Print the figures of the whole run."""
    if as_json:
        print(json.dumps(report.sum_as_dict(played)), flush=True)
        return
    for line in report.summary(played):
        print(line, flush=True)


def _tell(one: LivePlayed, *, is_first: bool, as_json: bool) -> None:
    if as_json:
        print(json.dumps(report.as_dict(one)), flush=True)
        return
    if is_first:
        print(report.header())
    print(report.row(one), flush=True)
    if not one.verdict.holds:
        print("\n".join(report.findings(one)), flush=True)
