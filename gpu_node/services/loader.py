"""How is a pipeline file checked and loaded once, off the event loop?

`load` blocks (it may import torch), so the agent calls it in a thread. The module gets a name made
from the hash of its path and is registered under it, as dataclasses and pickles inside the file
need; it leaves ``sys.modules`` with `LoadedService.unload`. Whatever goes wrong is told in one
sentence that names the file, the step and the file's own words.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from gpu_node.services.contract import Bidirectional, ServiceMode, missing_from, mode_of
from gpu_node.services.server_push import ServerPushAdapter
from shared.errors import ServiceLoadFailed, ServiceStartFailed, StartupError
from shared.lifecycle import call_foreign, describe, foreign_code

DEMO_WORLD = Path(__file__).with_name("demo_world.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedService:
    """One service object and where it came from; not started yet."""

    path: Path
    module_name: str
    service: Bidirectional
    """For server push: the adapter that gives it this shape."""
    mode: ServiceMode = ServiceMode.BIDIRECTIONAL
    """What the file itself keeps."""
    module: ModuleType | None = None

    @property
    def name(self) -> str:
        """The file's name, for people."""
        return self.path.name

    def unload(self) -> None:
        """Forget the module, unless the same file has been loaded anew meanwhile."""
        if self.module is None or sys.modules.get(self.module_name) is self.module:
            sys.modules.pop(self.module_name, None)


def find_service_file(path: Path | None) -> Path:
    """Return the file to load, the demo world without *path*; raise `StartupError` if it isn't
    there.
    """
    if path is None:
        return DEMO_WORLD
    found = path.expanduser().resolve()
    if not found.is_file():
        what = "is a folder" if found.is_dir() else "doesn't exist"
        raise StartupError(
            f"The service file {path} {what}; name a Python file with get_service()."
        )
    return found


def load(path: Path, *, gpu_num: int, gpu_ids: list[str] | None) -> LoadedService:
    """Import *path*, call its ``get_service`` and check the result; raises `ServiceLoadFailed`."""
    name = module_name_of(path)
    module = _import_file(path, name)
    try:
        service = _get_service(path, module, {"gpu_num": gpu_num, "gpu_ids": gpu_ids})
        mode = _mode_of(path, service)
    except ServiceLoadFailed:
        sys.modules.pop(name, None)
        raise
    return LoadedService(
        path=path,
        module_name=name,
        service=ServerPushAdapter(service) if mode is ServiceMode.SERVER_PUSH else service,
        mode=mode,
        module=module,
    )


def module_name_of(path: Path) -> str:
    """Return the name under which the module of *path* is registered: two files never share one."""
    return f"greenroom_service_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"


def _import_file(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ServiceLoadFailed(f"{path.name} can't be imported: it must be a Python file (.py).")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loaded = False
    try:
        failed = explained(path, f"{path.name} can't be imported", ServiceLoadFailed)
        with foreign_code(failed):
            spec.loader.exec_module(module)
        loaded = True
    finally:
        if not loaded:
            sys.modules.pop(name, None)
    return module


def explained(
    path: Path, what: str, kind: type[ServiceLoadFailed] = ServiceStartFailed
) -> Callable[[BaseException], ServiceLoadFailed]:
    """Return what turns an error of the file's code into one sentence: *what* and its own words."""
    return lambda error: kind(f"{what}: {describe(error)}{_line_in(path, error)}.")


def _line_in(path: Path, error: BaseException) -> str:
    """Return which line of the file raised, as far as the traceback tells."""
    lines = (
        [
            frame.lineno
            for frame in inspect.getinnerframes(error.__traceback__, context=0)
            if frame.filename == str(path)
        ]
        if error.__traceback__
        else []
    )
    return f" (line {lines[-1]})" if lines else ""


def _get_service(path: Path, module: ModuleType, offered: dict[str, object]) -> Any:
    get_service = getattr(module, "get_service", None)
    if not callable(get_service):
        raise ServiceLoadFailed(f"{path.name} has no function get_service().")
    return call_foreign(
        lambda: get_service(**_wanted_arguments(get_service, offered)),
        explained(path, f"get_service() in {path.name} failed"),
    )


def _wanted_arguments(
    get_service: Callable[..., object], offered: dict[str, object]
) -> dict[str, object]:
    """Return those of *offered* that the function has a parameter for."""
    parameters = inspect.signature(get_service).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return offered
    return {name: value for name, value in offered.items() if name in parameters}


def _mode_of(path: Path, service: object) -> ServiceMode:
    mode = mode_of(service)
    if mode is None:
        raise ServiceLoadFailed(f"get_service() in {path.name} returned {_what_it_is(service)}.")
    return mode


def _what_it_is(service: object) -> str:
    if inspect.iscoroutine(service):
        service.close()
        return "a coroutine: it must be a plain function, without async"
    if isinstance(service, type):
        return f"the class {service.__name__} itself: return an object of it"
    lacks = ", ".join(missing_from(service))
    return f"a {type(service).__name__}, which is no model service: it lacks {lacks}"
