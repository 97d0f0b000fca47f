"""How does a test have GPUs, and break them, on a machine without any?

`fake_nvml.c` is compiled to a ``libnvidia-ml.so.1`` that the real nvidia-ml-py loads; it reads at
each call from a file how the driver and its GPUs are. In this process the file is empty of GPUs
again after each test, and without the file there is no driver.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
LIBRARY = "libnvidia-ml.so.1"
LOST = 15
"""NVML's word for a GPU that has fallen off the bus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeGpu:
    """One GPU as the driver shall show it."""

    uuid: str
    used_mib: int = 1000
    total_mib: int = 80_000
    busy: int = 50
    heat_c: int = 61
    ecc: int = 0
    users: int = 1
    state: int = 0

    @property
    def line(self) -> str:
        """The stand-in's line for it."""
        return (
            f"{self.uuid} {self.used_mib} {self.total_mib} {self.busy} {self.heat_c} "
            f"{self.ecc} {self.users} {self.state}"
        )


@dataclass(slots=True, kw_only=True)
class FakeDriver:
    """What the stand-in shall answer; every change counts from the next call on."""

    path: Path
    gpus: list[FakeGpu] = field(default_factory=list)
    hangs: bool = False
    xids: list[str] = field(default_factory=list)
    broken: int = 0
    """The error that every call gets."""

    def have(self, *gpus: FakeGpu) -> None:
        """These GPUs are there, and no others."""
        self.gpus = list(gpus)
        self.write()

    def change(self, number: int, **changes: object) -> None:
        """One GPU is different now."""
        self.gpus[number] = replace(self.gpus[number], **changes)  # type: ignore[arg-type]
        self.write()

    def raise_xid(self, xid: int, number: int) -> None:
        """Have the driver report an error of one GPU."""
        self.xids.append(f"xid {xid} {self.gpus[number].uuid}")
        self.write()

    def hang(self, hangs: bool = True) -> None:
        """No call returns, until it's said otherwise."""
        self.hangs = hangs
        self.write()

    def breaks(self, code: int) -> None:
        """Every call fails so; 0: none."""
        self.broken = code
        self.write()

    def write(self) -> None:
        """Tell the stand-in, in one step."""
        lines = [gpu.line for gpu in self.gpus] + self.xids
        lines += ["hang"] if self.hangs else []
        lines += [f"broken {self.broken}"] if self.broken else []
        draft = self.path.with_suffix(".draft")
        draft.write_text("\n".join(lines) + "\n")
        draft.replace(self.path)

    @property
    def environment(self) -> dict[str, str]:
        """What another process needs to find the stand-in."""
        return {"FAKE_NVML": str(self.path), "LD_LIBRARY_PATH": str(library_folder())}


@functools.cache
def library_folder() -> Path:
    """Return the folder of the compiled stand-in; skips the test where nothing compiles."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler for the driver's stand-in (apt-get install gcc)")
    folder = Path(tempfile.mkdtemp(prefix="greenroom-nvml-"))
    subprocess.run(
        [compiler, "-shared", "-fPIC", f"-Wl,-soname,{LIBRARY}", "-o", folder / LIBRARY, SOURCE],
        check=True,
    )
    return folder


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A driver with one GPU that is well and in use."""
    made = FakeDriver(path=tmp_path / "nvml")
    made.have(FakeGpu(uuid="GPU-aaaa"))
    folder = library_folder()
    # A library that is loaded already is found by its name, wherever it lies.
    ctypes.CDLL(str(folder / LIBRARY), mode=ctypes.RTLD_GLOBAL)
    monkeypatch.setitem(os.environ, "FAKE_NVML", str(made.path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return made
