"""A service with a fixed pool of two slots; ``fail_in: "cleaning"`` makes a clean-up fail."""

from __future__ import annotations

from typing import Any

from gpu_node.slots import Slot, SlotPool
from tests.support.synthetic_service import Journal, SyntheticService

SLOTS = 2


class PooledService(SyntheticService):
    """Each session's storage is a list."""

    warm_up = False

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal)
        self.pool: SlotPool[list[str]] = SlotPool([[] for _ in range(SLOTS)], name="worlds")
        self.slots: dict[str, Slot[list[str]]] = {}

    def configure_session_capacity(self, max_sessions: int | None) -> dict[str, Any]:
        return {"effective_capacity": self.pool.capacity}

    def create_session(self, config: dict[str, Any]) -> str:
        name = super().create_session(config)
        slot = self.slots[name] = self.pool.take(str(config.get("session_id")))
        if slot.storage:
            raise RuntimeError(f"this slot still holds {slot.storage}")
        slot.storage.append(name)
        return name

    def close_session(self, session_id: str) -> None:
        config = self._configs.get(session_id, {})
        if config.get("fail_in") == "leak":
            self.slots.pop(session_id)
        if (slot := self.slots.pop(session_id, None)) is not None:
            with self.pool.cleaning(slot.index) as storage:
                if config.get("fail_in") == "cleaning":
                    raise RuntimeError("the cache is still in use")
                storage.clear()
        super().close_session(session_id)

    def runtime_metrics(self, session_id: str | None = None) -> dict[str, Any]:
        return {"slots": self.pool.report()} if session_id is None else {}


def get_service() -> PooledService:
    """The entry point."""
    return PooledService(Journal())
