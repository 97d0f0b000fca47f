"""Does the proxy break a way to Redis as it says?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from scripts.chaos_run.fault_proxy import FaultProxy, is_script, split_commands
from scripts.chaos_run.schedule import Kind
from shared.embedded.ports import free_port
from tests.support.wait import wait_until

SCRIPT = b"*3\r\n$7\r\nEVALSHA\r\n$4\r\nbeef\r\n$1\r\n0\r\n"
BEAT = b"*3\r\n$7\r\nEVALSHA\r\n$4\r\nbeat\r\n$1\r\n0\r\n"
PING = b"*1\r\n$4\r\nPING\r\n"


class Upstream:
    """Answers every command with +OK and notes it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen for the length of the block."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for writer in self._writers:
                writer.transport.abort()
            # Whatever still runs sees its connection end.
            await wait_until(lambda: len(asyncio.all_tasks()) == 1, "all connections end")
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        rest = b""
        with contextlib.suppress(OSError):
            while data := await reader.read(4096):
                commands, rest = split_commands(rest + data)
                for command in commands:
                    self.heard.append(command)
                    writer.write(b"+OK\r\n")
        writer.close()


class Way:
    """A proxy in front of an upstream, and connections through it."""

    def __init__(self, upstream: Upstream, proxy: FaultProxy) -> None:
        self.upstream = upstream
        self.proxy = proxy
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a new connection through the proxy."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.proxy.port)
        self._writers.append(writer)
        return reader, writer

    def close(self) -> None:
        """Close what is still open."""
        for writer in self._writers:
            writer.transport.abort()


@pytest_asyncio.fixture
async def way() -> AsyncIterator[Way]:
    """A whole way, closed at the end."""
    upstream = Upstream()
    async with upstream.running():
        proxy = FaultProxy(
            port=free_port(),
            redis_port=upstream.port,
            seed="test",
            is_beat=lambda command: command == BEAT,
        )
        await proxy.open()
        way = Way(upstream, proxy)
        yield way
        way.close()
        await proxy.aclose()


async def until_reset(reader: asyncio.StreamReader, *, first: int = -1) -> bytes:
    """Return what still came (only the *first* bytes of it) before the connection was gone."""
    try:
        return await asyncio.wait_for(reader.read(first), 5)
    except OSError:
        return b""


def test_commands_are_split_wherever_a_packet_ends() -> None:
    """Each split of two commands gives back the same two, and nothing twice."""
    both = SCRIPT + PING
    for place in range(len(both) + 1):
        first, rest = split_commands(both[:place])
        second, rest = split_commands(rest + both[place:])
        assert (first + second, rest) == ([SCRIPT, PING], b"")
    assert (is_script(SCRIPT), is_script(PING)) == (True, False)


async def test_a_healthy_way_carries_both_ways(way: Way) -> None:
    """Without a fault nothing is changed."""
    reader, writer = await way.connect()
    writer.write(SCRIPT + PING)
    assert await asyncio.wait_for(reader.readexactly(10), 5) == b"+OK\r\n+OK\r\n"
    assert way.upstream.heard == [SCRIPT, PING]


async def test_a_dropped_reply_belongs_to_a_call_that_counted(way: Way) -> None:
    """The connection is reset instead of an answer, and the call was done."""
    way.proxy.begin(Kind.DROP_REPLIES)
    dropped = 0
    while not dropped:
        reader, writer = await way.connect()
        writer.write(SCRIPT)
        dropped += await until_reset(reader, first=5) == b""
    assert way.upstream.heard[-1] == SCRIPT


async def test_scripts_are_doubled_and_nothing_else(way: Way) -> None:
    """A copy arrives later on another connection; its reply is nobody's."""
    way.proxy.begin(Kind.DOUBLE)
    reader, writer = await way.connect()
    writer.write(PING + SCRIPT)
    assert await asyncio.wait_for(reader.readexactly(10), 5) == b"+OK\r\n+OK\r\n"
    await wait_until(
        lambda: way.upstream.heard.count(SCRIPT) == 2, "the copy arrives", timeout_s=10
    )
    assert way.upstream.heard.count(PING) == 1


async def test_a_late_call_arrives_though_nobody_waits(way: Way) -> None:
    """The caller has given up and closed, and its calls are done all the same."""
    way.proxy.begin(Kind.DELAY)
    _, writer = await way.connect()
    writer.write(SCRIPT * 4)
    await writer.drain()
    writer.close()
    await wait_until(lambda: way.upstream.heard.count(SCRIPT) == 4, "all arrive", timeout_s=10)


@pytest.mark.parametrize("fault", [Kind.BLACK_HOLE, Kind.DEAF])
async def test_what_is_swallowed_is_gone_and_the_connection_is_reset(way: Way, fault: Kind) -> None:
    """The process waits in vain; when the way is whole again it has to connect anew."""
    reader, writer = await way.connect()
    way.proxy.begin(fault)
    writer.write(SCRIPT)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(5), 0.2)
    way.proxy.heal()
    assert await until_reset(reader) == b""
    assert way.upstream.heard == []


async def test_a_deaf_node_still_beats(way: Way) -> None:
    """The connection that carries beats isn't hurt."""
    way.proxy.begin(Kind.DEAF)
    reader, writer = await way.connect()
    writer.write(BEAT)
    assert await asyncio.wait_for(reader.readexactly(5), 5) == b"+OK\r\n"


async def test_a_cut_ends_connections_and_lets_none_in(way: Way) -> None:
    """Those that are there are reset, new ones are too."""
    reader, writer = await way.connect()
    writer.write(PING)
    await reader.readexactly(5)
    way.proxy.begin(Kind.CUT)
    assert await until_reset(reader) == b""
    with contextlib.suppress(OSError):
        again, _ = await way.connect()
        assert await until_reset(again) == b""
