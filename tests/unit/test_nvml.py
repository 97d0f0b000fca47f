"""What do we learn of GPUs from the driver's library, through the real nvidia-ml-py?"""

from __future__ import annotations

import sys

import pytest

from shared.gpus import GpuFacts, broken
from shared.nvml import Nvml, NvmlSilent
from tests.support.fake_driver import LOST, FakeDriver, FakeGpu, driver

__all__ = ["driver"]


def opened(names: list[str] | None = None, *, ecc_limit: int = 1) -> Nvml:
    """The way to the driver, which is there."""
    nvml = Nvml.open(names, ecc_limit=ecc_limit)
    assert nvml is not None
    return nvml


def test_a_gpu_is_told_with_all_that_the_driver_offers(driver: FakeDriver) -> None:
    """Memory, use, temperature and errors, under the number that nvidia-smi shows."""
    driver.have(FakeGpu(uuid="GPU-aaaa"), FakeGpu(uuid="GPU-bbbb", used_mib=7, busy=3, heat_c=40))
    _, gpu = opened().look()
    assert (gpu.number, gpu.uuid, gpu.name) == (1, "GPU-bbbb", "Stand-in H200")
    assert (gpu.used_mib, gpu.total_mib, gpu.busy_percent) == (7, 80_000, 3)
    assert (gpu.temperature_c, gpu.ecc_errors, gpu.xid, gpu.trouble) == (40, 0, None, "")


def test_without_a_driver_or_the_package_there_is_nothing_to_ask(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nobody is told of it: most machines have no GPU."""
    driver.path.unlink()
    assert Nvml.open() is None
    driver.write()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Nvml.open() is None


@pytest.mark.parametrize(
    ("names", "uuids"),
    [
        (None, ["GPU-aaaa", "GPU-abbb", "MIG-cccc"]),
        (["1"], ["GPU-abbb"]),
        (["1", "0"], ["GPU-abbb", "GPU-aaaa"]),
        (["GPU-ab"], ["GPU-abbb"]),
        (["GPU-a"], []),
        (["MIG-cccc"], ["MIG-cccc"]),
        (["0", "9", "1"], ["GPU-aaaa"]),
        ([], []),
    ],
)
def test_gpus_are_chosen_as_cuda_chooses_them(
    driver: FakeDriver, names: list[str] | None, uuids: list[str]
) -> None:
    """By number, or the beginning of a name that fits one alone; the first unknown ends it."""
    driver.have(FakeGpu(uuid="GPU-aaaa"), FakeGpu(uuid="GPU-abbb"), FakeGpu(uuid="MIG-cccc"))
    assert [gpu.uuid for gpu in opened(names).look()] == uuids


def test_what_a_slice_of_a_gpu_doesn_t_offer_is_left_out(driver: FakeDriver) -> None:
    """It has memory and a temperature, and no use of its own."""
    driver.have(FakeGpu(uuid="MIG-cccc"))
    (gpu,) = opened(["MIG-cccc"]).look()
    assert (gpu.busy_percent, gpu.used_mib, gpu.trouble) == (None, 1000, "")


def test_a_gpu_that_fell_off_the_bus_is_in_trouble_with_its_last_figures(
    driver: FakeDriver,
) -> None:
    """The others are well."""
    driver.have(FakeGpu(uuid="GPU-aaaa"), FakeGpu(uuid="GPU-bbbb"))
    nvml = opened()
    nvml.look()
    driver.change(1, state=LOST)
    well, lost = nvml.look()
    assert well.trouble == ""
    assert "fallen off the bus" in lost.trouble
    assert lost.used_mib == 1000
    assert "GPU 1 (GPU-bbbb): it has fallen off the bus" in broken(GpuFacts(gpus=(well, lost)))


def test_a_gpu_that_the_driver_lists_no_more_is_in_trouble(driver: FakeDriver) -> None:
    """The others keep the facts that are theirs, whatever their numbers are now."""
    driver.have(FakeGpu(uuid="GPU-aaaa"), FakeGpu(uuid="GPU-bbbb", used_mib=5))
    nvml = opened()
    nvml.look()
    driver.have(FakeGpu(uuid="GPU-bbbb", used_mib=6))
    lost, well = nvml.look()
    assert "doesn't list it" in lost.trouble
    assert (well.trouble, well.used_mib) == ("", 6)


@pytest.mark.parametrize(("limit", "is_broken"), [(1, True), (3, True), (4, False), (0, False)])
def test_uncorrectable_memory_errors_break_a_gpu_from_the_limit_on(
    driver: FakeDriver, limit: int, is_broken: bool
) -> None:
    """With a limit of 0 they never do."""
    driver.change(0, ecc=3)
    (gpu,) = opened(ecc_limit=limit).look()
    assert gpu.ecc_errors == 3
    assert bool(gpu.trouble) is is_broken


@pytest.mark.parametrize(("xid", "is_broken"), [(79, True), (48, True), (31, False), (94, False)])
def test_an_xid_is_told_and_breaks_a_gpu_if_only_a_reset_helps(
    driver: FakeDriver, xid: int, is_broken: bool
) -> None:
    """XID 31 is a program's page fault: that program's own affair."""
    nvml = opened()
    assert nvml.look()[0].xid is None
    driver.raise_xid(xid, 0)
    (gpu,) = nvml.look()
    assert gpu.xid == xid
    assert (f"XID {xid}" in gpu.trouble) is is_broken
    assert nvml.look()[0].xid == xid, "it stays told"


def test_a_gpu_that_nobody_computes_on_is_nobody_s_loss(driver: FakeDriver) -> None:
    """A world that needs no GPU goes on beside a broken one."""
    driver.change(0, users=0, ecc=5)
    (gpu,) = opened().look()
    assert gpu.trouble
    assert broken(GpuFacts(gpus=(gpu,))) == ""


def test_the_trouble_of_a_used_gpu_stays_when_its_user_has_been_ended(driver: FakeDriver) -> None:
    """Else the model would be loaded onto the broken GPU again."""
    nvml = opened()
    nvml.look()
    driver.change(0, ecc=5, users=0)
    (gpu,) = nvml.look()
    assert broken(GpuFacts(gpus=(gpu,))) != ""


def test_a_driver_that_fails_as_a_whole_says_nothing_of_any_gpu(driver: FakeDriver) -> None:
    """A failed question is no broken GPU: a driver may be renewed under running programs."""
    nvml = opened()
    nvml.look()
    driver.breaks(18)  # NVML_ERROR_LIB_RM_VERSION_MISMATCH
    with pytest.raises(NvmlSilent):
        nvml.look()
    with pytest.raises(NvmlSilent):
        Nvml.open()
