"""The address of a registry: what it says, and what is wrong with it in one sentence."""

from __future__ import annotations

import pytest

from shared.redis_url import Kind, parse_redis_url


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:6379/0",
        "redis://:hunter2@cache/3?protocol=2",
        "rediss://user:hunter2@cache:6380",
        "unix:///run/redis.sock?db=1",
    ],
)
def test_one_server_is_left_to_redis_py(url: str) -> None:
    """The address goes there as it was given."""
    parsed = parse_redis_url(url)
    assert (parsed.kind, parsed.text) == (Kind.SERVER, url)


def test_sentinels_are_named_with_a_service() -> None:
    """Ports and the database may be left out; IPv6 hosts stand in brackets."""
    parsed = parse_redis_url("redis+sentinel://ann:hunter2@one,two:5000,[::1]/stage/2?protocol=2")
    assert parsed.kind is Kind.SENTINEL
    assert parsed.seeds == (("one", 26379), ("two", 5000), ("::1", 26379))
    assert parsed.service == "stage"
    assert parsed.server(("::2", 7000)) == "redis://ann:hunter2@[::2]:7000/2?protocol=2"
    assert parsed.sentinel(("one", 26379)) == "redis://one:26379?protocol=2"


def test_sentinels_may_have_a_password_of_their_own() -> None:
    """It is asked for the primary with that one, the primary is met with the other."""
    parsed = parse_redis_url(
        "rediss+sentinel://:inner@one/stage?sentinel_password=a%2Fb&ssl_cert_reqs=none"
    )
    assert parsed.sentinel(("one", 26379)) == "rediss://:a%2Fb@one:26379?ssl_cert_reqs=none"
    assert parsed.server(("two", 1)) == "rediss://:inner@two:1/0?ssl_cert_reqs=none"


def test_a_cluster_is_named_by_some_of_its_nodes() -> None:
    """It has no databases."""
    parsed = parse_redis_url("redis+cluster://:hunter2@one,two:7000/")
    assert parsed.kind is Kind.CLUSTER
    assert parsed.seeds == (("one", 6379), ("two", 7000))
    assert parsed.server(("two", 7000)) == "redis://:hunter2@two:7000/0"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("hunter2", "must begin with one of redis://"),
        ("http://hunter2", "must begin with one of redis://"),
        ("redis://", "names no host"),
        ("redis://:hunter2@/0", "names no host"),
        ("redis://cache:hunter2/0", "has a port that is no number"),
        ("redis://cache:0/0", "has the port 0"),
        ("redis://cache/hunter2", "names a database that is no number"),
        ("redis://one,hunter2/0", "names several servers"),
        ("redis://[hunter2/0", "holds a host in brackets"),
        ("unix://", "names no socket"),
        ("redis+sentinel://one:26379", "names no service"),
        ("redis+sentinel://one/stage/hunter2", "names a database that is no number"),
        ("redis+sentinel://one/stage/0/hunter2", "has too many parts"),
        ("redis+sentinel://one,,two/stage", "names no host"),
        ("redis+cluster://one:70000", "has a port that is no number"),
        ("redis+cluster://one/1", "names a database, which a cluster doesn't have"),
    ],
)
def test_a_wrong_address_is_told_without_a_part_of_it(url: str, words: str) -> None:
    """It may hold a password."""
    with pytest.raises(ValueError, match=words) as told:
        parse_redis_url(url)
    assert "hunter2" not in str(told.value)


def test_an_address_doesn_t_print_its_password() -> None:
    """Neither in a log nor in a trace."""
    assert "hunter2" not in repr(parse_redis_url("redis+cluster://:hunter2@one"))
