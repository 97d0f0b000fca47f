"""Does the all-in-one start, survive its children, and leave nothing behind?"""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.states import SessionState
from tests.support.all_in_one import NAMES, AllInOne, all_in_one, greenroom
from tests.support.wait import wait_until_sync

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AllInOne]:
    """One all-in-one for all tests that leave it usable."""
    with all_in_one(tmp_path_factory.mktemp("stack"), "--queue-size", "30") as stack:
        yield stack


def test_its_address_is_printed_once_it_can_serve(running: AllInOne) -> None:
    """Whoever reads the line may create a session right away; it says that no key is needed."""
    assert f"{running.url} (Ctrl-C stops it)" in running.output
    assert "open: nobody is asked for a key" in running.output
    assert running.is_usable()
    assert all(running.pid(name) for name in NAMES)


def test_flags_reach_the_processes(running: AllInOne) -> None:
    """A flag of the command is a setting of the child that it belongs to."""
    assert running.metadata()["queue_size"] == 30


def test_the_registry_can_be_read_without_a_redis_client(running: AllInOne) -> None:
    """The tour shows line, nodes and sessions in words; a raw command shows what stands there."""
    session = str(running.create("reader")["session_id"])
    told = greenroom("redis", "--data-dir", running.data_dir, cwd=running.folder).stdout
    assert "In line: " in told
    assert "Nodes: 1" in told
    assert session in told  # in line or on stage: other tests' sessions may hold the slots
    key = f"gr:{{default}}:s:{session}"
    raw = greenroom("redis", "--data-dir", running.data_dir, "HGETALL", key, cwd=running.folder)
    fields = {name: value.strip() for name, _, value in _partitions(raw.stdout)}
    assert fields["state"] in {state.value for state in SessionState}
    assert fields["node"] in told
    wrong = greenroom("redis", "--data-dir", running.data_dir, "NONSENSE", cwd=running.folder)
    assert wrong.returncode == 2
    assert "unknown command" in wrong.stderr


def _partitions(printed: str) -> list[tuple[str, str, str]]:
    """Split each printed line into a field's name and its value, which may be empty."""
    return [line.partition(" ") for line in printed.splitlines()]


def test_the_audit_finds_the_embedded_servers(running: AllInOne) -> None:
    """Registry, keys of LiveKit and deployment are those of the data folder; nothing differs."""
    running.create("auditor")

    def audited() -> dict[str, object]:
        result = greenroom("audit", "--json", "--data-dir", running.data_dir, cwd=running.folder)
        assert result.returncode == 0, result.stdout + result.stderr
        told: dict[str, object] = json.loads(result.stdout)
        return told

    wait_until_sync(lambda: audited()["rooms"], "the session's room is listed", 15)


def test_livekit_tells_the_replica_what_happens_in_its_rooms(running: AllInOne) -> None:
    """Nobody has to set that up; its own signature is taken."""
    running.create("guest")

    def told() -> str:
        with urllib.request.urlopen(f"{running.url}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    looked = re.compile(r'greenroom_webhooks_total\{outcome="looked"\} [1-9]')
    wait_until_sync(lambda: looked.search(told()), "it is told something", 15)
    assert 'greenroom_webhooks_total{outcome="refused"} 0.0' in told()


def test_a_data_folder_in_use_is_refused(running: AllInOne) -> None:
    """A second all-in-one on the same folder would write the same files."""
    second = greenroom(
        "stream-serve", "--port", "0", "--data-dir", running.data_dir, cwd=running.folder
    )
    assert second.returncode == 2
    assert f"in use by process {running.process.pid}" in second.stderr
    assert "Try: " in second.stderr


@pytest.mark.parametrize("name", ["replica", "livekit", "valkey"])
def test_a_killed_child_comes_back_under_the_same_address(running: AllInOne, name: str) -> None:
    """The others don't have to start again, and sessions can be created as before."""
    others = {other: running.pid(other) for other in NAMES if other != name}
    before = running.kill(name)
    wait_until_sync(lambda: running.pid(name) not in {None, before}, f"{name} runs again", 20)
    wait_until_sync(running.is_usable, f"all is usable after {name} was killed", 40)
    assert {other: running.pid(other) for other in others} == others
    running.create(f"after-{name}")


def test_a_killed_node_registers_again(running: AllInOne) -> None:
    """Its new process waits for the end of the old lease, then serves under the same name."""
    lives = running.output.count("node_registered")
    before = running.kill("node")
    wait_until_sync(lambda: running.pid("node") not in {None, before}, "the node runs again", 20)
    wait_until_sync(
        lambda: running.output.count("node_registered") > lives, "it has registered", 40
    )
    wait_until_sync(running.is_usable, "sessions can be served", 20)


def test_sessions_outlive_a_crash_of_the_embedded_redis(running: AllInOne) -> None:
    """What was acknowledged is there when the server is back."""
    session = str(running.create("survivor")["session_id"])
    before = running.kill("valkey")
    wait_until_sync(lambda: running.pid("valkey") not in {None, before}, "it runs again", 20)
    wait_until_sync(running.is_usable, "all is usable", 40)
    assert running.look(session)["session_id"] == session


def test_ctrl_c_ends_everything_and_a_second_start_finds_its_folder(tmp_path: Path) -> None:
    """Nothing is left after Ctrl-C; the next start has the same names, keys and ports."""
    with all_in_one(tmp_path) as first:
        names = {
            name: (first.data_dir / name).read_text()
            for name in ("deployment-id", "node-id", "livekit/secret", "valkey/ports.json")
        }
        assert first.end(signal.SIGINT) == 0, first.output
        assert first.processes() == []
    with all_in_one(tmp_path) as second:
        assert {name: (second.data_dir / name).read_text() for name in names} == names
        assert second.end(signal.SIGTERM) == 0, second.output
        assert second.processes() == []


def test_kill_minus_nine_leaves_no_child(tmp_path: Path) -> None:
    """Whatever ends the command, none of its processes is left after 5 s."""
    with all_in_one(tmp_path) as stack:
        assert len(stack.processes()) >= len(NAMES)
        stack.process.kill()
        stack.process.wait()
        wait_until_sync(lambda: not stack.processes(), "no process is left", 5)


def test_a_killed_command_can_be_started_again(tmp_path: Path) -> None:
    """Nothing that a crash leaves in the data folder keeps the next start from working."""
    with all_in_one(tmp_path) as stack:
        stack.process.kill()
    with all_in_one(tmp_path) as again:
        assert again.is_usable()
