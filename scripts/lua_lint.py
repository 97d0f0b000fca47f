"""Do the Lua scripts pass luacheck as Redis gets them?

A script is checked as the loader sends it: with its arguments, the state tables and the shared
pieces in front. What a script doesn't use of those pieces is no finding; everything else is.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from shared.store.scripts import expanded_scripts

GLOBALS = ("redis", "KEYS", "ARGV", "cjson", "cmsgpack", "struct", "bit")
FROM_PIECES = ("211", "431")
"""Every script gets whole shared pieces, uses some of them (211: an unused local), and may call an
argument by a name that a piece uses for its own (431: shadowing)."""


def main() -> int:
    """Check all scripts; returns luacheck's exit status."""
    with tempfile.TemporaryDirectory(prefix="greenroom-lua-") as name:
        folder = Path(name)
        for script, source in expanded_scripts().items():
            (folder / f"{script}.lua").write_text(source, encoding="utf-8")
        command = ["luacheck", "--std", "lua51", "--no-color", "--codes", "-q"]
        command += ["--no-max-line-length", "--ignore", *FROM_PIECES]
        command += ["--read-globals", *GLOBALS, "--", "."]
        return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
