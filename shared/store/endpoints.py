"""Which server holds this pool?

One that is named, the primary that Sentinels know, or the node of a cluster that has the pool's
slot; all keys of a pool share one. The answer is asked for anew with each connection and never
kept: whoever loses a connection, or hears that the pool is elsewhere, connects again and is right.

A slot that is being moved answers neither here nor there (ASK) until all of it has arrived: scripts
build their keys from the pool's prefix, and half a pool would look like an emptier one.

Asking blocks, a fraction of a second at most per server that doesn't answer; event loops ask in a
thread (`connecting`), as they do for names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

import redis
import redis.backoff
import redis.crc
import redis.exceptions
import redis.retry

from shared.errors import StartupError
from shared.redis_url import Address, Kind, RedisUrl, parse_redis_url
from shared.store import keys

T = TypeVar("T")

_ASK_WITHIN_S = 0.4
"""For one Sentinel or node; several are asked in turn within a caller's second."""
ANSWER_WITHIN_S = 1.0


class Nowhere(redis.exceptions.ConnectionError):
    """Nobody who was asked knows a server for this pool; the text says why."""


class Elsewhere(redis.exceptions.ConnectionError):
    """The server answers that another one holds the pool: connect again, and it will be right."""


ELSEWHERE = (
    redis.exceptions.ReadOnlyError,
    redis.exceptions.MovedError,
    redis.exceptions.ClusterDownError,
)
"""Replies of a server that doesn't hold the pool (any more), or is cut off from those that know."""


class Finder(Protocol):
    """Knows whom to ask."""

    def find(self, pool: str) -> Address:
        """Return the server that holds *pool* now; raises `Nowhere`."""

    def find_all(self) -> list[Address]:
        """Return all servers that may hold a pool; raises `Nowhere`."""

    def learn(self, pool: str, fault: Exception) -> None:
        """Take to heart what a server answered that doesn't hold *pool*."""


class Endpoints:
    """The way from a pool to its server, for one URL."""

    def __init__(self, url: str) -> None:
        try:
            self.url = parse_redis_url(url)
        except ValueError as wrong:
            raise StartupError(
                f"The Redis URL {wrong}.", try_="--redis-url redis://HOST:6379/0"
            ) from wrong
        self.finder = _finder(self.url)
        """None: there is only one server, and the URL names it."""

    def group(self, pool: str) -> str:
        """Return what two pools have in common if they share a server whatever happens."""
        return pool if self.url.kind is Kind.CLUSTER else ""

    def server_url(self) -> str:
        """Return a plain URL with all that connections need to know but the address."""
        return self.url.server(self.url.seeds[0]) if self.finder else self.url.text

    @property
    def must_be_watched(self) -> bool:
        """A server may be replaced without telling those who are connected to it."""
        return self.url.kind is Kind.SENTINEL

    def find(self, pool: str) -> Address | None:
        """Return who holds *pool* now, None if it is always the same; raises `Nowhere`."""
        return self.finder.find(pool) if self.finder else None

    def client(self, where: Address | None, answer_within_s: float) -> redis.Redis:
        """Return a blocking client of the server that was found; raises `Nowhere`."""
        client = _client(self.url.server(where) if where else self.url.text, answer_within_s)
        if self.url.kind is not Kind.SENTINEL or _leads(client):
            return client
        raise Nowhere("the primary is being replaced")  # the Sentinels are behind

    def clients(self) -> Iterator[redis.Redis]:
        """Yield a blocking client of each server that may hold a pool; raises `Nowhere`."""
        if self.finder is None:
            urls = [self.url.text]
        else:
            urls = [self.url.server(address) for address in self.finder.find_all()]
        for url in urls:
            with _client(url, ANSWER_WITHIN_S) as client:
                yield client


def leads(reply: object) -> bool:
    """Tell from a reply to ROLE whether a server is the primary."""
    word = cast("list[object]", reply)[0]
    return word in (b"master", "master")


def _leads(client: redis.Redis) -> bool:
    """Ask a server whether it is the primary; it is closed if not."""
    try:
        is_leading = leads(client.execute_command("ROLE"))  # type: ignore[no-untyped-call]
    except redis.exceptions.NoPermissionError:
        return True  # it can't be told; the first write will
    except (redis.exceptions.RedisError, OSError):
        client.close()
        raise
    if not is_leading:
        client.close()
    return is_leading


def _finder(url: RedisUrl) -> Finder | None:
    match url.kind:
        case Kind.SENTINEL:
            return Sentinels(url)
        case Kind.CLUSTER:
            return Cluster(url)
        case Kind.SERVER:
            return None


def _client(url: str, answer_within_s: float, *, retries: int = 0) -> redis.Redis:
    return redis.Redis.from_url(
        url,
        socket_timeout=answer_within_s,
        socket_connect_timeout=answer_within_s,
        retry=redis.retry.Retry(redis.backoff.NoBackoff(), retries),
    )


class Sentinels:
    """Ask Sentinels who leads.

    After a failover that an operator wanted they let the old primary serve for up to ten seconds,
    and what it is told then is lost. So whoever keeps a connection asks them now and then, over
    connections that stay open.
    """

    def __init__(self, url: RedisUrl) -> None:
        self._service = url.service
        self._seeds = url.seeds
        self._clients = {
            seed: _client(url.sentinel(seed), _ASK_WITHIN_S, retries=1) for seed in url.seeds
        }

    def find(self, pool: str) -> Address:  # noqa: ARG002 - all pools are in one place
        """Return the primary's address, from the first Sentinel that knows it."""
        answer, self._seeds = _first_answer(self._seeds, self._ask, "no Sentinel answers")
        return answer

    def find_all(self) -> list[Address]:
        """Return the primary's address."""
        return [self.find("")]

    def learn(self, pool: str, fault: Exception) -> None:
        """Learn nothing: Sentinels tell it at the next question."""

    def _ask(self, sentinel: Address) -> Address:
        client = self._clients[sentinel]
        reply = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)  # type: ignore[no-untyped-call]
        if not reply:
            raise Nowhere("the Sentinels know no primary of this name")
        host, port = reply
        return _text(host), int(port)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slots:
    """Slots that one node serves."""

    first: int
    last: int
    address: Address


class Cluster:
    """Ask the nodes of a cluster who has the pool's slot."""

    def __init__(self, url: RedisUrl) -> None:
        self._url = url
        self._seeds = url.seeds
        self._told: dict[str, Address] = {}
        """Where a node said that a pool has moved; used once, others may not know it yet."""

    def find(self, pool: str) -> Address:
        """Return the node that serves the pool's slot."""
        if told := self._told.pop(pool, None):
            return told
        slot = redis.crc.key_slot(keys.prefix(pool).encode())
        for part in self._map():
            if part.first <= slot <= part.last:
                return part.address
        raise Nowhere("no node of the cluster serves the slot of this pool")

    def find_all(self) -> list[Address]:
        """Return all nodes that serve a slot."""
        return list(dict.fromkeys(part.address for part in self._map()))

    def learn(self, pool: str, fault: Exception) -> None:
        """Remember where to look next; a node that is cut off is asked last."""
        if isinstance(fault, redis.exceptions.MovedError) and fault.host:
            self._told[pool] = (fault.host, fault.port)

    def _map(self) -> list[_Slots]:
        found, seeds = _first_answer(self._seeds, self._ask, "no node of the cluster answers")
        # Nodes come and go: those that serve now are asked next time, the given ones after them.
        serving = (part.address for part in found)
        self._seeds = tuple(dict.fromkeys((seeds[0], *serving, *self._url.seeds)))
        return found

    def _ask(self, node: Address) -> list[_Slots]:
        with _client(self._url.server(node), _ASK_WITHIN_S) as client:
            batch = client.pipeline(transaction=False)
            batch.execute_command("CLUSTER", "INFO")
            batch.execute_command("CLUSTER", "SLOTS")
            info, slots = batch.execute()
        if "cluster_state:ok" not in _text(info):
            raise Nowhere("the cluster is down")
        return [
            _Slots(
                first=int(first),
                last=int(last),
                # A node that knows no name for itself is the one that answers.
                address=(_text(primary[0] or "") or node[0], int(primary[1])),
            )
            for first, last, primary, *_ in slots
        ]


def _first_answer(
    seeds: tuple[Address, ...], ask: Callable[[Address], T], nobody: str
) -> tuple[T, tuple[Address, ...]]:
    """Return the first answer, and *seeds* with the one that gave it in front."""
    why = Nowhere(nobody)
    for seed in seeds:
        try:
            answer = ask(seed)
        except Nowhere as fault:
            why = fault
        except redis.exceptions.AuthenticationError:
            why = Nowhere("who was asked refuses our password")
        except redis.exceptions.ResponseError as refusal:
            why = Nowhere(_refusal(refusal))
        except (redis.exceptions.RedisError, OSError):
            continue
        else:
            return answer, tuple(dict.fromkeys((seed, *seeds)))
    raise why


def _refusal(refusal: redis.exceptions.ResponseError) -> str:
    """Say what an answer tells about the one that was asked."""
    words = str(refusal).lower()
    if "unknown command" in words:
        return "the address is none of a Sentinel"
    if "cluster support disabled" in words:
        return "the address is none of a cluster"
    return "who was asked refuses to tell"


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
