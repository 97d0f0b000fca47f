"""What did the service say last, while nobody knows yet whether it will come up?

Whatever it prints or logs goes where it always went; its last line is remembered on the way. So
streams are wrapped, not replaced, and no log handler is added: a handler on the root logger would
make a file's own ``logging.basicConfig`` do nothing. Lines of threads that ran before, which are
the node's own, don't count. What native code writes to the descriptors isn't seen.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, TextIO, cast

from shared.logs import redact

_LINE_KEPT = 200
"""Characters."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_BREAKS = re.compile(r"[\r\n]+")  # a progress bar ends its lines with a carriage return

RecordFactory = Callable[..., logging.LogRecord]


class LastWords:
    """Listens for the length of a ``with`` block; ``line`` may be read on any thread."""

    def __init__(self) -> None:
        self.line = ""
        self._listening = False
        self._our_threads: frozenset[threading.Thread] = frozenset()
        self._out: tuple[TextIO, TextIO] | None = None
        self._err: tuple[TextIO, TextIO] | None = None
        self._records: tuple[RecordFactory, RecordFactory] | None = None

    def __enter__(self) -> Self:
        self._our_threads = frozenset(threading.enumerate())
        self._listening = True
        self._out = (sys.stdout, _overheard(sys.stdout, self.hear))
        self._err = (sys.stderr, _overheard(sys.stderr, self.hear))
        sys.stdout, sys.stderr = self._out[1], self._err[1]
        make = logging.getLogRecordFactory()

        def make_and_hear(*args: Any, **kwargs: Any) -> logging.LogRecord:
            record = make(*args, **kwargs)
            if self._listening:
                self.hear(_text_of(record) + "\n")
            return record

        self._records = (make, make_and_hear)
        logging.setLogRecordFactory(make_and_hear)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put back what stands there unchanged; what was wrapped again stays, and stays deaf."""
        self._listening = False
        if self._out and sys.stdout is self._out[1]:
            sys.stdout = self._out[0]
        if self._err and sys.stderr is self._err[1]:
            sys.stderr = self._err[0]
        if self._records and logging.getLogRecordFactory() is self._records[1]:
            logging.setLogRecordFactory(self._records[0])

    def hear(self, text: str) -> None:
        """Keep the last line of *text* that says something."""
        if not self._listening or threading.current_thread() in self._our_threads:
            return
        for piece in reversed(_BREAKS.split(text)):
            said = "".join(c for c in _ESCAPES.sub("", piece).strip() if c.isprintable())
            if said:
                self.line = redact(said)[:_LINE_KEPT]
                return


class _Overheard:
    """A text stream that goes on as it was and tells what is written to it."""

    def __init__(self, stream: TextIO, hear: Callable[[str], None]) -> None:
        self._stream = stream
        self._hear = hear

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._hear(text)
        return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)


def _overheard(stream: TextIO, hear: Callable[[str], None]) -> TextIO:
    return cast(TextIO, _Overheard(stream, hear))


def _text_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):  # its arguments don't fit: the handler complains
        return str(record.msg)
