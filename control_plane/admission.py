"""May this session start now, wait, or not at all?

The registry decides, in one script; here a wish is checked and brought into the form that the
script takes. An accepted wish costs one call of the registry (two with an image, which is stored
first, on its own connection). LiveKit isn't asked: a cached probe says whether it was there a
moment ago.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic_core import to_json

from control_plane.images import ImageShrinker
from control_plane.metrics import Metrics
from control_plane.session_owners import SessionOwners
from control_plane.vitals import Vitals
from shared.errors import InvalidImage, InvalidRequest, RoomsUnavailable, UnknownPool
from shared.records import Opened, OpenRequest, SessionLimits, SessionRequest
from shared.store import Registry
from shared.waiting import IdentityLimits

MAX_CONFIG_BYTES = 256 * 1024
"""What Redis keeps of one request's configuration, its image aside."""
_ANYBODY = "anybody"
"""The caller where nobody checks who is calling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody asked for, shape already checked."""

    caller: str = ""
    """The id of the key that it came with; empty on an open replica."""
    identity: str
    config: Mapping[str, object]
    prompt: str | None = None
    image_path: str | None = None
    pool: str | None = None
    """None: the replica's first one."""
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What applies to each session that is taken in; the same on all replicas."""

    limits: SessionLimits
    queue_size: int
    identity_limits: IdentityLimits


class Admission:
    """The replica's side of the line."""

    def __init__(
        self,
        *,
        registry: Registry,
        vitals: Vitals,
        metrics: Metrics,
        pools: tuple[str, ...],
        terms: Terms,
        owners: SessionOwners,
    ) -> None:
        self._registry = registry
        self._vitals = vitals
        self._metrics = metrics
        self._pools = pools
        self._terms = terms
        self._owners = owners
        self._images = ImageShrinker()

    async def admit(self, wish: Wish) -> Opened:
        """Put the wish in line; it may be assigned at once.

        Raises:
            InvalidRequest: Unknown pool, an image that isn't one, too much configuration.
            IdempotencyMismatch: The key was used with another body.
            Unavailable: Redis or LiveKit is out, or too many images wait.
        """
        pool = self._pool_of(wish)
        if not self._vitals.rooms_reachable:
            raise RoomsUnavailable(why="it didn't answer the last probe")
        session_id = self._owners.new_id(pool, wish.caller)
        request = _request_of(wish)
        if (image := wish.config.get("image")) is not None:
            await self._keep_image(session_id, image)
        opened = await self._registry.open(
            OpenRequest(
                pool=pool,
                session_id=session_id,
                request=request,
                limits=self._terms.limits,
                queue_size=self._terms.queue_size,
                identity_limits=self._terms.identity_limits,
                idempotency_hash=_idempotency_hash(wish, pool),
                fingerprint=_fingerprint(wish),
                caller=wish.caller,
            )
        )
        self._metrics.admission(pool, opened)
        return opened

    def close(self) -> None:
        """Start no more work on images."""
        self._images.close()

    def _pool_of(self, wish: Wish) -> str:
        if wish.pool is None:
            return self._pools[0]
        if wish.pool not in self._pools:
            raise UnknownPool(pool=wish.pool, served=self._pools)
        return wish.pool

    async def _keep_image(self, session_id: str, image: object) -> None:
        """Store the image before its session exists; unclaimed, the registry forgets it."""
        if not isinstance(image, str):
            raise InvalidImage(why="send it as a data URL that begins 'data:image/…;base64,'")
        await self._registry.put_image(session_id, await self._images.shrink(image))


def _request_of(wish: Wish) -> SessionRequest:
    """Return what is kept of a wish: all but its image, and only what JSON can say."""
    request = SessionRequest(
        identity=wish.identity,
        config={name: value for name, value in wish.config.items() if name != "image"},
        prompt=wish.prompt,
        image_path=wish.image_path,
    )
    if request.config:
        _check_config(request.config)
    return request


def _check_config(config: Mapping[str, object]) -> None:
    stored = to_json(config)
    if len(stored) > MAX_CONFIG_BYTES:
        raise InvalidRequest(f"The config is over {MAX_CONFIG_BYTES // 1024} KiB.")
    if _INFINITE in stored:  # perhaps only in a text
        try:
            json.dumps(config, allow_nan=False)
        except ValueError as infinite:  # 1e999 is JSON, what it becomes is not
            raise InvalidRequest("The config has a number that is too large.") from infinite


_INFINITE = b"Infinity"
"""How a number is written that JSON has no word for."""


def _idempotency_hash(wish: Wish, pool: str) -> str:
    if wish.idempotency_key is None:
        return ""
    scope = "\0".join((wish.caller or _ANYBODY, pool, wish.idempotency_key))
    return hashlib.sha256(scope.encode()).hexdigest()


def _fingerprint(wish: Wish) -> str:
    """Digest all that was asked for, so that the order of keys and spaces don't count."""
    if wish.idempotency_key is None:
        return ""
    asked = [wish.identity, wish.prompt, wish.image_path, wish.config]
    return hashlib.sha256(_in_order(asked).encode()).hexdigest()


_in_order = json.JSONEncoder(sort_keys=True).encode
"""Releases side by side must come to the same digest."""
