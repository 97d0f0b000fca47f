"""How do the guests of one seed come in, watch and go home?

Each asks a replica for a session, enters its room as the controller and stays there on that one
connection until the seed is over: whatever dies behind it must come back by itself.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Mapping

import httpx

from scripts.chaos_run.live.watcher import Watcher
from tests.support.wait import scaled_s

_WITHIN_S = 30.0
_CALL_S = 15.0
"""A DELETE waits up to ten seconds for the clean-up."""
_LOOK_EVERY_S = 0.02
_ENOUGH = 3
"""Frames that make a picture move."""
_TOLD = ("requeued", "resumed")


class Crowd:
    """The guests of one seed; close it in any case."""

    def __init__(self, addresses: tuple[str, ...], seed: int) -> None:
        self.watchers: list[Watcher] = []
        self.lost: list[str] = []
        """Who saw no picture, or was put out; as sentences."""
        self._addresses = addresses
        self._chance = random.Random(f"crowd {seed}")  # noqa: S311 - only spreads the calls
        self._http = httpx.AsyncClient(timeout=_CALL_S, trust_env=False)

    async def aclose(self) -> None:
        """Leave all rooms."""
        await asyncio.gather(*(one.leave() for one in self.watchers))
        await self._http.aclose()

    async def enter(self, names: Iterable[str]) -> None:
        """Let everybody in; returns when all see a picture, or should."""
        for name in names:
            body = {"identity": name, "role": "controller", "config": {}}
            answer = await self._http.post(f"{self._any()}/v1/stream/sessions", json=body)
            answer.raise_for_status()
            told = answer.json()
            watcher = Watcher(told["session_id"])
            self.watchers.append(watcher)
            await watcher.join(told["livekit_url"], told["token"])
        await self._each(lambda one: one.has_seen(_ENOUGH), "never saw a picture")

    def played_by(self, node_id: str) -> Mapping[Watcher, tuple[int, int]]:
        """Return for whom this node plays now, and under which epoch and attempt."""
        players = ((one, one.player) for one in self.watchers)
        return {
            one: player.order
            for one, player in players
            if player is not None and player.node_id == node_id
        }

    async def see_successors(self, of: Mapping[Watcher, tuple[int, int]]) -> None:
        """Return when those in *of* see a newer worker than theirs and all others still see one."""
        seen = {one: len(one.frames) for one in self.watchers}

        def sees(one: Watcher) -> bool:
            if one in of:
                return one.has_seen(_ENOUGH, above=of[one]) and one.was_told(_TOLD)
            return len(one.frames) >= seen[one] + _ENOUGH

        await self._each(sees, "doesn't see its world go on, or wasn't told")

    async def go_home(self) -> None:
        """End all sessions, as their guests would."""
        self.lost += [
            f"{one.session_id}: its guest lost the room" for one in self.watchers if one.is_out
        ]
        for one in self.watchers:
            url = f"{self._any()}/v1/stream/sessions/{one.session_id}"
            answer = await self._http.delete(url)
            if not answer.is_success:
                self.lost.append(f"{one.session_id}: DELETE → {answer.status_code} {answer.text}")

    async def _each(self, condition: Callable[[Watcher], bool], otherwise: str) -> None:
        """Wait until *condition* holds for everybody; note for whom it doesn't in time."""
        deadline_s = time.monotonic() + scaled_s(_WITHIN_S)
        while waiting := [one for one in self.watchers if not condition(one)]:
            if time.monotonic() > deadline_s:
                self.lost += [
                    f"{one.session_id} {otherwise}: {len(one.frames)} frames, the last player is "
                    f"{one.player}, told {[type_ for type_ in one.told if type_ != 'chunk']}"
                    for one in waiting
                ]
                return
            await asyncio.sleep(_LOOK_EVERY_S)

    def _any(self) -> str:
        return self._chance.choice(self._addresses)
