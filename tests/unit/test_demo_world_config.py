"""Which configs does the demo world take, and how does it refuse the others?"""

from __future__ import annotations

import base64
import io
import math
from typing import Any

import pytest
from PIL import Image

from gpu_node.services.demo_world import DemoWorld


def picture(kind: str, size: tuple[int, int] = (80, 60), mode: str = "RGB") -> bytes:
    """A picture of one colour."""
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, kind)
    return buffer.getvalue()


def data_url(raw: bytes, kind: str = "png") -> str:
    """The bytes as a page would send them."""
    return f"data:image/{kind};base64,{base64.b64encode(raw).decode()}"


def refusal_of(config: dict[str, Any]) -> str:
    """Return the text with which a config is refused; no session may be left behind."""
    world = DemoWorld()
    with pytest.raises(ValueError, match=r".") as caught:
        world.create_session(config)
    assert world._sessions == {}
    return str(caught.value)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"session_id": "s-1", "control_idle_timeout": 10.0, "delivery_mode": "lossless"},
        {"prompt": None, "image": None, "image_path": None, "fps": 30},
        {"image": data_url(picture("PNG", mode="RGBA")), "fps": 1},
        {"image": data_url(picture("JPEG"), "jpeg")},
    ],
    ids=["nothing", "what the node adds", "empty", "png", "jpeg"],
)
def test_known_keys_are_accepted(config: dict[str, Any]) -> None:
    """Among them those of the node, which mean nothing to the service itself."""
    world = DemoWorld()
    assert world.has_session(world.create_session(config))


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"promt": "x", "fps": 16}, "unknown config key promt; known are control_idle_timeout, "),
        ({"prompt": 7}, "prompt must be text, not int"),
        ({"fps": 0}, "fps must be a number from 1 to 30, not 0"),
        ({"fps": 31}, "fps must be a number from 1 to 30, not 31"),
        ({"fps": "16"}, "fps must be a number from 1 to 30, not '16'"),
        ({"fps": True}, "fps must be a number"),
        ({"fps": math.nan}, "fps must be a number"),
        ({"image_path": "/nowhere/cat.png"}, "image_path can't be read"),
        ({"image_path": 7}, "image_path can't be read"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_key(config: dict[str, Any], text: str) -> None:
    """The text says what would be right."""
    assert text in refusal_of(config)


@pytest.mark.parametrize(
    ("image", "text"),
    [
        (7, "image must be a data URL that begins with one of data:image/png;base64, "),
        ("https://example.org/cat.png", "image must be a data URL"),
        (data_url(picture("GIF"), "gif"), "image must be a data URL"),
        (data_url(picture("GIF")), "image isn't a PNG or JPEG picture"),
        (data_url(b"no picture"), "image isn't a PNG or JPEG picture"),
        ("data:image/png;base64,???", "image is a data URL whose base64 is broken"),
        (data_url(picture("PNG")[:-30]), "image is a broken picture"),
    ],
    ids=["number", "address", "gif", "gif as png", "text", "base64", "cut off"],
)
def test_what_is_no_picture_is_refused(image: object, text: str) -> None:
    """Each kind of mistake has a text of its own."""
    assert text in refusal_of({"image": image})


def test_a_picture_over_ten_mib_is_refused() -> None:
    """Before it is decoded."""
    assert refusal_of({"image": data_url(bytes(10 * 2**20 + 3))}) == "image is larger than 10 MiB"


def test_a_small_file_with_too_many_pixels_is_refused() -> None:
    """Before its pixels take memory."""
    bomb = picture("PNG", size=(9000, 5000), mode="1")
    assert "image has 9000 x 5000 pixels" in refusal_of({"image": data_url(bomb)})
