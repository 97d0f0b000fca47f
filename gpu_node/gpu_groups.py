"""Which GPUs does each node of one command get?

``--worker-gpu-map 0,1;2,3`` gives the first node the first two of the GPUs that this process may
use, and the second node the next two: the numbers count within ``CUDA_VISIBLE_DEVICES``, or are the
machine's own where nobody has chosen. Without a map the GPUs are dealt out in equal shares. A node
sees its own GPUs alone, and its service is told how many they are.
"""

from __future__ import annotations

from collections.abc import Sequence

Groups = tuple[tuple[str, ...], ...]
"""Of each node, the GPUs as ``CUDA_VISIBLE_DEVICES`` names them."""


def parse_gpu_map(text: str) -> tuple[tuple[int, ...], ...]:
    """Return the groups of a map; raises `ValueError` with a sentence."""
    groups = tuple(_group(part) for part in text.split(";"))
    flat = [number for group in groups for number in group]
    for number in flat:
        if flat.count(number) > 1:
            raise ValueError(f"GPU {number} is in it twice, but a GPU belongs to one node")
    return groups


def gpu_groups(gpu_map: str, workers: int, gpus: Sequence[str] | None) -> Groups | None:
    """Return the GPUs of each of *workers* nodes; None if there is nothing to choose.

    Args:
        gpu_map: The operator's map, or an empty text.
        workers: How many nodes there are.
        gpus: Those that this process may use; None if there are none to be seen.

    Raises:
        ValueError: The map doesn't fit, with a sentence.
    """
    if not gpu_map:
        return _dealt_out(workers, gpus or None)
    wanted = parse_gpu_map(gpu_map)
    if len(wanted) != workers:
        raise ValueError(f"it names {_groups(len(wanted))}, but --num-workers is {workers}")
    if gpus is None:
        return tuple(tuple(str(number) for number in group) for group in wanted)
    highest = max(number for group in wanted for number in group)
    if highest >= len(gpus):
        there = f"this process may use {len(gpus)}, counted from 0" if gpus else "there is none"
        raise ValueError(f"it names GPU {highest}, but {there}")
    return tuple(tuple(gpus[number] for number in group) for group in wanted)


def _dealt_out(workers: int, gpus: Sequence[str] | None) -> Groups | None:
    if gpus is None or workers == 1:
        return None
    share, rest = divmod(len(gpus), workers)
    if rest or not share:
        raise ValueError(
            f"{len(gpus)} GPUs can't be dealt out to {workers} nodes in equal shares: name the "
            "groups as in 0,1;2, or set CUDA_VISIBLE_DEVICES to nothing if the service needs none"
        )
    return tuple(tuple(gpus[at * share : (at + 1) * share]) for at in range(workers))


def _group(part: str) -> tuple[int, ...]:
    numbers = [number.strip() for number in part.split(",")]
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise ValueError(
            "it must hold numbers, with commas inside a group and semicolons between groups, as in "
            "0,1;2,3"
        )
    return tuple(int(number) for number in numbers)


def _groups(count: int) -> str:
    return "1 group" if count == 1 else f"{count} groups"
