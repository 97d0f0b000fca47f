"""What a world on another server needs before and beside its connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_node.services import sglang_world, vllm_omni_world
from gpu_node.services.contract import ServiceMode, mode_of
from gpu_node.services.fragmented_mp4 import FragmentedMp4
from gpu_node.services.loader import load
from gpu_node.services.remote_link import Remote
from tests.support.remote_servers import Muxer, pieces


@pytest.mark.parametrize("module", [sglang_world, vllm_omni_world])
def test_both_are_service_files(module: Any) -> None:
    """They keep the contract and can be loaded by their path, without a server."""
    assert mode_of(module.get_service()) is ServiceMode.BIDIRECTIONAL
    load(Path(module.__file__), gpu_num=1, gpu_ids=None).unload()


@pytest.mark.parametrize("length", [1, 7, 1000])
def test_a_film_may_be_cut_anywhere(length: int) -> None:
    """Boxes and messages needn't have to do with each other."""
    film = Muxer(width=32, height=32, fps=10)
    shades = [np.full((32, 32, 3), 20 * number, np.uint8) for number in range(6)]
    data = film.chunk(shades) + film.rest()
    reader = FragmentedMp4()
    seen = [frame for piece in pieces(data, length) for frame in reader.feed(piece)]
    seen += reader.flush()
    assert [round(float(frame.mean()) / 20) for frame in seen] == list(range(6))
    assert reader.fps == 10.0


def test_what_is_no_film_is_refused() -> None:
    """Also one that announces a part that nobody could keep."""
    for nonsense in (b"\0\0\0\0abcd", b"\0\0\0\1mdat" + b"\xff" * 8):
        with pytest.raises(ValueError, match="it has a part of"):
            FragmentedMp4().feed(nonsense)
    with pytest.raises(ValueError, match="can't be decoded"):
        FragmentedMp4().feed(b"\0\0\0\x08moof\0\0\0\x08mdat")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"url": "ws://elsewhere"}, "unknown config key url"),
        ({"prompt": 3}, "prompt must be text"),
        ({"fps": 0}, "fps must be a number from 1 to 60"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"image": "http://169.254.169.254/"}, "image must be a data URL"),
        ({"image": "data:image/png;base64,!!"}, "base64 is broken"),
        ({"image": "data:image/png;base64,AAAA"}, "isn't a PNG or JPEG picture"),
        ({"image": "data:image/png;base64," + "A" * 4_000_000}, "larger than 2 MiB"),
        ({"image_path": "/nowhere.png"}, "image_path can't be read: No such file"),
        ({"image_path": 3}, "image_path must be text"),
    ],
)
def test_a_bad_config_is_refused_before_anything_is_opened(
    config: dict[str, object], words: str
) -> None:
    """With what would be right."""
    world = sglang_world.get_service()
    with pytest.raises(ValueError, match=words):
        world.create_session(config)


def test_an_operators_mistake_is_told_at_the_start(tmp_path: Path) -> None:
    """An address that is none, a picture that is none."""
    for url in ("http://there/", "ws://", "there"):
        with pytest.raises(ValueError, match="must begin with ws://HOST or wss://HOST"):
            Remote(url=url)
    assert Remote(url="wss://me:secret@there:1/path?key=secret").address == "wss://there:1/path"
    with pytest.raises(ValueError, match="image can't be read"):
        sglang_world.sglang_world(image=tmp_path / "none.png").start()
