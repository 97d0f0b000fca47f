"""What does the address of a registry say? Pure.

    redis[s]://[user:password@]host[:port][/database]               one server
    unix:///path/to/socket                                          one server on this machine
    redis[s]+sentinel://[user:password@]host[:port],…/service[/db]  who leads, Sentinels know
    redis[s]+cluster://[user:password@]host[:port],…                the nodes of a cluster know

With an ``s`` all connections use TLS. Options of redis-py may follow behind ``?``, and
``sentinel_username`` and ``sentinel_password`` where Sentinels have a password of their own. What
is wrong with an address is said in one sentence that never repeats a part of it: it may hold a
password.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

Address = tuple[str, int]
"""Host and port."""


class Kind(StrEnum):
    """How the server is found."""

    SERVER = "server"
    """It is the one that the address names."""
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisUrl:
    """One address, taken apart; nothing of it is ever printed."""

    kind: Kind
    text: str
    """As it was given."""
    seeds: tuple[Address, ...] = ()
    """Whom to ask: Sentinels, or nodes of the cluster."""
    service: str = ""
    """The name under which Sentinels know the primary."""
    _scheme: str = ""
    _user: str = ""
    _sentinel_user: str = ""
    _database: str = ""
    _query: str = ""

    def __repr__(self) -> str:
        return f"RedisUrl({self.kind})"

    def server(self, address: Address) -> str:
        """Return the plain URL of the server at *address*."""
        return f"{self._scheme}://{self._user}{_netloc(address)}/{self._database}{self._query}"

    def sentinel(self, address: Address) -> str:
        """Return the plain URL of the Sentinel at *address*."""
        return f"{self._scheme}://{self._sentinel_user}{_netloc(address)}{self._query}"


_SCHEMES = {
    "redis": (Kind.SERVER, "redis"),
    "rediss": (Kind.SERVER, "rediss"),
    "unix": (Kind.SERVER, "unix"),
    "redis+sentinel": (Kind.SENTINEL, "redis"),
    "rediss+sentinel": (Kind.SENTINEL, "rediss"),
    "redis+cluster": (Kind.CLUSTER, "redis"),
    "rediss+cluster": (Kind.CLUSTER, "rediss"),
}
_PORTS = {Kind.SERVER: 6379, Kind.SENTINEL: 26379, Kind.CLUSTER: 6379}
_SENTINEL_FORM = "redis+sentinel://HOST:26379,HOST:26379/SERVICE"


def parse_redis_url(url: str) -> RedisUrl:
    """Take an address apart.

    Raises:
        ValueError: It can't be one; the text says in one sentence what is wrong.
    """
    scheme, found, _ = url.partition("://")
    if not found or scheme not in _SCHEMES:
        raise ValueError(f"must begin with one of {', '.join(f'{name}://' for name in _SCHEMES)}")
    kind, plain = _SCHEMES[scheme]
    parts = _split(url)
    if plain == "unix":
        if not parts.path.startswith("/"):
            raise ValueError("names no socket: unix:///PATH")
        return RedisUrl(kind=kind, text=url)
    user, _, hosts = parts.netloc.rpartition("@")
    seeds = tuple(_addresses(hosts, _PORTS[kind]))
    if kind is Kind.SERVER:
        if len(seeds) > 1:
            raise ValueError(f"names several servers: use {_SENTINEL_FORM} or redis+cluster://")
        _check_database(parts.path.removeprefix("/"))
        return RedisUrl(kind=kind, text=url)
    service, database = _path(kind, parts.path)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    guard = (options.pop("sentinel_username", ""), options.pop("sentinel_password", ""))
    query = f"?{urlencode(options)}" if options else ""
    return RedisUrl(
        kind=kind,
        text=url,
        seeds=seeds,
        service=service,
        _scheme=plain,
        _user=f"{user}@" if user else "",
        _sentinel_user=f"{quote(guard[0])}:{quote(guard[1], safe='')}@" if any(guard) else "",
        _database=database,
        _query=query,
    )


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise ValueError("holds a host in brackets that is no IPv6 address") from None


def _path(kind: Kind, path: str) -> tuple[str, str]:
    """Return the service, which only Sentinels have, and the database."""
    words = path.strip("/").split("/")
    if kind is Kind.CLUSTER:
        if words not in ([""], ["0"]):
            raise ValueError("names a database, which a cluster doesn't have: leave out the path")
        return "", "0"
    if not words[0]:
        raise ValueError(f"names no service: use {_SENTINEL_FORM}")
    if len(words) > 2:
        raise ValueError(f"has too many parts behind the hosts: use {_SENTINEL_FORM}[/DATABASE]")
    database = words[1] if len(words) == 2 else "0"
    _check_database(database)
    return words[0], database


def _check_database(word: str) -> None:
    if word and not word.isdecimal():
        raise ValueError("names a database that is no number: redis://HOST:6379/0")


def _addresses(hosts: str, default_port: int) -> Iterator[Address]:
    for name in hosts.split(","):
        try:
            one = urlsplit(f"//{name}")
            host, port = one.hostname, one.port
        except ValueError:
            raise ValueError("has a port that is no number from 1 to 65535") from None
        if not host or port == 0:
            raise ValueError("names no host" if not host else "has the port 0")
        yield host, port or default_port


def _netloc(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
