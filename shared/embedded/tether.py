"""How does a child process never outlive the one that started it, not even after kill -9?

Two ties, because each alone has a hole:

- ``hold`` runs in the child before the real program. It asks the kernel for SIGKILL when the parent
  dies (PR_SET_PDEATHSIG, which survives ``exec``), then looks whether the parent is gone already,
  and becomes the program. The kernel ties this to the parent *thread*, so children are started from
  the main thread only. It reaches direct children alone.
- ``bury`` is one small process beside the supervisor. It reads from a pipe which process groups
  live (``+<pgid>``) and which are over (``-<pgid>``). The pipe closes when the supervisor ends,
  however it ends, and then every group that still lives is killed: grandchildren too.

This file is run by path with ``python -I -S``: standard library only, nothing of ours, about 15 ms.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_OPERATOR_MISTAKE = 2
_PARENT_IS_GONE = 70


def hold_command(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that runs *argv* tied to the calling process."""
    return (sys.executable, "-I", "-S", __file__, "hold", str(os.getpid()), *argv)


def bury_command() -> tuple[str, ...]:
    """Return the command of the process that kills what its caller leaves behind."""
    return (sys.executable, "-I", "-S", __file__, "bury")


def _hold(parent: int, argv: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        sys.exit(_PARENT_IS_GONE)  # it died before the tie was made: no signal would ever come
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them, and exec would pass that on
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - the program that the supervisor chose
    except OSError as error:
        sys.stderr.write(f"{argv[0]} can't be run ({error.strerror}).\n")
        sys.exit(_OPERATOR_MISTAKE)


def _bury() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line.startswith("+"):
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        _hold(int(sys.argv[2]), sys.argv[3:])
    else:
        _bury()
