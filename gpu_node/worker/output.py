"""What happens to what a child prints?

Each line becomes a log line of the node. What the child's own code logs stays the event that it is,
with a mark; what a service prints becomes the event ``service_output``. Of a service that prints
without end so many lines a second are logged; the file beside the other logs has them all.
"""

from __future__ import annotations

import json
import logging
import time

import structlog

_log = structlog.get_logger()

_LINES_PER_S = 50
_LONGEST = 4000


class ChildOutput:
    """Passes lines on."""

    def __init__(self) -> None:
        self._second = 0
        self._lines = 0

    def show(self, _name: str, line: str) -> None:
        """Log one line."""
        second = int(time.monotonic())
        if second != self._second:
            if self._lines > _LINES_PER_S:
                _log.warning("service_output_cut", lines=self._lines - _LINES_PER_S)
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines <= _LINES_PER_S:
            _pass_on(line)


def _pass_on(line: str) -> None:
    try:
        fields = json.loads(line) if line.startswith("{") else None
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or not isinstance(fields.get("event"), str):
        _log.info("service_output", line=line[:_LONGEST])
        return
    level = logging.getLevelNamesMapping().get(str(fields.pop("level", "info")).upper())
    fields.pop("timestamp", None)
    event = fields.pop("event")
    cut = {name: v[:_LONGEST] if isinstance(v, str) else v for name, v in fields.items()}
    _log.log(level or logging.INFO, event, **{**cut, "in_worker": True})
