"""How does the demo world look from here, now?

A ray caster in numpy. One ray per screen column meets all grid lines at once, in two matrices.
Walls, floor and sky are *gathers* from packed RGBA textures (one uint32 per texel, smaller copies
for the distance), multiplied by a light map that was baked once per world; then haze by distance.
The wet floor mirrors what stands above the foot of each wall. A texel's fourth byte says how much a
wall shines by itself, or how wet a floor tile is. Neighbouring pixels read slightly shifted texels,
which the eye takes for smoothness when a wall is close.

Whatever has the size of the picture is float32, int32, uint16 or uint8; products of two bytes fit
into 16 bits, so colours are bytes that are multiplied and shifted. `demo_world.py` loads this file.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

WIDTH, HEIGHT, FOCAL = 640, 360, 430.0
SIGHT_CELLS = 13.0
MOTE_COUNT, MOTE_BOX_CELLS = 170, 12
LAMP_RADIUS_CELLS = 0.33
CHART_MARGIN = 12
SPREAD = np.uint32(0x01010101)
"""Times a byte: that byte in all four places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A place as the painter needs it; read-only, so that sessions share it."""

    grid: Array
    """(n, n) uint8 by y and x: 0 is free, else the kind of wall; the border is wall."""
    heights: Array
    """Per kind, in cells. All but the tall ones, whose texture is repeated, are equally high."""
    repeats: Array
    """Per kind: how often the texture stands on itself; more than once means tall."""
    flows: Array
    """Per kind: 1 if the texture drifts with time."""
    atlas: Array
    """Flat uint32 texels by kind (0: the floor, two by two cells), u, v; then smaller copies."""
    texels: int
    copy_starts: Array
    """Where in the atlas each copy begins; each is half as wide as the one before."""
    light: Array
    """(m, m) uint32 RGB over the whole grid."""
    sky: Array
    """(rows, columns) uint32: all directions; the last row is the horizon."""
    ridges: Array
    """(2, columns) float32: how far two chains of hills rise above the horizon, in pixels."""
    lamps: Array
    """(n, 4) float: x, y, height, which of the two colours."""
    colours: Array
    """(2, 3) float: the lamps' colours."""
    haze: Array
    """(3,) float."""
    chart: Array
    """(k, k) uint32: the map in the corner."""
    spawn: tuple[float, float, float]
    """x, y, angle."""
    exits: Array
    """(portals, 3) float: where one comes out of each portal: x, y, angle."""


@dataclass(slots=True, kw_only=True)
class Shot:
    """One look at a world, and the frame that it becomes."""

    world: World
    x: float
    y: float
    angle: float
    """Radians; 0 looks along x, a quarter turn along y."""
    horizon: float
    """The row on which the horizon lies."""
    eye: float
    """Height in cells."""
    time_s: float
    frame: Array = field(default_factory=lambda: np.empty((HEIGHT, WIDTH), np.uint32))


@dataclass(slots=True)
class Hits:
    """What each column's ray meets."""

    depth: Array
    kind: Array
    u: Array
    light: Array
    """(columns, 4) uint8."""


def cast(shot: Shot, rx: Array, ry: Array) -> tuple[Hits, Hits]:
    """Where each ray first meets a wall, and where it first meets a tall one."""
    world, last = shot.world, len(shot.world.grid) - 1
    families, steps = [], np.arange(last + 1, dtype=np.float32)
    for swapped in (False, True):
        start, side, along, across = (
            (shot.y, shot.x, ry, rx) if swapped else (shot.x, shot.y, rx, ry)
        )
        along = np.where(np.abs(along) < 1e-5, np.float32(1e-5), along)[:, None]
        ahead = along > 0
        line = (math.floor(start) + ahead + np.where(ahead, 1, -1) * steps).astype(np.float32)
        t = (line - np.float32(start)) / along
        met = t * across[:, None] + np.float32(side)
        cell = (line - ~ahead).clip(0, last).astype(np.int32)
        other = met.clip(0, last).astype(np.int32)
        kind = world.grid[cell, other] if swapped else world.grid[other, cell]
        families.append((t, kind, np.where(ahead == swapped, -met, met)))
    return _first(shot, (rx, ry), families, 1), _first(shot, (rx, ry), families, 2)


def _first(
    shot: Shot, ray: tuple[Array, Array], families: Sequence[tuple[Array, ...]], least: int
) -> Hits:
    """The nearest crossing, of both families of lines, with a wall of *least* repeats."""
    world, columns = shot.world, np.arange(len(ray[0]))
    found = []
    for t, kind, u in families:
        wanted = (kind > 0) & (world.repeats >= least)[kind]
        first = np.argmax(wanted, axis=1)
        depth = np.where(wanted[columns, first], t[columns, first], np.float32(1e4))
        found.append((depth, kind[columns, first], u[columns, first] % 1))
    (near_x, kind_x, u_x), (near_y, kind_y, u_y) = found
    by_x = near_x <= near_y
    depth = np.where(by_x, near_x, near_y).clip(0.05)
    scale = len(world.light) / len(world.grid)
    at = [
        ((o + r * (depth - 0.04)) * scale) for o, r in zip((shot.y, shot.x), ray[::-1], strict=True)
    ]
    row, column = (place.clip(0, len(world.light) - 1).astype(np.int64) for place in at)
    light = world.light[row, column].view(np.uint8).reshape(-1, 4)
    lit = (light * np.where(by_x, 1.0, 0.78)[:, None]).astype(np.uint8)
    return Hits(depth, np.where(by_x, kind_x, kind_y), np.where(by_x, u_x, u_y), lit)


def clearness(depth: Array) -> Array:
    """How much of a thing at *depth* is seen through the haze, 0 to 1."""
    clear: Array = np.exp(-((depth / SIGHT_CELLS) ** 1.5)).astype(np.float32)
    return clear


def spread_fourth(texels: Array) -> Array:
    """The fourth byte of (rows, n) texels, four times each, as (rows, 4n) uint8."""
    spread: Array = ((texels >> 24) * SPREAD).view(np.uint8)
    return spread


def product(a: Array, b: Array) -> Array:
    """The product of two arrays of bytes that stand for 0 to 1, as uint16 below 256."""
    result = np.multiply(a, b, dtype=np.uint16)
    result >>= 8
    return result


class Painter:
    """Draws frames one at a time: only one thread may use it."""

    def __init__(self) -> None:
        self._across = ((np.arange(WIDTH) + 0.5 - WIDTH / 2) / FOCAL).astype(np.float32)
        self._rows = np.arange(HEIGHT, dtype=np.float32)[:, None]
        self._columns = np.arange(WIDTH, dtype=np.int32)
        off_centre = np.hypot(self._rows / HEIGHT - 0.5, self._columns / WIDTH - 0.5)
        vignette = 255 * (1 - 0.75 * (off_centre - 0.3).clip(0) ** 1.3)
        self._vignette = np.repeat(vignette.astype(np.uint8), 4, axis=1)
        kernel = [[[0.25, 0.5], [0.75, 0.0]], [[0.0, 0.75], [0.25, 0.5]]]
        self._shift = np.tile(np.array(kernel, np.float32), (1, 1, WIDTH // 2))
        """(u or v, even or odd row, column): by what part of a texel each pixel is off."""
        self._floor_shift = np.tile(self._shift, (1, HEIGHT // 2, 1))
        edge = np.linspace(-1, 1, 128)
        r = np.hypot(edge[:, None], edge)
        self._halo = (0.55 * (1 - r).clip(0) ** 2.2 + np.exp(-((r / 0.1) ** 4))).astype(np.float32)
        self._motes = np.random.default_rng(7).random((4, MOTE_COUNT))

    def paint(self, shot: Shot) -> Array:
        """Draw *shot* and return it as (360, 640, 3) uint8 RGB."""
        cos, sin = np.float32(math.cos(shot.angle)), np.float32(math.sin(shot.angle))
        rx, ry = cos - sin * self._across, sin + cos * self._across
        near, tall = cast(shot, rx, ry)
        self._paint_sky(shot)
        beyond = np.flatnonzero((tall.depth > near.depth) & (tall.depth < 1e4))
        if len(beyond):
            self._paint_walls(shot, tall, slice(beyond[0], beyond[-1] + 1))
        self._paint_walls(shot, near, slice(0, WIDTH))
        self._paint_floor(shot, near, (rx, ry))
        self._paint_lamps(shot, near)
        self._paint_motes(shot, near)
        self._paint_chart(shot)
        shaded = np.multiply(_bytes(shot.frame), self._vignette, dtype=np.uint16)
        high_bytes = shaded.view(np.uint8).reshape(HEIGHT, WIDTH, 8)[..., 1::2]
        rgb = np.empty((HEIGHT, WIDTH, 3), np.uint8)
        for channel in range(3):
            rgb[..., channel] = high_bytes[..., channel]
        return rgb

    def _paint_sky(self, shot: Shot) -> None:
        world, end = shot.world, min(HEIGHT, int(shot.horizon) + 1)
        if end <= 0:
            return
        rows, width = world.sky.shape
        columns = (np.arctan(self._across) + shot.angle) * (width / math.tau)
        drifting = (columns + 4 * shot.time_s).astype(np.int64) % width
        first = rows - int(shot.horizon) - 1
        np.take(world.sky[first : first + end], drifting, axis=1, out=shot.frame[:end], mode="clip")
        for ridge, share in zip(world.ridges, (0.42, 0.62), strict=True):
            top = shot.horizon - ridge[columns.astype(np.int64) % width]
            start = max(0, int(top.min()))
            colour = _packed(world.haze * share * (0.85, 0.92, 1.0))
            np.copyto(shot.frame[start:end], colour, where=self._rows[start:end] >= top)

    def _paint_walls(self, shot: Shot, hits: Hits, part: slice) -> None:
        world, depth, kind = shot.world, hits.depth[part], hits.kind[part]
        foot = shot.horizon + shot.eye * FOCAL / depth
        top = foot - world.heights[kind] * FOCAL / depth
        start, end = max(0, int(top.min())), min(HEIGHT, int(foot.max()) + 1)
        if start >= end:
            return
        rows = self._rows[start:end]
        copy = self._copy_for(world, world.texels * 0.7 / FOCAL * depth)
        size = world.texels >> copy
        drift = world.flows[kind] * shot.time_s
        step = (world.repeats[kind] * size / (foot - top)).astype(np.float32)
        offset = ((0.15 * drift * size) - top * step).astype(np.float32)
        index = np.empty((len(rows), len(depth)), np.int32)
        for odd in (0, 1):
            shift_u, shift_v = self._shift[:, (start + odd) % 2, part]
            u = ((hits.u[part] + 0.07 * drift) * size + shift_u).astype(np.int32) & (size - 1)
            index[odd::2] = rows[odd::2] * step + (offset + shift_v)
            index[odd::2] &= size - 1
            index[odd::2] += world.copy_starts[copy] + (kind * size + u) * size
        texels = np.take(world.atlas, index, mode="clip")
        strength = np.maximum(spread_fourth(texels), hits.light[part].ravel())
        colour = product(_bytes(texels), strength)
        hazed = self._in_haze(world, colour, np.repeat(clearness(depth), 4))
        shown = (rows >= top) & (rows < foot)
        np.copyto(shot.frame[start:end, part], hazed, where=shown)

    def _paint_floor(self, shot: Shot, hits: Hits, ray: tuple[Array, Array]) -> None:
        world, foot = shot.world, shot.horizon + shot.eye * FOCAL / hits.depth
        start = max(0, math.ceil(foot.min()))
        if start >= HEIGHT:
            return
        rows = self._rows[start:]
        distance = (shot.eye * FOCAL / (rows - shot.horizon + 0.5).clip(1)).clip(0, 40)
        half = world.texels // 2
        x, y = (
            (distance * (r * half) + shift[start:] + np.float32(origin * half)).astype(np.int32)
            for r, shift, origin in zip(ray, self._floor_shift, (shot.x, shot.y), strict=True)
        )
        copy = self._copy_for(world, half * 0.9 / FOCAL * distance)
        index = ((x & (world.texels - 1)) >> copy) * (world.texels >> copy)
        index += (y & (world.texels - 1)) >> copy
        index += world.copy_starts[copy]
        texels = np.take(world.atlas, index, mode="clip")
        finer = half * len(world.grid) // len(world.light)
        wide = len(world.light)
        index = (y // finer & (wide - 1)) * wide + (x // finer & (wide - 1))
        light = np.take(world.light.ravel(), index, mode="clip")
        colour = product(_bytes(texels), _bytes(light))
        colour += self._mirrored(shot, foot, start, spread_fourth(texels))
        np.minimum(colour, np.uint16(255), out=colour)
        hazed = self._in_haze(world, colour, clearness(distance))
        np.copyto(shot.frame[start:], hazed, where=rows >= foot)

    def _mirrored(self, shot: Shot, foot: Array, start: int, wet: Array) -> Array:
        """What the wet floor shows of the picture above: it is mirrored at the foot of the wall."""
        below = self._rows[start:] - shot.horizon
        wave = 1.6 * np.sin(self._rows[start:] * 0.55 + shot.time_s * 3.1) * (1 + below / 160)
        source = (2 * foot - self._rows[start:] + wave).astype(np.int32)
        np.minimum(source, foot.astype(np.int32), out=source)
        source = np.minimum(np.abs(source), HEIGHT - 1) * WIDTH + self._columns
        seen = product(_bytes(np.take(shot.frame.ravel(), source, mode="clip")), wet)
        glance = (242 * np.exp(-below.clip(0) / 150)).astype(np.uint16)
        seen *= glance
        seen >>= 8
        return seen

    def _paint_lamps(self, shot: Shot, hits: Hits) -> None:
        lamps, time_s = shot.world.lamps, shot.time_s
        depth, column = _project(shot, lamps[:, 0] - shot.x, lamps[:, 1] - shot.y)
        for i in np.argsort(-depth):
            if not 0.25 < depth[i] < 16:
                continue
            z = lamps[i, 2] + 0.04 * math.sin(time_s * 1.3 + i)
            scale = FOCAL / depth[i]
            radius = (LAMP_RADIUS_CELLS + 0.015 * math.sin(time_s * 7 + 2 * i)) * scale
            tint = shot.world.colours[int(lamps[i, 3])] * clearness(depth[i])
            behind = hits.depth > depth[i] - 0.1
            for height, share, tall in ((z, 1.0, 1.0), (-z, 0.3, 1.7)):
                row = shot.horizon + (shot.eye - height) * scale
                self._glow(shot, (column[i], row, radius, tall), share * tint, behind)

    def _glow(
        self, shot: Shot, place: tuple[float, float, float, float], tint: Array, shown: Array
    ) -> None:
        """Add a halo: column, row and radius in pixels, and how many times taller than wide."""
        column, row, radius, tall = place
        left, right = max(0, int(column - radius)), min(WIDTH, int(column + radius))
        top, end = max(0, int(row - radius * tall)), min(HEIGHT, int(row + radius * tall))
        if left >= right or top >= end:
            return
        u = ((np.arange(left, right) - column) / radius * 63.5 + 63.5).astype(np.int64)
        v = ((np.arange(top, end) - row) / (radius * tall) * 63.5 + 63.5).astype(np.int64)
        glow = self._halo[v.clip(0, 127)[:, None], u.clip(0, 127)] * shown[left:right]
        area = shot.frame.view(np.uint8).reshape(HEIGHT, WIDTH, 4)[top:end, left:right]
        for channel in range(3):
            old = area[..., channel].astype(np.float32)
            added = glow * (0.3 * glow + np.float32(tint[channel]))
            area[..., channel] = old + (255 - old) * np.minimum(added, 1)

    def _paint_motes(self, shot: Shot, hits: Hits) -> None:
        """Sparks that rise around the player, in a box that repeats itself."""
        a, b, c, d = self._motes
        box, t = MOTE_BOX_CELLS, shot.time_s
        dx = (a * box + 0.25 * np.sin(t * 0.7 + c * 40) - shot.x) % box - box / 2
        dy = (b * box + 0.25 * np.cos(t * 0.6 + c * 40) - shot.y) % box - box / 2
        z = (c + t * (0.03 + 0.06 * d)) % 1 * 1.8
        depth, column = _project(shot, dx, dy)
        row = shot.horizon + (shot.eye - z) * FOCAL / depth.clip(0.05)
        inside = (
            (depth > 0.3) & (column >= 0) & (column < WIDTH - 1) & (row >= 0) & (row < HEIGHT - 1)
        )
        column, row = column[inside].astype(np.int64), row[inside].astype(np.int64)
        depth, phase = depth[inside], d[inside] * 50
        bright = (1 - depth / 8.5).clip(0, 1) * (0.55 + 0.45 * np.sin(2 * t + phase))
        bright *= depth < hits.depth[column]
        light = (bright[:, None] * (0.3 + 0.7 * shot.world.colours[0]) * 255).astype(np.uint8)
        pixels = shot.frame.view(np.uint8).reshape(HEIGHT, WIDTH, 4)
        for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
            big = depth < (2.6 if down or right else 99)
            at = row[big] + down, column[big] + right
            pixels[(*at, slice(0, 3))] = np.maximum(pixels[(*at, slice(0, 3))], light[big])

    def _paint_chart(self, shot: Shot) -> None:
        chart, size = shot.world.chart, len(shot.world.chart)
        corner = HEIGHT - size - CHART_MARGIN, WIDTH - size - CHART_MARGIN
        area = shot.frame[corner[0] : corner[0] + size, corner[1] : corner[1] + size]
        unit = size / len(shot.world.grid)
        place = np.arange(size, dtype=np.float32)
        dx, dy = place - shot.x * unit, (place - shot.y * unit)[:, None]
        away = np.hypot(dx, dy)
        ahead = dx * math.cos(shot.angle) + dy * math.sin(shot.angle)
        seen = (ahead > away * 0.78) * (20 - away).clip(0)
        # At most 63 of the picture, 140 of the chart and 50 of the light ahead: a byte holds that.
        area[:] = ((area >> 2) & np.uint32(0x3F3F3F3F)) + chart
        area += (2.5 * seen).astype(np.uint32) * SPREAD
        area[away < 2.2] = _packed(np.ones(3))

    @staticmethod
    def _copy_for(world: World, texels_per_pixel: Array) -> Array:
        """Which of the smaller copies has about one texel per pixel."""
        copy = np.log2(texels_per_pixel.clip(1)).astype(np.int32)
        return np.asarray(np.minimum(copy, len(world.copy_starts) - 1))

    @staticmethod
    def _in_haze(world: World, colour: Array, clear: Array) -> Array:
        """(rows, 4n) uint16 colours behind haze, as (rows, n) uint32; *clear* per row or column."""
        haze = np.tile(np.append(world.haze, 1) * (255 * 255), colour.shape[1] // 4)
        colour *= (clear * 255).astype(np.uint16)
        colour += (haze.astype(np.float32) * (1 - clear)).astype(np.uint16)
        colour >>= 8
        return np.asarray(colour.astype(np.uint8).view(np.uint32))


def _bytes(texels: Array) -> Array:
    """(rows, n) uint32 as (rows, 4n) uint8, without copying."""
    return texels.view(np.uint8).reshape(len(texels), -1)


def _packed(rgb: Array) -> np.uint32:
    red, green, blue = (int(255 * min(1.0, float(c))) for c in rgb)
    return np.uint32(red | green << 8 | blue << 16)


def _project(shot: Shot, dx: Array, dy: Array) -> tuple[Array, Array]:
    """Depth and screen column of points given relative to the player."""
    cos, sin = math.cos(shot.angle), math.sin(shot.angle)
    depth = dx * cos + dy * sin
    return depth, WIDTH / 2 + (dy * cos - dx * sin) / depth.clip(0.05) * FOCAL
