"""May this process use the name that its data folder keeps?

A node that is given no ``--node-id`` takes the one that was made once in its data folder. Two
processes with that name would be one node to the registry, each waiting for the other's lease to
run out and then taking over its sessions. So whoever uses the kept name locks a file beside it for
as long as the process lives.

It's a record lock: the kernel takes it away together with the process, kill -9 included, and
nothing that a model service forks inherits it, so an orphan can't keep the node from coming back.

A name that an operator gave isn't locked: the same one may be used on another machine later, where
no file can tell. There the registry's rule for the lives of a node decides.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from shared.errors import StartupError

_PATIENCE_S = 3.0
_POLL_S = 0.05


def hold_kept_name(data_dir: Path) -> None:
    """Lock the name kept in *data_dir* until this process ends.

    Raises:
        StartupError: Another node uses it, or the folder can't be written.
    """
    descriptor = _open(data_dir)
    deadline_s = time.monotonic() + _PATIENCE_S
    while not _is_taken(descriptor):
        if time.monotonic() > deadline_s:  # a node that is being killed right now is gone by then
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise StartupError(
                f"The node id kept in {data_dir} is in use by process {holder or 'unknown'}.",
                try_="a name of its own with --node-id, or another folder with --data-dir",
            )
        time.sleep(_POLL_S)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def _open(data_dir: Path) -> int:
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        return os.open(data_dir / "node-id.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartupError(
            f"The data folder {data_dir} can't be used ({error.strerror}).",
            try_="give a writable folder with --data-dir",
        ) from error


def _is_taken(descriptor: int) -> bool:
    """Try to take the lock; to close the descriptor would be to give it back."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # which of the two is the file system's choice
        return False
    return True
