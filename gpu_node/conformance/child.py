"""How is a service tried in a process of its own, so that nothing that it does ends the report?

``python -m gpu_node.conformance.child DESCRIPTOR PLAN``: loads the service, runs the checks that
the plan names, and writes what it knows to the descriptor, a line each. After a failed check it
ends, for the service may be in any state; the parent starts another child for the rest.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gpu_node.conformance.bench import Bench, Ended, Failed, Limits
from gpu_node.conformance.results import Begun, Outcome, Result, encoded
from gpu_node.conformance.suite import ALL, limit_s, runs, tried
from gpu_node.services.host import ServiceHost
from gpu_node.services.loader import load
from gpu_node.settings import visible_gpus
from shared.lifecycle import in_thread
from shared.logs import set_up_logs


class Trial:
    """One child's run."""

    def __init__(self, descriptor: int, plan: dict[str, Any]) -> None:
        self._out = descriptor
        self._path = Path(plan["path"])
        self._names: list[str] = plan["checks"]
        self._config: dict[str, Any] = plan["config"]
        self._limits = Limits(patience=plan["patience"], cycles=plan["cycles"])
        self._service: object = None
        self._bench: Bench | None = None

    async def run(self) -> None:
        """Run the checks in order, until one fails."""
        first = {"load": self._load, "start": self._start, "capacity": self._size}
        for name, run in first.items():
            if not await self._step(name, run):
                return
        if self._names == ["resume"]:
            await self._step("resume", self._play_on)
            await asyncio.Event().wait()  # until it's killed
        checks = runs(self.bench, self._service)
        for name in self._names:
            if not await self._step(name, checks[name]):
                return

    @property
    def bench(self) -> Bench:
        """There is one once the service is loaded."""
        if self._bench is None:
            raise Failed("The service isn't loaded.")
        return self._bench

    async def _step(self, name: str, run: Callable[[], Awaitable[str]]) -> bool:
        check = ALL[name]
        self._say(Begun(check=name, within_s=limit_s(check, self._limits.patience)))
        result = await tried(check, run, self._bench)
        self._say(result)
        return result.outcome is not Outcome.FAILED

    def _say(self, message: Begun | Result) -> None:
        os.write(self._out, encoded(message))

    async def _load(self) -> str:
        gpus = visible_gpus()
        loaded = await in_thread(
            "service-load", lambda: load(self._path, gpu_num=len(gpus or [""]), gpu_ids=gpus)
        )
        self._service = loaded.service
        self._bench = Bench(ServiceHost(loaded), self._limits, self._config)
        return loaded.mode.replace("_", " ")

    async def _start(self) -> str:
        await self.bench.within(self._limits.start, "start()", self.bench.host.start())
        return ""

    async def _size(self) -> str:
        capacity = await self.bench.host.capacity(None)
        self.bench.capacity = capacity.sessions
        return f"{capacity.sessions} at once"

    async def _play_on(self) -> str:
        """Begin a session whose id is always the same, as that of one that has moved."""
        config = {**self.bench.config(), "session_id": "check-resumed"}
        playing = await self.bench.play(config)
        try:
            await playing.frames()
        except Ended:
            raise Failed("The session ended before its first frame.") from None
        return "killed while it played, played again"


def main() -> None:
    """Run one trial."""
    set_up_logs(level="warning")
    descriptor, plan = int(sys.argv[1]), json.loads(sys.argv[2])
    os.set_inheritable(descriptor, False)
    asyncio.run(Trial(descriptor, plan).run())


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a service may have left threads that never end
