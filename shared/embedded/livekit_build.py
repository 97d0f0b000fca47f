"""Where is the LiveKit server's program, and how is it built if it is nowhere?

In this order: ``livekit-server`` on PATH, the build in the cache folder, a new build. There is no
wheel and no Debian package of it, but it builds as a Go module, pinned in ``scripts/livekit``, in
about a minute. Builds of several processes wait for each other and share one result.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from shared.errors import StartupError
from shared.settings import cache_dir, child_environment

RELEASE = "v1.13.5"
"""The newest release that builds from the public module proxy alone."""

_PACKAGE = "github.com/livekit/livekit-server/cmd/server"
_MODULE = Path(__file__).resolve().parents[2] / "scripts" / "livekit"
_TELL_EVERY_S = 10.0
_ERROR_LINES = 8

WAYS = (
    "name a running server with --livekit-url, put livekit-server on PATH, "
    "place a binary at {cached}, or install Go 1.26 or newer so that it can be built"
)


def livekit_program(say: Callable[[str], None]) -> Path:
    """Return the program, building it if need be; *say* shows progress.

    Raises:
        StartupError: It isn't there and can't be built; lists the four ways to get it.
    """
    if on_path := shutil.which("livekit-server"):
        return Path(on_path)
    cached = cached_program()
    if not os.access(cached, os.X_OK):
        with _build_lock(cached, say):
            if not os.access(cached, os.X_OK):  # else another process has built it meanwhile
                _build(cached, say)
    return cached


def cached_program() -> Path:
    """Return where the build of this release is kept; it may not be there yet."""
    return cache_dir() / "bin" / f"livekit-server-{RELEASE}"


@contextlib.contextmanager
def _build_lock(cached: Path, say: Callable[[str], None]) -> Iterator[None]:
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with (cached.parent / ".livekit-build.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("waiting for another build of the LiveKit server")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise _unavailable(f"{cached.parent} can't be written ({error.strerror})") from error


def _build(cached: Path, say: Callable[[str], None]) -> None:
    go = shutil.which("go")
    if go is None:
        raise _unavailable("it is neither on PATH nor built, and there is no Go to build it")
    if not (_MODULE / "go.mod").is_file():
        raise _unavailable("it is neither on PATH nor built, and only a checkout can build it")
    draft = cached.with_name(f".{cached.name}.{os.getpid()}")
    command = [go, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(draft), _PACKAGE]
    say(f"building the LiveKit server {RELEASE} (once; a minute or two)")
    try:
        _run(command, say)
        draft.replace(cached)
    finally:
        draft.unlink(missing_ok=True)


def _run(command: list[str], say: Callable[[str], None]) -> None:
    """Run the Go compiler; tell how long it has been at it now and then."""
    env = {**child_environment({}), "CGO_ENABLED": "0"}
    started_s = time.monotonic()
    with subprocess.Popen(
        command, cwd=_MODULE, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        while True:
            try:
                output, _ = process.communicate(timeout=_TELL_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                say(f"building the LiveKit server … {time.monotonic() - started_s:.0f} s")
            except KeyboardInterrupt:  # Go must not go on alone
                process.kill()
                raise
    if process.returncode != 0:
        last = deque((line for line in output.splitlines() if line.strip()), maxlen=_ERROR_LINES)
        raise _unavailable("Go could not build it: " + " / ".join(last))


def _unavailable(why: str) -> StartupError:
    return StartupError(
        f"There is no LiveKit server: {why}.", try_=WAYS.format(cached=cached_program())
    )


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def main() -> int:
    """Build it and print where it is: what ``scripts/livekit/build`` runs."""
    try:
        program = livekit_program(_say)
    except StartupError as error:
        sys.stderr.write(f"{error}\nTry: {error.try_}.\n")
        return 2
    sys.stdout.write(f"{program}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
