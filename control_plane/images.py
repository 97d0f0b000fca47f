"""Is this an image, and how small can it be kept?

A client sends its image as a data URL inside the request. It is decoded for real (a name or a
header proves nothing), turned upright, shrunk to at most 1024 pixels a side and written again as a
JPEG of at most 512 KiB: what reaches Redis and the model is our own file, never the client's bytes.

Decoding hostile files is slow and hungry, so `shrink` runs in a thread of its own small pool
(`ImageShrinker`), looks at the announced size before it unpacks anything, and knows five formats.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import re
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

from PIL import Image, ImageOps

from shared.errors import InvalidImage

MAX_IMAGE_BYTES = 10 * 1024 * 1024
MAX_STORED_BYTES = 512 * 1024
MAX_SIDE_PIXELS = 1024
MAX_PIXELS = 40_000_000
"""A phone's largest photo; two of them unpacked fit in memory at any time."""

_DATA_URL = re.compile(
    r"data:image/[a-z0-9.+-]{1,40}(?:;[a-z0-9=._-]{1,40}){0,4};base64,", re.IGNORECASE
)
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_QUALITIES = (90, 80, 65, 45)
_BROKEN_FILE = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    ArithmeticError,
    MemoryError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
)
"""What Pillow raises for damaged files, by experience with each format."""


def shrink(data_url: str) -> bytes:
    """Return the image of *data_url* as an upright RGB JPEG, or raise `InvalidImage`.

    Pure and slow (up to a second for the largest images): never call it on the event loop.
    """
    raw = _decode(data_url)
    try:
        with Image.open(io.BytesIO(raw), formats=_FORMATS) as image:
            _check_size(image)
            image.draft("RGB", (MAX_SIDE_PIXELS, MAX_SIDE_PIXELS))
            return _as_small_jpeg(_upright_rgb(image))
    except _BROKEN_FILE as broken:
        raise InvalidImage(why="it isn't a readable PNG, JPEG, WebP, GIF or BMP file") from broken


def _decode(data_url: str) -> bytes:
    start = _DATA_URL.match(data_url)
    if start is None:
        raise InvalidImage(why="send it as a data URL that begins 'data:image/…;base64,'")
    if (len(data_url) - start.end()) * 3 // 4 > MAX_IMAGE_BYTES + 2:
        raise InvalidImage(why=f"it is over {MAX_IMAGE_BYTES // 1024 // 1024} MiB")
    try:
        raw = base64.b64decode(data_url[start.end() :], validate=True)
    except (binascii.Error, ValueError) as broken:
        raise InvalidImage(why="its base64 text is damaged") from broken
    if len(raw) > MAX_IMAGE_BYTES:
        raise InvalidImage(why=f"it is over {MAX_IMAGE_BYTES // 1024 // 1024} MiB")
    return raw


def _check_size(image: Image.Image) -> None:
    """Refuse by the announced size, before a small file unpacks into gigabytes."""
    width, height = image.size
    if width < 1 or height < 1:
        raise InvalidImage(why="it has no pixels")
    if width * height > MAX_PIXELS:
        raise InvalidImage(why=f"it has over {MAX_PIXELS // 1_000_000} million pixels")


def _upright_rgb(image: Image.Image) -> Image.Image:
    image.thumbnail((MAX_SIDE_PIXELS, MAX_SIDE_PIXELS), Image.Resampling.LANCZOS)
    upright = ImageOps.exif_transpose(image)
    if not upright.has_transparency_data:
        return upright.convert("RGB")
    layered = upright.convert("RGBA")
    white = Image.new("RGBA", layered.size, "white")
    return Image.alpha_composite(white, layered).convert("RGB")


def _as_small_jpeg(image: Image.Image) -> bytes:
    while True:
        for quality in _QUALITIES:
            out = io.BytesIO()
            image.save(out, "JPEG", quality=quality)
            if out.tell() <= MAX_STORED_BYTES:
                return out.getvalue()
        image = image.resize((max(image.width // 2, 1), max(image.height // 2, 1)))


class ImageShrinker:
    """Runs `shrink` off the event loop, at most two at a time, so that memory stays bounded."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="images")

    async def shrink(self, data_url: str) -> bytes:
        """Like the function of this name, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, shrink, data_url)

    def close(self) -> None:
        """Let running ones finish; start no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
