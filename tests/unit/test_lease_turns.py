"""Sessions of a service that declares the execution lease wait for their turn, chunk by chunk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpu_node.lease import turns
from gpu_node.services import host as hosting
from gpu_node.services.host import ServiceHost
from shared.errors import ServiceFault, ServiceLoadFailed
from tests.support.hosting import hosted
from tests.support.leased_service import LeasedService
from tests.support.synthetic_service import Journal, SyntheticService
from tests.support.wait import wait_until

PRESS = {"type": "control_state", "controls": ["w"]}


class Audience:
    """One session and what its player gets, taken as fast as it comes."""

    def __init__(self, host: ServiceHost, name: str) -> None:
        self.host = host
        self.name = name
        self.chunks: list[dict[str, Any]] = []
        self.stages: list[str] = []
        self.places: list[int] = []
        self.error: ServiceFault | None = None
        self._stream = host.chunks(name)
        self._task = asyncio.create_task(self._take())

    @classmethod
    async def come(cls, host: ServiceHost, **config: Any) -> Audience:
        """Make a session and watch it."""
        return cls(host, await host.create_session(config))

    async def press(self) -> None:
        """Send a control."""
        await self.host.push(self.name, dict(PRESS))

    async def close(self) -> None:
        """End the session."""
        await self.host.close_session(self.name)
        await self._task

    async def _take(self) -> None:
        try:
            async for chunk in self._stream:
                if chunk["type"] == "status":
                    self.stages.append(chunk["stage"])
                    if "queue_position" in chunk:
                        self.places.append(chunk["queue_position"])
                else:
                    self.chunks.append(chunk)
        except ServiceFault as error:
            self.error = error


async def plays_on(audience: Audience) -> None:
    """Wait for two more chunks."""
    seen = len(audience.chunks)
    await wait_until(lambda: len(audience.chunks) > seen + 1, "more chunks")


async def test_no_chunk_is_made_before_the_first_control() -> None:
    """Without a maximum hold a session only watches until it takes part."""
    async with hosted(LeasedService(Journal())) as host:
        assert host.traits.waits_for_control
        quiet, loud = await Audience.come(host), await Audience.come(host)
        await host.push(loud.name, {"type": "delivery_ack"})
        await loud.press()
        await plays_on(loud)
        assert (quiet.chunks, quiet.stages) == ([], [])
        assert loud.stages == ["lease_granted"]
        await quiet.close()
        await loud.close()


async def test_an_idle_player_hands_over_and_comes_back() -> None:
    """Both are told where they stand, and never do two chunks run at once."""
    service = LeasedService(Journal())
    async with hosted(service) as host:
        alice = await Audience.come(host, control_idle_timeout=0.2)
        bob = await Audience.come(host, control_idle_timeout=0.2)
        await alice.press()
        await plays_on(alice)
        await bob.press()
        await wait_until(lambda: "lease_parked" in alice.stages, "alice hands over")
        await plays_on(bob)
        await alice.press()
        await plays_on(alice)
        assert alice.stages[:2] == ["lease_granted", "lease_parked"]
        assert "lease_parked" in bob.stages
        assert service.most_at_once == 1
        await alice.close()
        await bob.close()


async def test_who_waits_is_told_the_place_and_that_it_has_changed() -> None:
    """Also when somebody in front of it goes."""
    service = LeasedService(Journal())
    async with hosted(service) as host:
        alice = await Audience.come(host, chunk_s=3600)
        await alice.press()
        await wait_until(lambda: alice.name in service.at_work, "alice computes")
        bob, carol = await Audience.come(host), await Audience.come(host)
        await bob.press()
        await wait_until(lambda: bob.places == [1], "bob is next")
        await carol.press()
        await wait_until(lambda: carol.places == [2], "carol is behind him")
        await bob.close()
        await wait_until(lambda: carol.places == [2, 1], "carol is next")
        await alice.close()
        await plays_on(carol)
        assert carol.stages == ["lease_queued", "lease_queued", "lease_granted"]
        await carol.close()


async def test_under_a_maximum_hold_all_move_without_a_control() -> None:
    """And short waits are nothing to talk about."""
    service = LeasedService(Journal(), max_chunks=1)
    async with hosted(service) as host:
        assert not host.traits.waits_for_control
        crowd = [await Audience.come(host) for _ in range(4)]
        await wait_until(lambda: all(len(one.chunks) >= 5 for one in crowd), "all play")
        for one in crowd:
            await one.close()
    assert service.most_at_once == 1
    assert all(one.chunks[0]["lease_wait_seconds"] >= 0 for one in crowd)


async def test_a_long_wait_under_a_maximum_hold_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the place in line, and its end."""
    monkeypatch.setattr(turns, "TELL_EVERY_S", 0.02)
    async with hosted(LeasedService(Journal(), max_chunks=1)) as host:
        slow = await Audience.come(host, chunk_s=0.2)
        other = await Audience.come(host)
        await wait_until(lambda: "lease_granted" in other.stages, "it was told")
        assert other.stages[0] == "lease_queued"
        assert other.places[0] == 1
        assert "lease_parked" not in other.stages + slow.stages
        await slow.close()
        await other.close()


async def test_a_closing_holder_keeps_the_others_waiting_until_it_is_clean() -> None:
    """What is still being freed may not meet the next chunk."""
    service = LeasedService(Journal(), max_chunks=1)
    async with hosted(service) as host:
        alice = await Audience.come(host, chunk_s=3600, hang_close=True)
        await wait_until(lambda: alice.name in service.at_work, "alice computes")
        bob = await Audience.come(host)
        closing = asyncio.create_task(alice.close())
        await wait_until(lambda: "close_session" in service.journal.threads, "it is being closed")
        await host.push(bob.name, dict(PRESS))  # has been round the service's loop
        await host.runtime_metrics()
        assert bob.chunks == []
        service.journal.may_close.set()
        await closing
        await plays_on(bob)
        await bob.close()


async def test_a_cleanup_that_hangs_doesnt_end_the_game_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its slot is lost, the others play on."""
    monkeypatch.setattr(hosting, "_LEASE_KEPT_S", 0.05)
    service = LeasedService(Journal(), max_chunks=1)
    async with hosted(service) as host:
        alice = await Audience.come(host, chunk_s=3600, hang_close=True)
        await wait_until(lambda: alice.name in service.at_work, "alice computes")
        bob = await Audience.come(host)
        closing = asyncio.create_task(alice.close())
        await plays_on(bob)
        assert not closing.done()
        service.journal.may_close.set()
        await closing
        await bob.close()


async def test_a_stream_that_fails_keeps_the_lease_until_it_is_closed() -> None:
    """It may have left anything behind."""
    service = LeasedService(Journal(), max_chunks=1)
    async with hosted(service) as host:
        alice = await Audience.come(host, fail_in="pull")
        await wait_until(lambda: alice.error, "alice's world falls apart")
        bob = await Audience.come(host)
        await host.runtime_metrics()
        assert bob.chunks == []
        await alice.close()
        await plays_on(bob)
        await bob.close()


async def test_a_stream_that_ends_lets_the_others_go_on_at_once() -> None:
    """Nobody waits until its last frames are played."""
    async with hosted(LeasedService(Journal(), max_chunks=1)) as host:
        alice = await Audience.come(host, chunks=2)
        bob = await Audience.come(host)
        await wait_until(lambda: len(alice.chunks) == 2, "alice is through")
        await plays_on(bob)
        await alice.close()
        await plays_on(bob)
        await bob.close()


async def test_the_hosts_figures_tell_of_a_model_that_is_stuck() -> None:
    """How many wait, and for how long it has been at one chunk; a session's own don't."""
    service = LeasedService(Journal(), max_chunks=1)
    async with hosted(service) as host:
        assert (await host.runtime_metrics())["lease"] == {"waiting": 0, "busy_seconds": 0}
        alice = await Audience.come(host, chunk_s=3600)
        await wait_until(lambda: alice.name in service.at_work, "alice computes")
        bob = await Audience.come(host)
        lease = (await host.runtime_metrics())["lease"]
        assert lease["waiting"] == 1
        assert lease["busy_seconds"] >= 0
        assert "lease" not in await host.runtime_metrics(bob.name)
        await bob.close()
        await alice.close()


async def test_whoever_leaves_the_line_takes_nothing_along() -> None:
    """The lease goes to the next one that is there."""
    service = LeasedService(Journal(), max_chunks=1)
    async with hosted(service) as host:
        alice = await Audience.come(host, chunk_s=3600)
        await wait_until(lambda: alice.name in service.at_work, "alice computes")
        bob, carol = await Audience.come(host), await Audience.come(host)
        await host.runtime_metrics()
        await bob.close()
        await alice.close()
        await plays_on(carol)
        await carol.close()


async def test_a_host_that_closes_leaves_nobody_waiting() -> None:
    """Streams of sessions in line end with it."""
    service = LeasedService(Journal(), max_chunks=1)
    async with hosted(service) as host:
        alice = await Audience.come(host, chunk_s=3600)
        await wait_until(lambda: alice.name in service.at_work, "alice computes")
        bob = await Audience.come(host)
    await wait_until(lambda: bob._task.done() and alice._task.done(), "both have ended")


async def test_an_id_that_is_in_use_is_the_services_fault() -> None:
    """Two sessions of one name would share one place in line."""

    class Forgetful(LeasedService):
        def create_session(self, config: dict[str, Any]) -> str:
            return "always"

    async with hosted(Forgetful(Journal())) as host:
        await host.create_session({})
        with pytest.raises(ServiceFault, match="returned an id in use: always is registered") as e:
            await host.create_session({})
        assert type(e.value) is ServiceFault


@pytest.mark.parametrize(
    ("lease", "most", "words"),
    [
        ("gpu", None, "execution_lease in svc.py is 'gpu'"),
        (True, None, "execution_lease in svc.py is True"),
        ("node", 0, "execution_lease_max_chunks in svc.py is 0"),
        ("node", 1.5, "execution_lease_max_chunks in svc.py is 1.5"),
        ("node", True, "execution_lease_max_chunks in svc.py is True"),
    ],
)
def test_a_declaration_that_isnt_known_is_refused(lease: Any, most: Any, words: str) -> None:
    """A service that thinks it is alone on the model, and isn't, would be worse."""
    service = LeasedService(Journal())
    service.execution_lease, service.execution_lease_max_chunks = lease, most
    with pytest.raises(ServiceLoadFailed, match=words):
        turns.turns_for(service, "svc.py")


class Talkative(SyntheticService):
    """Says something on the way to each chunk."""

    def __init__(self, words_per_chunk: int) -> None:
        super().__init__(Journal())
        self.words_per_chunk = words_per_chunk
        self.said = 0

    async def pull_chunks(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        async for chunk in super().pull_chunks(session_id):
            for _ in range(self.words_per_chunk):
                self.said += 1
                yield {"type": "status", "stage": "denoising_chunk"}
            yield chunk


async def test_what_is_said_on_the_way_doesnt_stop_the_work() -> None:
    """The chunk behind the words is made although nobody has taken them."""
    service = Talkative(3)
    async with hosted(service) as host:
        stream = host.chunks(await host.create_session({}))
        assert [(await stream.take())["type"] for _ in range(4)] == ["status"] * 3 + ["chunk"]
        await host.runtime_metrics()
        assert (service.said, service.journal.made) == (3, 1)
        stream.ask()
        assert (await stream.take())["type"] == "status"


async def test_a_service_that_only_talks_waits_until_somebody_listens() -> None:
    """Else its words would fill the memory."""
    service = Talkative(1000)
    async with hosted(service) as host:
        stream = host.chunks(await host.create_session({}))
        for _ in range(16):
            await stream.take()
        await host.runtime_metrics()
        assert service.said == 16
        await anext(stream)
        await host.runtime_metrics()
        assert 17 <= service.said <= 32
