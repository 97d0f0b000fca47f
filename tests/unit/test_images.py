"""Images: what is accepted, what is refused, what is kept."""

from __future__ import annotations

import base64
import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from control_plane import images
from control_plane.images import MAX_STORED_BYTES, shrink
from shared.errors import InvalidImage


def data_url(raw: bytes, kind: str = "png") -> str:
    """Return bytes as a data URL."""
    return f"data:image/{kind};base64,{base64.b64encode(raw).decode()}"


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> str:
    """Return a picture as a data URL in a format."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return data_url(out.getvalue(), kind.lower())


def opened(jpeg: bytes) -> Image.Image:
    """Decode what was kept."""
    image = Image.open(io.BytesIO(jpeg))
    image.load()
    return image


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
@pytest.mark.parametrize("mode", ["RGB", "L", "P"])
def test_known_formats_become_a_jpeg(kind: str, mode: str) -> None:
    """Each format and colour mode is decoded and written again."""
    if (kind, mode) == ("JPEG", "P"):
        mode = "CMYK"
    kept = opened(shrink(encoded(Image.new("RGB", (64, 48), "red").convert(mode), kind)))

    assert (kept.format, kept.mode, kept.size) == ("JPEG", "RGB", (64, 48))


def test_a_large_image_is_shrunk() -> None:
    """The longer side becomes 1024 pixels; the shape stays."""
    kept = opened(shrink(encoded(Image.new("RGB", (4000, 2000), "blue"), "JPEG")))

    assert kept.size == (1024, 512)


def test_a_noisy_image_fits_the_limit() -> None:
    """Noise hardly compresses; it is made coarser until it fits."""
    noise = np.random.default_rng(1).integers(0, 256, (1024, 1024, 3), dtype=np.uint8)

    jpeg = shrink(encoded(Image.fromarray(noise), "PNG"))

    assert len(jpeg) <= MAX_STORED_BYTES
    assert opened(jpeg).size == (1024, 1024)


def test_a_photo_is_turned_upright() -> None:
    """A phone writes how it was held beside the pixels; here it is applied."""
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    photo = encoded(Image.new("RGB", (40, 20), "red"), "JPEG", exif=exif)

    assert opened(shrink(photo)).size == (20, 40)


def test_nothing_but_pixels_is_kept() -> None:
    """Place and camera, as phones write them, don't reach Redis."""
    exif = Image.Exif()
    exif[0x010F] = "a camera's maker"
    photo = encoded(Image.new("RGB", (40, 20), "red"), "JPEG", exif=exif)

    assert b"a camera" not in shrink(photo)


def test_transparent_parts_become_white() -> None:
    """JPEG has no transparency."""
    clear = encoded(Image.new("RGBA", (8, 8), (255, 0, 0, 0)))

    pixel = opened(shrink(clear)).getpixel((4, 4))

    assert isinstance(pixel, tuple)
    assert min(pixel) > 250


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cat.png",
        "/etc/passwd",
        "https://example.org/cat.png",
        "data:text/html;base64,PGI+",
        "data:image/png,plain",
    ],
)
def test_anything_but_a_data_url_is_refused(text: str) -> None:
    """A path or an address is never followed."""
    with pytest.raises(InvalidImage, match="data URL"):
        shrink(text)


def test_damaged_base64_is_refused() -> None:
    """Letters that base64 hasn't are no image."""
    with pytest.raises(InvalidImage, match="base64"):
        shrink("data:image/png;base64,@@@@")


@pytest.mark.parametrize("raw", [b"", b"not an image", b"\x89PNG\r\n\x1a\n", b"<svg/>"])
def test_bytes_that_are_no_image_are_refused(raw: bytes) -> None:
    """The announced type proves nothing."""
    with pytest.raises(InvalidImage, match="isn't a readable"):
        shrink(data_url(raw))


def test_a_cut_off_image_is_refused() -> None:
    """Half a file is no image."""
    whole = base64.b64decode(encoded(Image.new("RGB", (400, 400), "red"), "JPEG").split(",")[1])
    with pytest.raises(InvalidImage, match="isn't a readable"):
        shrink(data_url(whole[: len(whole) // 2]))


def test_ten_mebibytes_are_the_limit() -> None:
    """One byte more is refused by its length, before it is decoded."""
    limit = 10 * 1024 * 1024
    with pytest.raises(InvalidImage, match="over 10 MiB"):
        shrink(data_url(b"x" * (limit + 1)))
    with pytest.raises(InvalidImage, match="isn't a readable"):
        shrink(data_url(b"x" * limit))


def test_a_decompression_bomb_is_refused_by_its_announced_size() -> None:
    """A file of some hundred bytes that unpacks into gigabytes is never unpacked."""
    for side in (10_000, 65_000):
        with pytest.raises(InvalidImage):
            shrink(data_url(_png(side, side)))


def _png(width: int, height: int) -> bytes:
    """A tiny PNG that announces a huge picture."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        crc = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", crc)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )


_SAMPLES = [
    base64.b64decode(encoded(Image.new(mode, (32, 32), 1), kind).split(",")[1])
    for kind, mode in (
        ("PNG", "RGB"), ("PNG", "P"), ("JPEG", "RGB"), ("WEBP", "RGB"), ("GIF", "P"), ("BMP", "RGB")
    )
]  # fmt: skip


@given(
    st.sampled_from(_SAMPLES),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=20),
)
@settings(max_examples=150, deadline=None)
def test_a_damaged_file_is_refused_or_read_and_nothing_else(
    sample: bytes, damages: list[tuple[int, int]]
) -> None:
    """Whatever is broken inside, the only error is that the image can't be used."""
    raw = bytearray(sample)
    for at, byte in damages:
        raw[at % len(raw)] = byte
    try:
        kept = shrink(data_url(bytes(raw)))
    except InvalidImage:
        return
    assert len(kept) <= images.MAX_STORED_BYTES
