"""Has the venue of a chaos run the manners of a media server towards workers that are put out?"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gpu_node.room import Lost
from scripts.chaos_run.venue import Venue
from tests.support.wait import wait_until

SID = "default-aaaaaaaaaaaaaaaaaaaaaaaaaa"


class Worker:
    """A worker's end of its connection, answering for itself as long as it isn't frozen."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard: list[dict[str, object]] = []
        self.is_frozen = False
        self._reader = reader
        self._writer = writer

    def say(self, **news: object) -> None:
        """Send it."""
        self._writer.write(json.dumps(news).encode() + b"\n")

    @property
    def lost(self) -> list[object]:
        return [news["lost"] for news in self.heard if "lost" in news]

    async def listen(self) -> None:
        while line := await self._reader.readline():
            self.heard.append(json.loads(line))
            if "runs" in self.heard[-1] and not self.is_frozen:
                self.say(runs=True)


@asynccontextmanager
async def worker_in(venue: Venue, epoch: int) -> AsyncIterator[Worker]:
    """Let a worker into the session's room."""
    reader, writer = await asyncio.open_connection("127.0.0.1", venue.workers_port)
    worker = Worker(reader, writer)
    who = {"node_id": f"n{epoch}", "epoch": epoch, "attempt": 1}
    worker.say(session=SID, controller="alice", worker=who)
    listening = asyncio.create_task(worker.listen())
    await wait_until(lambda: any("joined" in news for news in worker.heard), "it's let in")
    yield worker
    listening.cancel()
    writer.close()


@pytest.fixture
async def venue() -> AsyncIterator[Venue]:
    """An open one."""
    venue = Venue()
    await venue.open()
    yield venue
    await venue.aclose()


async def test_a_worker_that_runs_hears_at_once_that_it_was_put_out(venue: Venue) -> None:
    """Without having to send anything first."""
    async with worker_in(venue, 1) as older, worker_in(venue, 2):
        await wait_until(lambda: older.lost, "it's told", timeout_s=5)
        assert older.lost == [Lost.SUPERSEDED]


async def test_a_worker_that_was_frozen_is_told_only_after_its_next_frame(venue: Venue) -> None:
    """Its late answer doesn't count: the SDK would have come back with its old token."""
    async with worker_in(venue, 1) as older:
        older.is_frozen = True
        async with worker_in(venue, 2):
            await wait_until(lambda: {"runs": True} in older.heard, "it was asked")
            asked_s = time.monotonic()
            await wait_until(lambda: time.monotonic() > asked_s + 0.6, "it's too late")
            older.say(runs=True)
            older.say(frame=1.0)
            await wait_until(lambda: len(venue.take_frames()) == 1, "its frame")
            assert older.lost == []
            await wait_until(lambda: older.lost, "then it's told", timeout_s=5)
