"""Which registry does an operator's command look at, and what is said if that can't be done?

The one that is named, else the one that was started with the data folder. Whatever goes wrong ends
in one sentence and one thing to try.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from control_plane.cli.options import SHARED_FLAGS, Given
from control_plane.cli.settings import OperatorSettings
from shared.embedded.valkey import running_url
from shared.errors import (
    InvalidName,
    StartupError,
    StoreUnavailable,
    UnknownNode,
    UnknownSession,
)
from shared.ids import check_pool, pool_of
from shared.settings import load
from shared.store import Registry
from shared.store.console import refusals_told

T = TypeVar("T")

REGISTRY_FLAGS = tuple(
    flag for flag in SHARED_FLAGS if flag.field in {"data_dir", "redis_url", "pool"}
)

_KEPT_BY_OTHERS = ("lock", "deployment-id", "node-id")
"""What an all-in-one, a replica or a node leaves in its data folder."""


def registry_url(own: OperatorSettings) -> str:
    """Return the address of the registry.

    Raises:
        StartupError: None was named, and the data folder never had one of its own.
    """
    url = own.redis_url or running_url(own.data_dir)
    if url is None and any((own.data_dir / name).exists() for name in _KEPT_BY_OTHERS):
        raise StartupError(
            f"The data folder {own.data_dir} keeps no Redis: what was started with it uses one "
            "that is elsewhere.",
            try_="the same with --redis-url, as it was given there",
        )
    if url is None:
        raise StartupError(
            f"Nothing has been started with the data folder {own.data_dir} yet.",
            try_="greenroom stream-serve, or --redis-url, or --data-dir of what runs",
        )
    return url


def asked(
    given: Given, work: Callable[[Registry, str], Awaitable[T]], *, session_id: str = ""
) -> T:
    """Run *work* on the registry and the pool that *given* names, and return what it does.

    A *session_id* names its pool itself.
    """
    own = load(OperatorSettings, **given)
    with told():
        pool = pool_of(session_id) if session_id else one_pool(own)
    url = registry_url(own)

    async def run() -> T:
        registry = Registry.connect(url)
        try:
            return await work(registry, pool)
        finally:
            await registry.aclose()

    with told():
        return asyncio.run(run())


def one_pool(own: OperatorSettings) -> str:
    """Return the pool that is meant.

    Raises:
        StartupError: Several are named, or what is named can't be a pool.
    """
    names = [name.strip() for name in own.pool.split(",")]
    if len(names) > 1:
        raise StartupError(
            f"This looks at one pool at a time, not at {len(names)}.", try_=f"--pool {names[0]}"
        )
    try:
        return check_pool(names[0])
    except InvalidName as error:
        raise StartupError(str(error), try_="--pool default") from error


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Turn what an operator may meet into a sentence with something to try."""
    try:
        with refusals_told():
            yield
    except StoreUnavailable as error:
        elsewhere = "the same with --redis-url redis://HOST:6379/0"
        raise StartupError(
            str(error).replace("; try again", ""),
            try_="see who else writes to this Redis" if error.damaged else elsewhere,
        ) from error
    except UnknownSession as error:
        raise StartupError(str(error), try_="greenroom ps") from error
    except UnknownNode as error:
        raise StartupError(str(error), try_="greenroom nodes") from error
    except InvalidName as error:
        names = "greenroom nodes" if error.what == "node id" else "greenroom ps"
        raise StartupError(str(error), try_=names) from error
