"""Optional hooks of a service: called when they are there, harmless when they aren't or fail."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from tests.support.hosting import hosted
from tests.support.synthetic_service import Journal, SyntheticService


class Hooked(SyntheticService):
    """Has every hook that a room asks."""

    def __init__(self) -> None:
        super().__init__(Journal())
        self.reports: list[tuple[object, ...]] = []

    def has_session(self, session_id: str) -> bool:
        return session_id in self._sessions

    def runtime_metrics(self, session_id: str | None = None) -> dict[str, Any]:
        return {"active": True} if session_id else {"active_sessions": len(self._sessions)}

    def enable_publisher_frame_tracking(self, session_id: str) -> bool:
        return session_id in self._sessions

    def report_publisher_frame_progress(
        self,
        session_id: str,
        *,
        event: str,
        frames_delta: int,
        sequence: int,
        observed_monotonic_seconds: float,
    ) -> bool:
        self.reports.append((session_id, event, frames_delta, sequence, observed_monotonic_seconds))
        return True


class Broken(SyntheticService):
    """Every hook raises or returns what it may not."""

    def has_session(self, session_id: str) -> bool:
        raise RuntimeError("who knows")

    def runtime_metrics(self, session_id: str | None = None) -> Any:
        return ["no", "dict"]

    def enable_publisher_frame_tracking(self, session_id: str) -> bool:
        raise SystemExit(3)

    def report_publisher_frame_progress(self, *_: Any, **__: Any) -> Any:
        return 3


async def test_hooks_that_are_there_are_asked() -> None:
    """With the names and keywords that TeleFuser's services expect."""
    service = Hooked()
    async with hosted(service) as host:
        name = await host.create_session({})
        assert await host.runtime_metrics() == {"active_sessions": 1}
        assert await host.runtime_metrics(name) == {"active": True}
        assert await host.track_frames(name)
        assert await host.report_frames(name, "published", 3, 1, 12.5)
        assert service.reports == [(name, "published", 3, 1, 12.5)]


class Bare(SyntheticService):
    """Has none of them."""

    has_session: Any = None
    runtime_metrics: Any = None
    enable_publisher_frame_tracking: Any = None
    report_publisher_frame_progress: Any = None


async def test_hooks_that_are_missing_do_no_harm() -> None:
    """Neither do those of a host that is closed."""
    async with hosted(Bare(Journal())) as host:
        name = await host.create_session({})
        assert await host.runtime_metrics(name) == {}
        assert not await host.track_frames(name)
        assert not await host.report_frames(name, "published", 1, 1, 0.0)
    assert await host.runtime_metrics() == {}


async def test_a_broken_hook_counts_as_missing_and_is_logged_once() -> None:
    """No hook may end a session."""
    service = Broken(Journal())
    with capture_logs() as logs:
        async with hosted(service) as host:
            name = await host.create_session({})
            for _ in range(3):
                assert await host.runtime_metrics(name) == {}
                assert not await host.track_frames(name)
                assert not await host.report_frames(name, "published", 1, 1, 0.0)
                await host.push(name, {"type": "reset"})
    assert len(service.journal.pushed) >= 3
    ignored = [line["hook"] for line in logs if line["event"] == "service_hook_ignored"]
    assert sorted(ignored) == [
        "enable_publisher_frame_tracking",
        "has_session",
        "report_publisher_frame_progress",
        "runtime_metrics",
    ]


async def test_a_message_for_a_session_that_is_gone_doesnt_reach_the_service() -> None:
    """A service with ``has_session`` never sees an id that it has forgotten."""
    service = Hooked()
    async with hosted(service) as host:
        name = await host.create_session({})
        await host.push(name, {"type": "reset"})
        await host.close_session(name)
        heard = len(service.journal.pushed)
        await host.push(name, {"type": "reset"})
        await host.push("never-made", {"type": "reset"})
        assert len(service.journal.pushed) == heard
