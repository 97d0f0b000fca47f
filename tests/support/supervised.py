"""What does a parent do that is killed with kill -9 while its children run?

Run as a program: starts one child, which starts a grandchild, prints their process ids as JSON and
then waits for its own end.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from shared.embedded.child import ChildSpec
from shared.embedded.supervisor import Supervisor

GRANDCHILD = "import time\nwhile True: time.sleep(60)"
CHILD = f"""
import pathlib, subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-c", {GRANDCHILD!r}])
pathlib.Path(sys.argv[1]).write_text(str(grandchild.pid))
while True: time.sleep(60)
"""


async def main(folder: Path) -> None:
    """Start the family, tell its ids, wait to be killed."""
    told = folder / "grandchild"

    async def ready() -> bool:
        return told.exists() and bool(told.read_text())

    supervisor = Supervisor(log_dir=folder, say=lambda _: None, show=lambda *_: None)
    await supervisor.open()
    argv = (sys.executable, "-c", CHILD, str(told))
    supervisor.start(ChildSpec(name="child", argv=argv, env=os.environ, ready=ready))
    await supervisor.ready("child")
    ids = {"child": supervisor.pid("child"), "grandchild": int(told.read_text())}
    sys.stdout.write(json.dumps(ids) + "\n")
    sys.stdout.flush()
    await supervisor.failure()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
