"""How does a stage run in a process of its own?

`ChildStage` is code for an actor like any other; behind it is a spawned process that loads a file
by its path, as a node loads a service, and makes the real code there. Calls and answers cross a
pipe as pickles. So this is for stages that hold the interpreter, or for one process per card;
frames between the node and a whole service in a child go another way.

The process ends with this one: it waits on the pipe, and the pipe ends.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gpu_node.orchestrator.actors import Call
from shared.errors import ActorDied, StageFailed
from shared.lifecycle import describe, foreign_code

_STOP_S = 5.0
_SPAWN = multiprocessing.get_context("spawn")


class ChildStage:
    """Code in a process: function *factory* of the file *path*, called there with *arguments*."""

    def __init__(self, path: Path, factory: str, *arguments: Any) -> None:
        self._made_by = (str(path), factory, arguments)
        self._pipe: Connection | None = None
        self._process: Any = None
        self._name = factory

    @property
    def pid(self) -> int | None:
        """Of the process, once it runs."""
        return None if self._process is None else self._process.pid

    def run(self, call: Call) -> Mapping[str, Any]:
        """Have the process run one step; the first one starts it."""
        answer = self._ask("run", call)
        if not isinstance(answer, Mapping):
            raise StageFailed(stage=self._name, what="run() must return a mapping.")
        return answer

    def close(self, session: str) -> None:
        """Have the process let go of a session; one that never ran anything has nothing."""
        if self._process is not None:
            self._ask("close", session)

    def shutdown(self) -> None:
        """End the process, in its own way if it can."""
        if self._process is None or self._pipe is None:
            return
        self._pipe.close()
        self._process.join(_STOP_S)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join(_STOP_S)

    def _ask(self, what: str, question: object) -> object:
        pipe = self._pipe or self._start()
        try:
            pipe.send((what, question))
            fault, answer = pipe.recv()
        except (EOFError, OSError) as error:
            self._process.join(_STOP_S)
            code = self._process.exitcode
            raise ActorDied(
                stage=self._name, what=f"its process ended with exit code {code}."
            ) from error
        if fault:
            raise StageFailed(stage=self._name, what=str(answer))
        return answer

    def _start(self) -> Connection:
        pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(
            target=_serve, args=(theirs, *self._made_by), name=f"stage-{self._name}", daemon=True
        )
        self._process.start()
        theirs.close()
        self._pipe = pipe
        return pipe


def _serve(pipe: Connection, path: str, factory: str, arguments: tuple[Any, ...]) -> None:
    """In the process: make the code, then answer until the pipe ends."""
    code: Any = None
    while True:
        try:
            what, question = pipe.recv()
        except (EOFError, OSError):
            break
        try:
            with foreign_code(lambda error: StageFailed(stage=factory, what=describe(error))):
                code = code or _load(path, factory)(*arguments)
                method = getattr(code, what, None)
                answer = (False, None if method is None else method(question))
        except StageFailed as error:
            answer = (True, error.what)
        pipe.send(answer)
    shutdown = getattr(code, "shutdown", None)
    if shutdown is not None:
        shutdown()


def _load(path: str, factory: str) -> Any:
    name = f"greenroom_stage_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} can't be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles in it look themselves up
    spec.loader.exec_module(module)
    return getattr(module, factory)
