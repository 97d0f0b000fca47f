"""Does each node get the GPUs that its operator meant, or one clear sentence?"""

from __future__ import annotations

import pytest

from gpu_node.gpu_groups import gpu_groups, parse_gpu_map
from gpu_node.settings import NodeSettings
from shared.errors import StartupError
from shared.settings import load

FOUR = ["4", "5", "GPU-6", "7"]


@pytest.mark.parametrize(
    ("gpu_map", "workers", "gpus", "groups"),
    [
        ("0,1;2,3", 2, FOUR, (("4", "5"), ("GPU-6", "7"))),
        (" 3 ; 0 , 1 ", 2, FOUR, (("7",), ("4", "5"))),
        ("2", 1, FOUR, (("GPU-6",),)),
        ("0;1", 2, None, (("0",), ("1",))),
        ("", 2, FOUR, (("4", "5"), ("GPU-6", "7"))),
        ("", 4, FOUR, (("4",), ("5",), ("GPU-6",), ("7",))),
        ("", 1, FOUR, None),
        ("", 3, None, None),
    ],
)
def test_numbers_count_within_what_the_process_may_use(
    gpu_map: str, workers: int, gpus: list[str] | None, groups: object
) -> None:
    """And without a map the GPUs are dealt out in equal shares."""
    assert gpu_groups(gpu_map, workers, gpus) == groups


@pytest.mark.parametrize(
    ("gpu_map", "workers", "gpus", "sentence"),
    [
        ("0,1;1", 2, FOUR, "GPU 1 is in it twice"),
        ("0;1", 3, FOUR, "it names 2 groups, but --num-workers is 3"),
        ("0", 2, FOUR, "it names 1 group, but"),
        ("0;4", 2, FOUR, "it names GPU 4, but this process may use 4, counted from 0"),
        ("", 3, FOUR, "4 GPUs can't be dealt out to 3 nodes"),
        ("", 5, FOUR, "4 GPUs can't be dealt out to 5 nodes"),
    ],
)
def test_a_map_that_doesnt_fit_is_told_in_one_sentence(
    gpu_map: str, workers: int, gpus: list[str] | None, sentence: str
) -> None:
    """With the numbers that don't agree."""
    with pytest.raises(ValueError, match=sentence):
        gpu_groups(gpu_map, workers, gpus)


def settings_with(gpu_map: str) -> NodeSettings:
    """A node's settings with this map."""
    return load(
        NodeSettings,
        worker_gpu_map=gpu_map,
        livekit_url="ws://x:1",
        livekit_api_key="k",
        livekit_api_secret="s",
        node_id="a",
    )


@pytest.mark.parametrize("gpu_map", ["a", "0,", ";", "0;;1", "-1", "0 1", "²", "0,1;2;"])
def test_what_is_no_map_is_refused_with_the_flag_and_an_example(gpu_map: str) -> None:
    """When the settings are read, before anything starts."""
    with pytest.raises(ValueError, match="as in 0,1;2,3"):
        parse_gpu_map(gpu_map)
    with pytest.raises(StartupError, match=r"--worker-gpu-map .*must hold numbers") as caught:
        settings_with(gpu_map)
    assert len(str(caught.value).splitlines()) == 1


def test_a_refused_map_keeps_the_capitals_of_its_sentence() -> None:
    """Only a common word goes on small after the flag."""
    with pytest.raises(StartupError, match=r"WORKER_GPU_MAP\): GPU 0 is in it twice"):
        settings_with("0;0")
