"""Does ``greenroom doctor`` find what is wrong with a real LiveKit, and only that?"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from control_plane.cli.doctor.findings import Level
from control_plane.cli.doctor.of_media import Media, look_at_media, media_of
from control_plane.cli.settings import OperatorSettings
from shared.rooms.admin import RoomAdmin
from tests.support.livekit_server import LiveKitServer


def media(server: LiveKitServer, **other: str) -> Media:
    """The server as an operator names it."""
    named = {"url": server.url, "key": server.api_key, "secret": server.api_secret} | other
    return Media(public_url=other.get("public_url", named["url"]), **{
        name: named[name] for name in ("url", "key", "secret")
    })  # fmt: skip


async def wrong(named: Media, *, with_picture: bool = False) -> list[str]:
    """What is wrong with it."""
    found = await look_at_media(named, with_picture=with_picture)
    return [one.text for one in found if one.level is Level.WRONG]


async def test_a_sound_server_takes_keys_and_picture(
    livekit_server: LiveKitServer, admin: RoomAdmin
) -> None:
    """A worker joins as a node's would; its room is gone afterwards."""
    found = await look_at_media(media(livekit_server), with_picture=True)
    assert [(one.area, one.level) for one in found] == [
        ("livekit", Level.FINE),
        ("media", Level.FINE),
    ], found
    doctors = RoomAdmin(
        livekit_server.url, livekit_server.api_key, livekit_server.api_secret, "doctor"
    )
    assert await doctors.rooms() == ()
    await doctors.aclose()


async def test_a_wrong_key_is_found(livekit_server: LiveKitServer) -> None:
    """And a wrong secret."""
    for other in ({"key": "nobody"}, {"secret": "x" * 40}):
        (found,) = await wrong(media(livekit_server, **other), with_picture=True)
        assert found == "LiveKit doesn't take the API key and secret."


async def test_a_server_that_is_dead_is_found(tmp_path: Path) -> None:
    """Where it should have been."""
    server = LiveKitServer(tmp_path)
    (found,) = await wrong(media(server), with_picture=True)
    assert found.startswith(f"LiveKit can't be reached at {server.url}")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"key": "", "secret": ""}, "key or secret is missing"),
        ({"key": "devkey", "secret": "secret"}, "keys of --dev"),
        ({"secret": "short"}, "fewer than 32 characters"),
    ],
)
async def test_keys_that_nobody_should_have_are_found(
    livekit_server: LiveKitServer, other: dict[str, str], words: str
) -> None:
    """Whatever the server says to them."""
    assert any(words in found for found in await wrong(media(livekit_server, **other)))


async def test_an_address_that_only_this_machine_reaches_is_found() -> None:
    """Browsers are told it as theirs; on one machine that is right."""
    named = Media(
        url="ws://192.0.2.1:7880", public_url="ws://localhost:7880", key="k", secret="s" * 32
    )
    texts = await wrong(named)
    assert any("Browsers are told ws://localhost:7880" in text for text in texts)


@pytest.fixture
def blocked(livekit_server: LiveKitServer, tmp_path: Path) -> Iterator[LiveKitServer]:
    """A server whose media address leads nowhere, as behind a wrong node_ip."""
    server = LiveKitServer(tmp_path)
    config = tmp_path / "livekit.yaml"
    text = config.read_text().replace("node_ip: 127.0.0.1", "node_ip: 192.0.2.1")
    config.write_text(text.replace("  enable_loopback_candidate: true\n", ""))
    server.start()
    yield server
    server.kill()


async def test_media_ports_that_lead_nowhere_are_found(blocked: LiveKitServer) -> None:
    """Signalling and keys are right, and no picture would get through."""
    (found,) = await wrong(media(blocked), with_picture=True)
    assert "signalling works, the media ports don't" in found


def test_what_runs_with_the_data_folder_is_looked_at(tmp_path: Path) -> None:
    """Without a name; nothing if nothing ran there."""
    assert media_of(OperatorSettings(data_dir=tmp_path)) is None
    (tmp_path / "livekit").mkdir()
    (tmp_path / "livekit" / "ports.json").write_text('{"http": 7880}')
    (tmp_path / "livekit" / "secret").write_text("s" * 43)
    found = media_of(OperatorSettings(data_dir=tmp_path))
    assert found is not None
    assert (found.url, found.key) == ("ws://127.0.0.1:7880", "greenroom")
    assert "s" * 43 not in repr(found)


def test_the_probe_says_why_it_can_t() -> None:
    """One line of JSON, whatever is the matter; no token and no secret in it."""
    told = subprocess.run(
        [sys.executable, "-m", "gpu_node.media_probe"],
        capture_output=True,
        text=True,
        env={
            "GREENROOM_LIVEKIT_URL": "ws://127.0.0.1:1",
            "GREENROOM_LIVEKIT_API_KEY": "key",
            "GREENROOM_LIVEKIT_API_SECRET": "s" * 40,
            "GREENROOM_DEPLOYMENT_ID": "doctor",
        },
        check=True,
    )
    (line,) = told.stdout.splitlines()
    assert line.startswith('{"why": ')
    assert "eyJ" not in line
