"""The client against a real replica: create, wait, join; and coming back after everything."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import httpx
import pytest

from shared.client import Greenroom, News, NotAllowed, Refused, Session, SessionOver
from shared.states import Reason
from tests.support.replica import BeginNode
from tests.support.replica_process import Start
from tests.support.room_service import RoomService
from tests.support.wait import scaled_s, wait_until

ADMIN_KEY = "grk_admin_" + "a2b3c4d5" * 4


@asynccontextmanager
async def served(
    start_replica: Start, room_service: RoomService, **options: str
) -> AsyncIterator[tuple[Greenroom, str]]:
    """Run a replica; returns a client of it, and its address."""
    replica = start_replica(LIVEKIT_URL=room_service.url, **({"QUEUE_SIZE": "10"} | options))
    address = await asyncio.to_thread(replica.address)
    key = options.get("ADMIN_KEY", "")
    async with Greenroom(address, api_key=key, timeout_s=scaled_s(15)) as client:
        yield client, address


async def follow(client: Greenroom, session: Session, heard: list[News]) -> None:
    """Follow a session to its end."""
    async with aclosing(client.follow(session)) as stream:
        async for news in stream:
            heard.append(news)  # noqa: PERF401 - others look at it meanwhile


async def test_create_wait_join_end(
    start_replica: Start, room_service: RoomService, begin_node: BeginNode
) -> None:
    """A place in line becomes a token for the room, and the last word says why it was over."""
    async with served(start_replica, room_service) as (client, _):
        first = await client.create("ada", prompt="a quiet harbour", config={"fps": 16})
        assert (first.status, first.queue_position) == ("queued", 1)
        waiting = asyncio.create_task(client.wait(first, timeout_s=scaled_s(20)))
        heard: list[News] = []
        following = asyncio.create_task(follow(client, first, heard))
        await wait_until(lambda: heard, "the first news", 20)
        node = await begin_node()
        session = await waiting
        assert (session.status, session.worker_id) == ("assigned", node.node_id)
        assert session.token
        await node.play(session.session_id)
        running = await client.wait(session, until={"running"}, timeout_s=scaled_s(20))
        viewer = await client.viewer(running, "grace")
        assert (viewer.role, viewer.room) == ("viewer", session.room)
        await node.end(session.session_id, Reason.COMPLETED)
        await following

    assert [heard[0].event, heard[-1].event] == ["queued", "ended"]
    assert heard[-1].reason == "completed"


async def test_whoever_waits_for_what_has_ended_hears_why(
    start_replica: Start, room_service: RoomService
) -> None:
    """Not a time-out, and not a token for a room that is gone."""
    async with served(start_replica, room_service) as (client, _):
        session = await client.create("ada")
        waiting = asyncio.create_task(client.wait(session, timeout_s=scaled_s(20)))
        assert await client.end(session) == "closed"
        with pytest.raises(SessionOver, match="client_stop"):
            await waiting
        again = await client.wait(session, until={"closed"}, timeout_s=scaled_s(20))

    assert (again.status, again.token) == ("closed", None)


async def test_a_full_line_is_told_at_once(start_replica: Start, room_service: RoomService) -> None:
    """With the word that the compatible API has for it."""
    async with served(start_replica, room_service, QUEUE_SIZE="1") as (client, _):
        await client.create("ada")
        with pytest.raises(Refused) as told_:
            await client.create("grace")

    assert told_.value.detail == "queue_full"
    assert told_.value.retry_after_s == 5


async def test_a_closed_server_wants_the_key_once(
    start_replica: Start, room_service: RoomService
) -> None:
    """The key creates; after that the session's own token does everything, on its own."""
    async with served(start_replica, room_service, ADMIN_KEY=ADMIN_KEY) as (client, address):
        session = await client.create("ada")
        async with Greenroom(address) as keyless:
            assert (await keyless.status(session)).status == "queued"
            with pytest.raises(NotAllowed) as refused:
                await keyless.create("grace")
            assert refused.value.code == "no_credentials"
            assert await keyless.end(session) == "closed"


class Moving(httpx.AsyncBaseTransport):
    """A load balancer that sends every call to the replica that is there now."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.last_ids: list[str | None] = []
        """What each stream went on from."""
        self._inner = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events"):
            self.last_ids.append(request.headers.get("last-event-id"))
        target = httpx.URL(self.address)
        request.url = request.url.copy_with(host=target.host, port=target.port)
        request.headers["Host"] = f"{target.host}:{target.port}"
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def test_a_stream_goes_on_where_another_replica_took_over(
    start_replica: Start, room_service: RoomService, begin_node: BeginNode
) -> None:
    """Kill -9 while it waits: the same place, no event twice, and the token in the end."""
    first = start_replica(LIVEKIT_URL=room_service.url, QUEUE_SIZE="10")
    second = start_replica(LIVEKIT_URL=room_service.url, QUEUE_SIZE="10")
    balancer = Moving(await asyncio.to_thread(first.address))
    elsewhere = await asyncio.to_thread(second.address)
    heard: list[News] = []
    async with Greenroom("http://stage", transport=balancer, timeout_s=scaled_s(15)) as client:
        session = await client.create("ada")
        async with asyncio.timeout(scaled_s(40)), aclosing(client.follow(session)) as stream:
            async for news in stream:
                heard.append(news)
                if len(heard) == 1:
                    balancer.address = elsewhere
                    first.signal(signal.SIGKILL)
                    await begin_node()
                if news.status == "assigned":
                    break
        renewed = await client.renew(session)

    assert [news.event for news in heard if news.status == "assigned"] == ["assigned"]
    assert heard[0].event == "queued"
    assert balancer.last_ids[0] is None
    assert all(balancer.last_ids[1:])
    assert renewed.token


class Mute(httpx.AsyncBaseTransport):
    """Something in between that lets no stream through."""

    def __init__(self) -> None:
        self.streams = 0
        self._inner = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events"):
            self.streams += 1
            raise httpx.ReadTimeout("held back", request=request)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def test_where_no_stream_comes_through_it_asks(
    start_replica: Start, room_service: RoomService, begin_node: BeginNode
) -> None:
    """The same news by asking, which is a sign of life as well."""
    replica = start_replica(LIVEKIT_URL=room_service.url, QUEUE_SIZE="10")
    address, mute = await asyncio.to_thread(replica.address), Mute()
    async with Greenroom(address, transport=mute, timeout_s=scaled_s(15)) as client:
        session = await client.create("ada")
        waiting = asyncio.create_task(client.wait(session, timeout_s=scaled_s(30)))
        await begin_node()
        session = await waiting

    assert session.status == "assigned"
    assert mute.streams > 0
