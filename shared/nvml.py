"""How is the GPU driver asked about its GPUs?

Through NVML, the library that comes with the driver, by way of nvidia-ml-py; asking makes no CUDA
context and takes no memory of a GPU. **Any call may hang** for as long as the driver does, so all
of this belongs in a thread that nobody waits for without a limit.

GPUs are chosen as ``CUDA_VISIBLE_DEVICES`` names them: numbers, ``GPU-<uuid>`` or its beginning,
``MIG-<uuid>``; as there, the list ends at the first name that the driver doesn't know. Numbers are
those of nvidia-smi; CUDA counts the same way on a machine with GPUs of one kind, and on others with
``CUDA_DEVICE_ORDER=PCI_BUS_ID``.
"""

from __future__ import annotations

import contextlib
import importlib
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shared.gpus import FATAL_XIDS, Gpu, trouble_of

_MIB = 1024**2
_EVENTS_A_LOOK = 64
_COUNTED_WITHIN_S = 10.0
"""A driver that nobody uses may have to start its GPUs first."""


def gpus_in_this_machine() -> int | None:
    """Return how many GPUs the driver lists; None without one, or if it doesn't say so in time."""
    answer: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def ask() -> None:
        try:
            nvml = Nvml.open(())
            answer.put(None if nvml is None else nvml.count)
        except NvmlSilent:
            answer.put(None)

    threading.Thread(target=ask, name="gpu-count", daemon=True).start()
    try:
        return answer.get(timeout=_COUNTED_WITHIN_S)
    except queue.Empty:
        return None


class NvmlSilent(Exception):
    """The driver's library can't be asked (any more): nothing is known of any GPU."""


@dataclass(slots=True, kw_only=True)
class _Device:
    """One chosen GPU: the handle of it or of its slice, and that of the whole GPU."""

    gpu: Gpu
    """As it was seen last."""
    handle: Any
    whole: Any


class Nvml:
    """The driver's library between init and shutdown. Every call may block."""

    def __init__(self, library: Any, names: Sequence[str] | None, ecc_limit: int) -> None:
        self._nvml = library
        self._ecc_limit = ecc_limit
        self._devices = self._chosen(names)
        self._events = self._register()

    @classmethod
    def open(cls, names: Sequence[str] | None = None, *, ecc_limit: int = 0) -> Nvml | None:
        """Return the way to the driver; None where there is no driver or no nvidia-ml-py.

        Args:
            names: The GPUs, as ``CUDA_VISIBLE_DEVICES`` names them; None: all.
            ecc_limit: Uncorrectable memory errors from which on a GPU is broken; 0: never.

        Raises:
            NvmlSilent: There is a driver, and it can't be asked now.
        """
        try:
            library: Any = importlib.import_module("pynvml")
        except ImportError:
            return None
        absent = (library.NVML_ERROR_LIBRARY_NOT_FOUND, library.NVML_ERROR_DRIVER_NOT_LOADED)
        try:
            library.nvmlInit()
            return cls(library, names, ecc_limit)
        except library.NVMLError as error:
            if error.value in absent:
                return None
            raise NvmlSilent(str(error)) from error

    @property
    def count(self) -> int:
        """How many GPUs the driver lists, chosen or not."""
        return int(self._asked(self._nvml.nvmlDeviceGetCount))

    @property
    def driver(self) -> str:
        """The driver's version."""
        return str(self._asked(self._nvml.nvmlSystemGetDriverVersion))

    def look(self) -> tuple[Gpu, ...]:
        """Return how the chosen GPUs are now; raises `NvmlSilent`."""
        xids = self._heard()
        is_short = self.count < len({device.gpu.number for device in self._devices})
        for device in self._devices:
            device.gpu = self._seen(device, xids.get(device.gpu.number), check_listed=is_short)
        return tuple(device.gpu for device in self._devices)

    def close(self) -> None:
        """Let go of the library."""
        with contextlib.suppress(self._nvml.NVMLError):
            if self._events is not None:
                self._nvml.nvmlEventSetFree(self._events)
            self._nvml.nvmlShutdown()

    # --- choosing -------------------------------------------------------------------------------

    def _chosen(self, names: Sequence[str] | None) -> list[_Device]:
        if names is None:
            names = [str(number) for number in range(self._nvml.nvmlDeviceGetCount())]
        chosen = []
        for name in names:
            handle = self._handle_of(name)
            if handle is None:
                break
            whole = handle
            if name.startswith("MIG-"):
                with contextlib.suppress(self._nvml.NVMLError):
                    whole = self._nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
            gpu = Gpu(
                number=int(self._nvml.nvmlDeviceGetIndex(whole)),
                uuid=str(self._nvml.nvmlDeviceGetUUID(handle)),
                name=str(self._offered(self._nvml.nvmlDeviceGetName, handle) or ""),
                in_use=False,
            )
            chosen.append(_Device(gpu=gpu, handle=handle, whole=whole))
        return chosen

    def _handle_of(self, name: str) -> Any:
        """Return the driver's handle of a GPU by one of its names; None for one it doesn't know."""
        nvml = self._nvml
        with contextlib.suppress(nvml.NVMLError):
            if name.isascii() and name.isdigit():
                return nvml.nvmlDeviceGetHandleByIndex(int(name))
            if name.startswith("MIG-"):
                return nvml.nvmlDeviceGetHandleByUUID(name)
            if name.startswith("GPU-"):
                handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
                fitting = [one for one in handles if nvml.nvmlDeviceGetUUID(one).startswith(name)]
                return fitting[0] if len(fitting) == 1 else None
        return None

    # --- looking --------------------------------------------------------------------------------

    def _seen(self, device: _Device, xid: int | None, *, check_listed: bool) -> Gpu:
        nvml, before = self._nvml, device.gpu
        xid = before.xid if xid is None else xid
        try:
            if check_listed:
                nvml.nvmlDeviceGetHandleByUUID(before.uuid)
            memory = self._offered(nvml.nvmlDeviceGetMemoryInfo, device.handle)
            load = self._offered(nvml.nvmlDeviceGetUtilizationRates, device.handle)
            ecc = self._offered(
                nvml.nvmlDeviceGetTotalEccErrors,
                device.whole,
                nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                nvml.NVML_VOLATILE_ECC,
            )
            users = self._offered(nvml.nvmlDeviceGetComputeRunningProcesses, device.handle)
            heat = self._offered(
                nvml.nvmlDeviceGetTemperature, device.whole, nvml.NVML_TEMPERATURE_GPU
            )
        except nvml.NVMLError as error:
            return replace(before, xid=xid, trouble=self._loss(error))
        trouble = trouble_of(ecc_errors=ecc, xid=xid, ecc_limit=self._ecc_limit)
        is_used = users is None or len(users) > 0
        return replace(
            before,
            used_mib=None if memory is None else int(memory.used) // _MIB,
            total_mib=None if memory is None else int(memory.total) // _MIB,
            busy_percent=None if load is None else int(load.gpu),
            temperature_c=heat,
            ecc_errors=ecc,
            xid=xid,
            trouble=trouble,
            # Whoever used it is ended for its trouble, which is no end of the trouble.
            in_use=is_used or (before.in_use and trouble != ""),
        )

    def _loss(self, error: Exception) -> str:
        """Say that a GPU is gone; raises `NvmlSilent` if it's the driver that doesn't answer."""
        nvml, value = self._nvml, getattr(error, "value", None)
        if value == nvml.NVML_ERROR_GPU_IS_LOST:
            return "it has fallen off the bus (the driver: GPU is lost)"
        if value == nvml.NVML_ERROR_RESET_REQUIRED:
            return trouble_of(ecc_errors=None, xid=None, ecc_limit=0, needs_reset=True)
        if value == nvml.NVML_ERROR_NOT_FOUND:
            return "the driver doesn't list it any more"
        raise NvmlSilent(str(error)) from error

    def _offered(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        """Return an answer, None for what this GPU doesn't offer; a GPU that is gone raises."""
        nvml = self._nvml
        gone = (
            nvml.NVML_ERROR_GPU_IS_LOST,
            nvml.NVML_ERROR_RESET_REQUIRED,
            nvml.NVML_ERROR_UNINITIALIZED,
        )
        try:
            return ask(*arguments)
        except nvml.NVMLError as error:
            if error.value in gone:
                raise
            return None

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except self._nvml.NVMLError as error:
            raise NvmlSilent(str(error)) from error

    # --- events ---------------------------------------------------------------------------------

    def _register(self) -> Any:
        """Have the driver note its errors (XIDs) of the chosen GPUs; None if it offers none."""
        nvml = self._nvml
        try:
            events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
            return None
        for device in self._devices:
            with contextlib.suppress(nvml.NVMLError):
                nvml.nvmlDeviceRegisterEvents(
                    device.whole, nvml.nvmlEventTypeXidCriticalError, events
                )
        return events

    def _heard(self) -> dict[int, int]:
        """Return the last XID of each GPU, by number, since the look before."""
        nvml, found = self._nvml, dict[int, int]()
        if self._events is None:
            return found
        with contextlib.suppress(nvml.NVMLError):  # NVML_ERROR_TIMEOUT: there are no more
            for _ in range(_EVENTS_A_LOOK):
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
                if event.eventType == nvml.nvmlEventTypeXidCriticalError:
                    number = int(nvml.nvmlDeviceGetIndex(event.device))
                    if found.get(number) is None or int(event.eventData) in FATAL_XIDS:
                        found[number] = int(event.eventData)
        return found
