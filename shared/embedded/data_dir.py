"""Who may use this data folder now?

One all-in-one at a time: two of them would write one append-only file and share one node id. The
lock is held by the open file itself, so it is free as soon as the last process that has the file
open is gone. Valkey inherits it: a server that outlived its parent by a moment still keeps others
out, since Valkey itself doesn't notice a second writer.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from shared.errors import StartupError

_PATIENCE_S = 3.0
_POLL_S = 0.05


@contextlib.contextmanager
def locked(data_dir: Path) -> Iterator[int]:
    """Hold the lock of *data_dir*; yields its descriptor, which a child may inherit.

    Raises:
        StartupError: Another all-in-one uses the folder, or it can't be written.
    """
    with usable(data_dir):
        data_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, data_dir)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def usable(data_dir: Path) -> Iterator[None]:
    """Tell whatever can't be read or written in *data_dir* as a `StartupError`."""
    try:
        yield
    except OSError as error:
        raise StartupError(
            f"The data folder {data_dir} can't be used ({error.strerror}).",
            try_="give a writable folder with --data-dir",
        ) from error


def _take(descriptor: int, data_dir: Path) -> None:
    """Take the lock; wait a moment for processes that are being killed right now."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline_s:
                holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
                raise StartupError(
                    f"The data folder {data_dir} is in use by process {holder or 'unknown'}.",
                    try_="stop that one, or give another folder with --data-dir",
                ) from None
            time.sleep(_POLL_S)
        else:
            return
