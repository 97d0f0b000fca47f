"""How does the torch world imagine its next frame?

A small recurrent world model of the shape that trained ones have, with fixed weights instead of
learned ones, so that it needs no download and gives the same picture everywhere:

- *encode*: the prompt becomes a condition vector.
- *imagine*: from what the session saw last (its cache) and where it moves, the next latent. The
  view is a window onto an endless field of waves; the condition sets their phases, the pose where
  the window lies. A gated recurrent step blends it with the hidden state and with what attention
  finds in a ring of earlier latents.
- *decode*: latents become frames.

A session's cache has a fixed size and lives in a slot of tensors that are allocated once for all
slots. Plain functions over tensors: latent ``(channels, rows, columns)`` float32, frames
``(count, height, width, 3)`` uint8 RGB.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch.nn import functional

Tensor = Any
"""torch's; named here once, because torch may be absent where types are checked."""

CHANNELS, ROWS, COLUMNS = 16, 18, 32
SCALE = 8
HEIGHT, WIDTH = ROWS * SCALE, COLUMNS * SCALE
WINDOW = 8
"""Earlier latents that attention may look at."""
CONDITION = 32
SPEED = 0.35
"""How far a held key moves the view in one frame, in latent columns."""
_SEED = 20


@dataclass(frozen=True, slots=True)
class Weights:
    """The model, on one device."""

    words: Tensor
    """(256, condition): a vector per byte of the prompt."""
    phases: Tensor
    """(condition, channels)."""
    waves: Tensor
    """(channels, 2): wave numbers of the field."""
    gate: Tensor
    """(channels, 2 x channels, 3, 3)."""
    update: Tensor
    """(channels, 3 x channels, 3, 3)."""
    colours: Tensor
    """(3, channels, 1, 1)."""


@dataclass(frozen=True, slots=True)
class Cache:
    """What is kept of one session from frame to frame: views of its slot."""

    hidden: Tensor
    """(channels, rows, columns)."""
    ring: Tensor
    """(window, channels, rows, columns)."""
    pose: Tensor
    """(2,): where the view is, in latent columns and rows."""
    frame: Tensor
    """(): how many frames there were."""

    def clear(self) -> None:
        """Leave nothing of a session in its slot."""
        for one in fields(self):
            getattr(self, one.name).zero_()


def make_weights(device: str) -> Weights:
    """Return the model; the same numbers on every device."""
    source = torch.Generator().manual_seed(_SEED)

    def normal(*shape: int, scale: float) -> Tensor:
        return (torch.randn(*shape, generator=source) * scale).to(device)

    return Weights(
        words=normal(256, CONDITION, scale=1.0),
        phases=normal(CONDITION, CHANNELS, scale=1.0),
        waves=normal(CHANNELS, 2, scale=0.25),
        gate=normal(CHANNELS, 2 * CHANNELS, 3, 3, scale=0.05),
        update=normal(CHANNELS, 3 * CHANNELS, 3, 3, scale=0.03),
        colours=normal(3, CHANNELS, 1, 1, scale=0.6),
    )


def make_caches(slots: int, device: str) -> list[Cache]:
    """Allocate the caches of all slots at once and return one for each."""
    plane = (CHANNELS, ROWS, COLUMNS)
    hidden = torch.zeros(slots, *plane, device=device)
    ring = torch.zeros(slots, WINDOW, *plane, device=device)
    pose = torch.zeros(slots, 2, device=device)
    frame = torch.zeros(slots, dtype=torch.int64, device=device)
    return [
        Cache(hidden=hidden[n], ring=ring[n], pose=pose[n], frame=frame[n]) for n in range(slots)
    ]


def bytes_of(tensors: Weights | Cache) -> int:
    """Return how much memory *tensors* take."""
    each = (getattr(tensors, one.name) for one in fields(tensors))
    return sum(int(tensor.numel() * tensor.element_size()) for tensor in each)


def encode(weights: Weights, prompt: str) -> Tensor:
    """Return the condition of *prompt*: (condition,)."""
    digest = hashlib.sha256(prompt.encode()).digest()
    rows = torch.tensor(list(digest), device=weights.words.device)
    return torch.tanh(weights.words[rows].mean(dim=0) * 3)


def imagine(weights: Weights, cache: Cache, condition: Tensor, move: tuple[float, float]) -> Tensor:
    """Return the next latent of a session that moved by *move* (right, down)."""
    cache.pose.add_(torch.tensor(move, device=condition.device) * SPEED)
    seen = _field(weights, condition, cache.pose)
    nearness = (cache.ring * seen).mean(dim=(1, 2, 3))
    memory = (torch.softmax(nearness, dim=0).view(-1, 1, 1, 1) * cache.ring).sum(dim=0)
    opened = torch.sigmoid(_conv(torch.cat((seen, cache.hidden)), weights.gate) + 1.5)
    found = _conv(torch.cat((seen, cache.hidden, memory)), weights.update)
    latent = (1 - opened) * cache.hidden + opened * torch.tanh(1.5 * seen + found)
    cache.hidden.copy_(latent)
    cache.ring[cache.frame % WINDOW] = latent
    cache.frame.add_(1)
    return latent


def decode(weights: Weights, latents: Tensor) -> Tensor:
    """Return frames of *latents* (count, channels, rows, columns)."""
    large = functional.interpolate(latents, scale_factor=SCALE, mode="bilinear")
    colours = torch.sigmoid(functional.conv2d(large, weights.colours))
    return (colours * 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def _field(weights: Weights, condition: Tensor, pose: Tensor) -> Tensor:
    device = condition.device
    x = torch.arange(COLUMNS, device=device) - COLUMNS / 2 + pose[0]
    y = torch.arange(ROWS, device=device) - ROWS / 2 + pose[1]
    phase = (condition @ weights.phases).view(-1, 1, 1)
    along = weights.waves[:, 0].view(-1, 1, 1) * x.view(1, 1, -1)
    down = weights.waves[:, 1].view(-1, 1, 1) * y.view(1, -1, 1)
    return torch.sin(along + down + phase)


def _conv(planes: Tensor, kernel: Tensor) -> Tensor:
    return functional.conv2d(planes.unsqueeze(0), kernel, padding=1).squeeze(0)
