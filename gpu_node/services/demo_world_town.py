"""Which place does a prompt make?

Everything that can be computed before the first frame: palette, town plan, textures, light and sky,
all drawn from one random generator that is seeded with the prompt's hash, so the same prompt (and
picture) gives the same place on every node. A word of a palette's list in the prompt asks for that
palette; else the hash chooses. Baking takes about 0.3 s. `demo_world.py` loads this file.

Noise is white noise with a falling spectrum, so that it tiles; stones are running bond with uneven
joints; both give a height from which a light at the upper left makes relief.
"""

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Array = NDArray[Any]
Rng = np.random.Generator

GRID, TEXELS, COPIES, LIGHT_PER_CELL = 32, 256, 5, 32
SKY_ROWS, SKY_COLUMNS = 340, 2048
CHART_PER_CELL = 4
WALL_CELLS, TALL_REPEATS = 1.25, 3
LAMPS, LAMP_REACH_CELLS, PORTALS = 34, 7.0, 3
FLOOR, BRICK, PANEL, MOSS, NEON, SPIRE, PORTAL, PICTURE = range(8)
KINDS = 8

MASONRY = {
    # rows, columns, width of the joint, unevenness
    FLOOR: (4, 4, 0.012, 0.02),
    BRICK: (10, 4, 0.012, 0.015),
    PANEL: (3, 2, 0.008, 0.0),
    MOSS: (6, 3, 0.02, 0.09),
    NEON: (4, 1, 0.01, 0.0),
    SPIRE: (12, 8, 0.03, 0.0),
}

# Words that ask for it | zenith, sky, haze | walls | floor | lights | moss
PALETTES = (
    "dusk sunset evening|18123f 6a2f72 e58463|b3909a 5d4763|7b6a8a 41355a|ffb45e ff6a9a|6d7a4c",
    "neon cyber city night|04050f 10163a 34205c|6a7395 2c3350|50567a 23273f|26e0ff ff36b8|2f5a58",
    "forest jungle garden|0c2b33 2f7468 b9d6a4|a0a886 566346|7a856b 424f3c|ffd27a 9dffa6|5f9a3a",
    "fire lava volcano hell|120608 4c141c c9502f|96735f 45302c|69504c 30262a|ff8434 ffd257|6b3a2a",
    "ice snow winter arctic|08182f 2c5f8f bcd9ea|a5b8c8 5f768c|8397ab 4a5d73|8fe6ff c9adff|dfeaf2",
    "desert sand gold egypt|28477c c98a6c ffd7a1|cfae84 8f7050|a88c6c 6b563f|fff0bd ffa25e|8d8a4e",
    "sea ocean deep space|02121c 0a3f52 2f8c93|7c9aa2 38565f|577880 25434e|45ffd2 5a97ff|2f7f62",
)


def bake(prompt: str, picture: Array | None) -> dict[str, Any]:
    """Make the place of *prompt*, as fields of a World.

    *picture* is (256, 256, 3), 0 to 1, and hangs on many walls.
    """
    digest = hashlib.sha256(prompt.strip().lower().encode()).digest()
    rng = np.random.default_rng(list(digest))
    sky, walls, ground, lights, moss = choose_palette(prompt, digest[0])
    grid = plan_town(rng, with_picture=picture is not None)
    lamps = place_lamps(rng, grid)
    ambient = 0.5 * sky[1] + 0.12 * sky[2] + 0.19
    ambient *= max(1.0, 0.38 / float(ambient.mean()))
    light = bake_light(grid, np.concatenate([lamps, portal_lights(grid)]), lights, ambient)
    kinds = np.arange(KINDS)
    repeats = np.where(kinds == SPIRE, TALL_REPEATS, 1)
    sizes = [KINDS * (TEXELS >> copy) ** 2 for copy in range(COPIES)]
    return {
        "grid": grid,
        "heights": (WALL_CELLS * repeats).astype(np.float32),
        "repeats": repeats,
        "flows": (kinds == PORTAL).astype(np.float32),
        "atlas": shrink(paint_textures(rng, (ground, walls, lights, moss[0]), picture)),
        "texels": TEXELS,
        "copy_starts": np.cumsum([0, *sizes[:-1]]).astype(np.int32),
        "light": light,
        "sky": paint_sky(rng, sky, lights),
        "ridges": (fractal(rng, 2, SKY_COLUMNS, 1.3) * [[62], [36]]).astype(np.float32),
        "lamps": lamps,
        "colours": lights,
        "haze": sky[2],
        "chart": draw_chart(grid, light, lights),
        "spawn": find_view(rng, grid),
        "exits": find_exits(grid),
    }


def choose_palette(prompt: str, by_chance: int) -> list[Array]:
    """Sky, walls, floor, lights and moss, each as (n, 3) 0 to 1."""
    words = set(prompt.lower().replace(",", " ").replace(".", " ").split())
    asked = [palette for palette in PALETTES if words & set(palette.split("|")[0].split())]
    chosen = asked[0] if asked else PALETTES[by_chance % len(PALETTES)]
    return [
        np.array([[*bytes.fromhex(colour)] for colour in part.split()], np.float32) / 255
        for part in chosen.split("|")[1:]
    ]


def fractal(rng: Rng, rows: int, columns: int, power: float = 1.6) -> Array:
    """Cloudy noise, 0 to 1, that tiles; the higher *power* the smoother."""
    frequency = np.hypot(np.fft.fftfreq(rows)[:, None] * rows, np.fft.rfftfreq(columns) * columns)
    frequency[0, 0] = np.inf
    white = np.fft.rfft2(rng.standard_normal((rows, columns), np.float32))
    spectrum = white * (frequency**-power).astype(np.float32)
    noise = np.fft.irfft2(spectrum, (rows, columns))
    return np.asarray((noise / noise.std() / 5 + 0.5).clip(0, 1))


def pack(rgb: Array, fourth: Array | float = 0.0) -> Array:
    """(…, 3) floats 0 to 1 as (…) uint32, the fourth byte on top."""
    texels = np.empty((*rgb.shape[:-1], 4), np.uint8)
    texels[..., :3] = rgb.clip(0, 1) * 255
    texels[..., 3] = np.asarray(fourth).clip(0, 1) * 255
    return texels.view(np.uint32)[..., 0]


def blend(first: Array, second: Array, share: Array) -> Array:
    """(…, 3): from *first* to *second* by (…) shares of 0 to 1."""
    return np.asarray(first + (second - first) * share[..., None])


# --- the plan ------------------------------------------------------------------------------------


def plan_town(rng: Rng, *, with_picture: bool) -> Array:
    """Blocks that never touch each other or the border, so that each free cell can be reached."""
    grid = np.zeros((GRID, GRID), np.uint8)
    skins = [BRICK, PANEL, MOSS, NEON] + [PICTURE] * (3 * with_picture)
    for attempt in range(120):
        small = attempt < PORTALS
        height, width = (1, 1) if small else rng.choice([1, 1, 2, 3, 4], 2)
        left = (GRID - 2) // PORTALS * attempt if small else 0
        right = left + (GRID - 2) // PORTALS if small else GRID - 1 - width
        y, x = rng.integers(2, GRID - 1 - height), rng.integers(left + 2, right)
        tall = min(height, width) > 1 and rng.random() < 0.4
        kind = PORTAL if small else SPIRE if tall else rng.choice(skins)
        if not grid[y - 1 : y + height + 1, x - 1 : x + width + 1].any():
            grid[y : y + height, x : x + width] = kind
    grid[[0, -1], :] = grid[:, [0, -1]] = BRICK
    return grid


def place_lamps(rng: Rng, grid: Array) -> Array:
    """(n, 4): x, y, height, which of the two colours; never near each other."""
    kept: list[Array] = []
    for cell in rng.permutation(np.argwhere(grid == 0)):
        if len(kept) < LAMPS and all(np.abs(cell - other).max() > 3 for other in kept):
            kept.append(cell)
    return np.array(
        [(x + 0.5, y + 0.5, rng.uniform(0.55, 0.8), i % 3 == 2) for i, (y, x) in enumerate(kept)]
    )


def portal_lights(grid: Array) -> Array:
    """(n, 4) like lamps: the four sides of each portal shine."""
    sides = ((0.62, 0), (-0.62, 0), (0, 0.62), (0, -0.62))
    cells = np.argwhere(grid == PORTAL)
    return np.array(
        [(x + 0.5 + dx, y + 0.5 + dy, 0, dy != 0) for y, x in cells for dx, dy in sides]
    )


def find_view(rng: Rng, grid: Array) -> tuple[float, float, float]:
    """An open place with something to look at: a picture or a portal, or a wall not too near."""
    around = sum(np.roll(grid > 0, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1))
    open_cells = np.argwhere(around == 0)
    spots = open_cells[rng.integers(0, len(open_cells), 600)] + 0.5
    angles = rng.integers(0, 16, 600) * (math.pi / 8)
    reach = np.arange(0.5, 11, 0.25)
    x = spots[:, 1, None] + np.cos(angles)[:, None] * reach
    y = spots[:, 0, None] + np.sin(angles)[:, None] * reach
    met = grid[y.clip(0, GRID - 1).astype(int), x.clip(0, GRID - 1).astype(int)]
    first = np.argmax(met > 0, axis=1)
    kind = met[np.arange(600), first]
    far = np.where(kind > 0, reach[first], 11)
    best = int(np.argmax(4.0 * (kind == PICTURE) + 2.0 * (kind == PORTAL) - np.abs(far - 5)))
    return float(spots[best, 1]), float(spots[best, 0]), float(angles[best])


def find_exits(grid: Array) -> Array:
    """(portals, 3): x, y and angle at which one steps out of each portal, towards the middle."""
    cells = np.argwhere(grid == PORTAL)
    angles = [
        math.pi / 2 * round(math.atan2(GRID / 2 - y, GRID / 2 - x) / (math.pi / 2))
        for y, x in cells
    ]
    return np.array(
        [
            (x + 0.5 + math.cos(a), y + 0.5 + math.sin(a), a)
            for (y, x), a in zip(cells, angles, strict=True)
        ]
    )


# --- surfaces ------------------------------------------------------------------------------------


def lay_stones(rng: Rng, recipe: tuple[int, int, float, float]) -> tuple[Array, Array]:
    """(0 in the joint to 1 on the stone, one tone per stone)."""
    rows, columns, joint, uneven = recipe
    place = np.mgrid[0:TEXELS, 0:TEXELS] / TEXELS
    v, u = place + uneven * (np.stack([fractal(rng, TEXELS, TEXELS) for _ in "vu"]) - 0.5)
    row = np.floor(v * rows)
    along = u * columns + 0.5 * (row % 2)
    column = np.floor(along)
    to_edge = np.minimum(
        (0.5 - np.abs(along - column - 0.5)) / columns, (0.5 - np.abs(v * rows - row - 0.5)) / rows
    )
    tone = rng.random((rows, columns))[row.astype(int) % rows, column.astype(int) % columns]
    return (to_edge / joint).clip(0, 1), tone


def paint_textures(
    rng: Rng, colours: tuple[Array, Array, Array, Array], picture: Array | None
) -> Array:
    """(kind, v, u, 4) floats: RGB, and how much it shines (the floor: how wet it is)."""
    ground, walls, lights, moss = colours
    texels = np.zeros((KINDS, TEXELS, TEXELS, 4))
    v, u = np.mgrid[0:TEXELS, 0:TEXELS] / TEXELS
    for kind, recipe in MASONRY.items():
        stone, tone = lay_stones(rng, recipe)
        grain = fractal(rng, TEXELS, TEXELS, 1.1)
        height = stone + 0.9 * grain
        slope = sum(np.roll(height, -1, axis) - np.roll(height, 1, axis) for axis in (0, 1))
        dark, bright = (ground if kind == FLOOR else walls)[::-1]
        rgb = blend(dark, bright, 0.6 * tone + 0.4 * grain)
        rgb *= ((0.45 + 0.55 * stone) * (1 + 0.8 * slope))[..., None]
        if kind == MOSS:
            grown = fractal(rng, TEXELS, TEXELS) + 0.5 * v - 0.62 - 0.2 * stone
            rgb = blend(rgb, moss * (0.5 + grain)[..., None], (6 * grown).clip(0, 1))
        elif kind == SPIRE:
            window = (tone > 0.74) & (stone > 0.99)
            rgb = np.where(window[..., None], lights[0] * (0.5 + 0.5 * tone[..., None]), 0.6 * rgb)
            texels[kind, ..., 3] = window * (0.5 + 0.5 * grain)
        if kind not in (FLOOR, SPIRE):
            rgb *= (0.7 + 0.4 * np.sin(2.6 * v + 0.3))[..., None]
        texels[kind, ..., :3] = rgb
    texels[FLOOR, ..., 3] = ((fractal(rng, TEXELS, TEXELS) - 0.46) * 7).clip(0.15, 1)
    draw_lines(texels[NEON], lights, v)
    thread = 1 - np.abs(2 * fractal(rng, TEXELS, TEXELS) - 1)[..., None]
    hue = blend(lights[0], lights[1], fractal(rng, TEXELS, TEXELS))
    texels[PORTAL, ..., :3] = hue * (0.25 + 0.75 * thread**4) + 0.5 * thread**24
    texels[PORTAL, ..., 3] = 1
    if picture is not None:
        inside = (np.abs(u - 0.5) < 0.47) & (np.abs(v - 0.5) < 0.46)
        texels[PICTURE, ..., :3] = np.where(inside[..., None], picture, 0.5 * lights[0])
        texels[PICTURE, ..., 3] = 0.75 * inside
    return texels


def draw_lines(texels: Array, lights: Array, v: Array) -> None:
    """Two glowing lines around the wall."""
    for light, at in zip(lights, (0.2, 0.8), strict=True):
        distance = np.abs(v - at)
        glow = np.exp(-26 * distance)
        core = distance < 0.012
        texels[..., :3] += light * (0.5 * glow)[..., None]
        texels[core, :3] = 0.6 * light + 0.4
        texels[..., 3] = np.maximum(texels[..., 3], np.maximum(core, 0.8 * glow))


def shrink(texels: Array) -> Array:
    """The flat atlas: texels by kind, u, v, then copies of half the width each."""
    level, flat = texels.swapaxes(1, 2), []
    for _ in range(COPIES):
        flat.append(pack(level[..., :3], level[..., 3]).ravel())
        half = level.shape[1] // 2
        level = level.reshape(KINDS, half, 2, half, 2, 4).mean((2, 4))
    return np.concatenate(flat)


# --- light and sky -------------------------------------------------------------------------------


def blur(field: Array, width: float) -> Array:
    """Soften (n, n, …) by a bell of *width* texels, around the edges too."""
    n = len(field)
    square = np.fft.fftfreq(n)[:, None] ** 2 + np.fft.rfftfreq(n) ** 2
    bell = np.exp(-2 * (math.pi * width) ** 2 * square)
    bell = bell.reshape(*bell.shape, *[1] * (field.ndim - 2))
    return np.asarray(np.fft.irfft2(np.fft.rfft2(field, axes=(0, 1)) * bell, (n, n), axes=(0, 1)))


def bake_light(grid: Array, lamps: Array, colours: Array, ambient: Array) -> Array:
    """(m, m) uint32: what falls on the ground and on what stands there, with soft shadows."""
    fine = 8
    solid = grid > 0
    shade = blur(np.kron(solid, np.ones((fine, fine))), 3.0)
    light = ambient * (1 - 0.75 * shade)[..., None]
    place = (np.arange(GRID * fine) + 0.5) / fine
    for x, y, _, tint in lamps:
        rows, columns = np.abs(place - y) < LAMP_REACH_CELLS, np.abs(place - x) < LAMP_REACH_CELLS
        dx, dy = place[columns] - x, (place[rows] - y)[:, None]
        square = dx**2 + dy**2
        fall = (1 - square / LAMP_REACH_CELLS**2).clip(0, 1) ** 2 / (1 + 0.7 * square)
        for share in np.linspace(0.05, 0.94, 18):
            fall *= ~solid[(y + dy * share).astype(int), (x + dx * share).astype(int)]
        light[np.ix_(rows, columns)] += 3.0 * fall[..., None] * colours[int(tint)]
    soft = (1 - np.exp(-1.1 * blur(light, 0.9))).astype(np.float32)
    side = (GRID * LIGHT_PER_CELL, GRID * LIGHT_PER_CELL)
    channels = [
        Image.fromarray(soft[..., c]).resize(side, Image.Resampling.BICUBIC) for c in range(3)
    ]
    return pack(np.stack([np.asarray(channel) for channel in channels], axis=-1))


def paint_sky(rng: Rng, colours: Array, lights: Array) -> Array:
    """(rows, columns) uint32: all directions around, the zenith above, the haze at the bottom."""
    zenith, middle, haze = colours
    shape = (SKY_ROWS, SKY_COLUMNS)
    up = np.broadcast_to(np.linspace(1, 0, SKY_ROWS, dtype=np.float32)[:, None], shape)
    sky = blend(haze, middle, (up / 0.45).clip(0, 1) ** 0.7)
    sky = blend(sky, zenith, ((up - 0.45) / 0.55).clip(0, 1))
    stars = rng.random(shape, np.float32) ** 3 * (rng.random(shape, np.float32) > 0.9975)
    sky += (stars * up**0.7 * (1.3 - sky.mean()))[..., None]
    row, column = np.ogrid[0:SKY_ROWS, 0:SKY_COLUMNS]
    moon = np.hypot(
        row - np.float32(120), column - rng.integers(SKY_COLUMNS // 4, SKY_COLUMNS // 2)
    )
    sky += (0.35 * np.exp(-moon / 60))[..., None] * (0.5 + 0.5 * lights[0])
    sky = blend(sky, 0.62 + 0.38 * haze, 0.92 * (24.5 - moon).clip(0, 1))
    cloud = 3 * (fractal(rng, 2 * SKY_ROWS, SKY_COLUMNS, 1.7)[:SKY_ROWS] - 0.5)
    sky = blend(sky, 0.75 * haze + 0.35 * middle, 0.6 * cloud.clip(0, 1) * (3 * up).clip(0, 1))
    return pack(sky + (rng.random(shape, np.float32)[..., None] - 0.5) / 128)


def draw_chart(grid: Array, light: Array, lights: Array) -> Array:
    """The map in the corner, not quite bright: the picture shines through and adds its part."""
    side = GRID * CHART_PER_CELL
    lit = Image.fromarray(light.view(np.uint8).reshape(*light.shape, 4)[..., :3].copy())
    ground = np.asarray(lit.resize((side, side), Image.Resampling.BOX)) / 255
    at = np.arange(side) // CHART_PER_CELL
    kind = grid[at[:, None], at]
    chart = np.where((kind > 0)[..., None], 0.3 + 0.35 * lights[0], 0.4 * ground)
    for glowing in (PORTAL, PICTURE):
        chart[kind == glowing] = lights[1]
    return pack((1.2 * chart).clip(0, 1) * 0.55)
