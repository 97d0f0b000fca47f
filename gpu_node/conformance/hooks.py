"""Do the optional hooks of a service say what they must? None of them needs to be there."""

from __future__ import annotations

from typing import Any

from gpu_node.conformance.bench import Bench, Ended, Failed, Skipped
from shared.errors import ServiceFault
from shared.lifecycle import call_foreign, describe

NAMES = (
    "has_session",
    "configure_session_capacity",
    "session_capacity_profile",
    "runtime_metrics",
    "enable_publisher_frame_tracking",
    "report_publisher_frame_progress",
)

_ADVICE = "Mend it or take it out: a node goes on as if it weren't there."


async def answer_as_they_must(bench: Bench, service: Any) -> str:
    """Each one that is there, with a session and after it."""
    present = [name for name in NAMES if callable(getattr(service, name, None))]
    if bench.is_film:  # the adapter has these two
        present = [name for name in present if name not in NAMES[:2]]
    if not present:
        raise Skipped("it has none")
    async with bench.session() as playing:
        try:
            await playing.frames()
        except Ended:
            raise Skipped("the film is too short to ask during it") from None
        _expect(service, "has_session", bool, True, playing.name)
        _expect(service, "session_capacity_profile", dict | None)
        _expect(service, "runtime_metrics", dict)
        _expect(service, "runtime_metrics", dict, None, playing.name)
        if _expect(service, "enable_publisher_frame_tracking", bool, None, playing.name):
            report = {"event": "published", "frames_delta": 1, "sequence": 1}
            _expect(
                service,
                "report_publisher_frame_progress",
                bool,
                None,
                playing.name,
                **report,
                observed_monotonic_seconds=1.0,
            )
    if not bench.is_film:
        _expect(service, "has_session", bool, False, playing.name)
    return ", ".join(present)


def _expect(
    service: Any, name: str, kind: Any, value: object = None, *args: object, **kwargs: object
) -> object:
    hook = getattr(service, name, None)
    if not callable(hook):
        return None
    try:
        answer: object = call_foreign(
            lambda: hook(*args, **kwargs), lambda error: ServiceFault(describe(error))
        )
    except ServiceFault as error:
        raise Failed(f"{name}() raises: {error}", _ADVICE) from error
    if not isinstance(answer, kind):
        wanted = getattr(kind, "__name__", str(kind))
        raise Failed(f"{name}() returned a {type(answer).__name__}, not a {wanted}.", _ADVICE)
    if value is not None and answer is not value:
        raise Failed(f"{name}() said {answer} where {value} is true.", _ADVICE)
    return answer
