"""What does an operator's mistake look like? Exit status 2, one sentence, no traceback."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from shared.embedded.ports import free_port
from tests.support.all_in_one import greenroom
from tests.support.wait import scaled_s

pytestmark = pytest.mark.timeout(120)

KEYS = {
    "GREENROOM_LIVEKIT_URL": "ws://127.0.0.1:1",
    "GREENROOM_LIVEKIT_API_KEY": "key",
    "GREENROOM_LIVEKIT_API_SECRET": "a-secret-of-the-tests-that-is-long-enough",
}


def refused(folder: Path, *arguments: str | Path, **environment: str) -> str:
    """Run a command that must be refused; return what it complained."""
    result = greenroom(*arguments, cwd=folder, timeout_s=30, **environment)
    told = result.stderr + result.stdout
    assert result.returncode == 2, told
    assert "Traceback" not in told
    assert "Try: " in told
    return told


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    """The sentence names port and address, the advice how to get another one.

    Nothing is started first: a Greenroom that listens there would answer for the new one's replica,
    and the new one call itself ready.
    """
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        told = refused(tmp_path, "stream-serve", "--port", port)
        assert f"Port {port} on 127.0.0.1 is in use." in told
        assert "starting" not in told
        assert f"Port {port}" in refused(tmp_path, "api", "--port", port, **KEYS)


@pytest.mark.parametrize("part", ["valkey", "livekit", "lock", "deployment-id"])
def test_a_data_folder_that_cannot_be_used_is_told(tmp_path: Path, part: str) -> None:
    """Whatever lies in the way of what the all-in-one keeps there, it's one sentence."""
    (tmp_path / "data").mkdir()
    if part in ("valkey", "livekit"):
        (tmp_path / "data" / part).touch()
    else:
        (tmp_path / "data" / part).mkdir()
    told = refused(tmp_path, "stream-serve", "--port", "0", "--data-dir", "data")
    assert "The data folder" in told
    assert "can't be used" in told


@pytest.mark.parametrize("command", ["stream-serve", "node"])
def test_a_missing_file_is_told(tmp_path: Path, command: str) -> None:
    """Nothing is started for a file that isn't there."""
    told = refused(tmp_path, command, "nowhere.py", **(KEYS if command == "node" else {}))
    assert "There is no file nowhere.py." in told
    assert not (tmp_path / ".greenroom").exists()


@pytest.mark.parametrize("command", ["api", "node"])
def test_all_missing_livekit_keys_are_listed(tmp_path: Path, command: str) -> None:
    """All three at once, each with its flag and its variable."""
    told = refused(tmp_path, command)
    for name in ("livekit-url", "livekit-api-key", "livekit-api-secret"):
        assert f"--{name} (GREENROOM_{name.upper().replace('-', '_')})" in told


def test_keys_without_a_server_are_refused_by_the_all_in_one(tmp_path: Path) -> None:
    """Its own LiveKit has its own keys."""
    told = refused(tmp_path, "stream-serve", "--livekit-api-key", "k")
    assert "--livekit-url, which is missing" in told


@pytest.mark.parametrize("command", ["stream-serve", "api"])
def test_a_redis_that_does_not_answer_is_told(tmp_path: Path, command: str) -> None:
    """Within 5 s, and a loose limit for the processes' own start."""
    started_s = time.monotonic()
    url = f"redis://127.0.0.1:{free_port()}/0"
    told = refused(tmp_path, command, "--port", "0", "--redis-url", url, **KEYS)
    assert "Redis can't be reached within 5 s" in told
    assert time.monotonic() - started_s < scaled_s(15)


@pytest.mark.parametrize("port", ["0", "18199"])
@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid"])
def test_an_address_of_another_machine_is_told(tmp_path: Path, host: str, port: str) -> None:
    """At once, whether a port was named or is to be picked."""
    told = refused(tmp_path, "stream-serve", "--host", host, "--no-auth", "--port", port)
    assert host in told
    assert "starting" not in told


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1\n", "get_service"),
        ("def get_service():\n    raise RuntimeError('no weights here')\n", "no weights here"),
        ("def get_service():\n    return 7\n", "service"),
        ("def get_service(:\n", "world.py"),
    ],
    ids=["no get_service", "it raises", "no service", "no Python"],
)
def test_a_service_file_that_cannot_serve_is_told(tmp_path: Path, text: str, sentence: str) -> None:
    """The all-in-one ends with the node's sentence instead of trying again and again."""
    (tmp_path / "world.py").write_text(text)
    result = greenroom("stream-serve", "world.py", "--port", "0", cwd=tmp_path, timeout_s=40)
    assert result.returncode == 2, result.stdout + result.stderr
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
