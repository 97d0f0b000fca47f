"""Which of the optional hooks does a service have, and what do they say?

A missing hook is always legal and a broken one never ends a session: what it raises or returns
against its contract is logged once per hook and counts as if the hook weren't there. All of them
are called on the service loop, so a service needs no locks for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import structlog

from gpu_node.services.stream import fault_in
from shared.errors import ServiceFault
from shared.lifecycle import call_foreign

Kind = TypeVar("Kind")
Default = TypeVar("Default")
_log = structlog.get_logger()


class Hooks:
    """The optional methods of one service object."""

    def __init__(self, service: object) -> None:
        self._service = service
        self._complained: set[str] = set()

    def knows(self, pipeline_session_id: str) -> bool:
        """Whether a late message still has an addressee; True without ``has_session``."""
        return self._ask("has_session", bool, True, pipeline_session_id)

    def runtime_metrics(self, pipeline_session_id: str | None) -> dict[str, Any]:
        """Return what the service measures of itself or of one session; empty without the hook."""
        of_whom = () if pipeline_session_id is None else (pipeline_session_id,)
        return self._ask("runtime_metrics", dict, {}, *of_whom)

    def track_frames(self, pipeline_session_id: str) -> bool:
        """Whether the service wants to hear of each frame that leaves."""
        return self._ask("enable_publisher_frame_tracking", bool, False, pipeline_session_id)

    def report_frames(
        self,
        pipeline_session_id: str,
        event: str,
        frames_delta: int,
        sequence: int,
        observed_s: float,
    ) -> bool:
        """Tell the service that frames left or were abandoned; whether it took notice."""
        return self._ask(
            "report_publisher_frame_progress",
            bool,
            False,
            pipeline_session_id,
            event=event,
            frames_delta=frames_delta,
            sequence=sequence,
            observed_monotonic_seconds=observed_s,
        )

    def capacity_profile(self) -> dict[str, Any] | None:
        """Return how the service came to its capacity, for people; None without the hook."""
        return self._ask("session_capacity_profile", dict, None)

    def hears(self) -> bool:
        """Whether the service wants its controller's voice: "audio" among ``session_inputs``."""
        inputs: object = self._ask("session_inputs", object, ())
        return isinstance(inputs, set | frozenset | list | tuple | dict) and "audio" in inputs

    def _ask(
        self, name: str, kind: type[Kind], default: Default, *args: object, **kwargs: object
    ) -> Kind | Default:
        hook: Callable[..., object] | None = getattr(self._service, name, None)
        if not callable(hook):
            return default
        try:
            answer = call_foreign(lambda: hook(*args, **kwargs), fault_in(name))
        except ServiceFault as error:
            self._complain(name, str(error))
            return default
        if isinstance(answer, kind):
            return answer
        if answer is not None:
            self._complain(name, f"it returned a {type(answer).__name__}, not a {kind.__name__}")
        return default

    def _complain(self, name: str, why: str) -> None:
        if name not in self._complained:
            self._complained.add(name)
            _log.warning("service_hook_ignored", hook=name, why=why)
