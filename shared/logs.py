"""How does a process write its log lines?

One line per event to standard out (an operator's command has its answer there, and its lines go to
standard error): JSON, or readable colours when a person looks at a terminal. An event is a fixed
snake_case word, its data are fields; lines of libraries take the same way. Tokens and passwords
inside texts are blotted out here, at the last door, because libraries put whole JWTs into their
error messages.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

_JWT = re.compile(r"eyJ[\w-]{8,}\.[\w-]+(\.[\w-]+)?")
_URL_PASSWORD = re.compile(r"(\w+://[^:/@\s]*):[^@/\s]+@")


def redact(text: str) -> str:
    """Return *text* without tokens and without passwords in addresses."""
    if "eyJ" in text:
        text = _JWT.sub("<token>", text)
    if "@" in text:
        text = _URL_PASSWORD.sub(r"\1:***@", text)
    return text


def _redact_fields(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = redact(value)
    return event


def set_up_logs(*, level: str = "info", to: TextIO | None = None) -> None:
    """Send this process's log lines, our own and those of libraries, *to* (None: standard out)."""
    number = logging.getLevelNamesMapping()[level.upper()]
    out = to or sys.stdout
    readable = out.isatty()
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _redact_fields,
    ]
    renderer: structlog.types.Processor = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if readable
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(out),
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.captureWarnings(capture=True)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(number, logging.WARNING))
