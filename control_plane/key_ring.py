"""Which API keys are valid now?"""

from __future__ import annotations

from shared.access_keys import ApiKey
from shared.store import Registry


class KeyRing:
    """The keys that the registry holds, as this replica knows them."""

    def __init__(self, *, registry: Registry) -> None:
        self._registry = registry

    async def find(self, key_id: str) -> ApiKey | None:  # noqa: ARG002
        """Return the key with this id."""
        return None
