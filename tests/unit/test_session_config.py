"""A service hears what the client asked for, and no path outside of the operator's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_node.session_config import frames_per_second, session_config
from shared.errors import InvalidConfig
from shared.records import SessionRequest


def config_of(root: Path | None = None, image: bytes | None = None, **asked: Any) -> dict[str, Any]:
    """What ``create_session`` gets."""
    request = SessionRequest(identity="alice", **asked)
    return session_config("default-x", request, image=image, asset_root=root)


def test_prompt_and_image_stand_beside_the_clients_own_config() -> None:
    """The image as a data URL, as the reference hands it over."""
    config = config_of(image=b"\xff\xd8jpeg", prompt="a forest", config={"fps": 30})
    assert config == {
        "fps": 30,
        "session_id": "default-x",
        "control_idle_timeout": 10.0,
        "prompt": "a forest",
        "image": "data:image/jpeg;base64,/9hqcGVn",
    }


def test_a_path_below_the_asset_root_is_resolved(tmp_path: Path) -> None:
    """The service gets the whole path."""
    (tmp_path / "start.png").touch()
    assert config_of(tmp_path, image_path="start.png")["image_path"] == str(tmp_path / "start.png")


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "missing.png", "a\0b", ".", ""])
@pytest.mark.parametrize("where", ["field", "config", "image"])
def test_any_other_path_is_refused(tmp_path: Path, path: str, where: str) -> None:
    """However it's handed in."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").touch()
    ways: dict[str, dict[str, Any]] = {
        "field": {"image_path": path},
        "config": {"config": {"image_path": path}},
        "image": {"config": {"image": path}},
    }
    with pytest.raises(InvalidConfig, match="names no file"):
        config_of(root, **ways[where])


def test_a_link_out_of_the_asset_root_is_no_way_out(tmp_path: Path) -> None:
    """Neither of a file nor of a folder; where a link leads counts, not where it lies."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret").touch()
    (root / "file").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside)
    (root / "round").symlink_to(root / "round")
    for path in ("file", "folder/secret", "folder/../outside/secret", "round"):
        with pytest.raises(InvalidConfig, match="names no file"):
            config_of(root, image_path=path)


def test_without_an_asset_root_there_are_no_paths(tmp_path: Path) -> None:
    """The default."""
    with pytest.raises(InvalidConfig, match="offers no files"):
        config_of(None, image_path="start.png")


@pytest.mark.parametrize(
    ("asked", "fps"), [(30, 30), (12.4, 12), (None, 16), ("30", 16), (True, 16), (0, 16), (500, 16)]
)
def test_the_frame_rate_is_the_clients_if_it_is_one(asked: object, fps: int) -> None:
    """Else the node's."""
    request = SessionRequest(identity="alice", config={} if asked is None else {"fps": asked})
    assert frames_per_second(request, 16) == fps
