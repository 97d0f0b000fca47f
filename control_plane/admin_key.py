"""Is this replica closed, and which admin key opens it?

Settings and data folder decide, never what Redis holds: a registry that was emptied or is out must
not open a closed replica. Nor does this key depend on Redis, so that somebody can always get in.

- ``--no-auth``: open. Together with a key it is a contradiction, and refused by the settings.
- ``--admin-key``, or a key that the data folder keeps from earlier: closed.
- None of these, reachable from this machine alone: open.
- None of these, reachable from others: closed, with a key that is made now and kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from control_plane.settings import LEAST_ADMIN_KEY_CHARS as LEAST_CHARS
from control_plane.settings import ReplicaSettings
from shared.access_keys import new_key
from shared.errors import StartupError
from shared.settings import kept

FILE = "admin-key"
ADMIN_ID = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminKey:
    """The key that lets its bearer do everything."""

    value: str
    file: Path | None = None
    """Where it is kept; None: it came from a setting."""
    is_new: bool = False

    def __repr__(self) -> str:
        return "AdminKey(…)"


def admin_key_of(settings: ReplicaSettings) -> AdminKey | None:
    """Return the admin key of a closed replica, None for an open one; the same one each time.

    Raises:
        StartupError: The data folder can't be used.
    """
    if settings.no_auth:
        return None
    if given := settings.admin_key.get_secret_value():
        return AdminKey(value=given)
    file = settings.data_dir / FILE
    if settings.on_loopback and not _is_there(file):
        return None
    made: list[str] = []

    def make() -> str:
        made.append(new_key(ADMIN_ID))
        return made[0]

    value = kept(settings.data_dir, FILE, make)
    if len(value) < LEAST_CHARS:
        raise StartupError(
            f"The admin key in {file} is cut short.",
            try_="give a key with --admin-key; if you delete the file instead, a replica on "
            "loopback is open from then on, and any other one makes a new key",
        )
    return AdminKey(value=value, file=file, is_new=value in made)


def made_key_text(key: AdminKey) -> str:
    """Return what is told, once, about a key that was made just now."""
    return (
        f"Callers need a key from now on. This is the admin key, kept in {key.file}:\n"
        f"{key.value}\n"
        "Give other replicas the same one with GREENROOM_ADMIN_KEY; greenroom keys add makes "
        "keys that may do less.\n"
    )


def _is_there(file: Path) -> bool:
    """Whether there is a file; one that can't be seen must not count as none."""
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StartupError(
            f"The admin key in {file} can't be read ({error.strerror}).",
            try_="give a readable folder with --data-dir",
        ) from error
    return True
