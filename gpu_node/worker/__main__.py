"""How does a child begin?

``python -m gpu_node.worker CONTROL HANDOVER``; both are sockets that it inherits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from pathlib import Path

from gpu_node.worker.child import Child
from shared.logs import set_up_logs

_OOM_SCORE = "500"


def _leave_it_to_the_node(_number: int, _frame: object) -> None:
    """A handler, and no ignoring, since what the service starts would inherit that."""


async def _serve(control: int, handover: int) -> None:
    await Child(socket.socket(fileno=control), socket.socket(fileno=handover)).run()


def main() -> None:
    """Serve one node until it has no more use for this process."""
    for descriptor in (control := int(sys.argv[1]), handover := int(sys.argv[2])):
        os.set_inheritable(descriptor, False)  # whatever the service starts must not hold them
    for number in (signal.SIGTERM, signal.SIGINT):  # whoever sends them to all means the node
        signal.signal(number, _leave_it_to_the_node)
    with contextlib.suppress(OSError):  # if memory runs out, the model goes and the node stays
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
    set_up_logs()
    asyncio.run(_serve(control, handover))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a service may have left threads that never end
