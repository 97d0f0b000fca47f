"""Where does an option's value come from, and how is a mistake told?"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from control_plane.settings import ReplicaSettings
from gpu_node.settings import NodeSettings
from shared.errors import StartupError
from shared.settings import (
    SharedSettings,
    child_environment,
    flag_of,
    kept,
    load,
    variable_of,
)

KEYS = {"livekit_url": "ws://sfu", "livekit_api_key": "k", "livekit_api_secret": "very-secret"}


@pytest.fixture(autouse=True)
def _no_settings_of_the_person_who_runs_this(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in child_environment({}):
        if name.startswith(("GREENROOM_", "TELEFUSER_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GREENROOM_DATA_DIR", str(tmp_path / "data"))


def test_a_flag_wins_over_the_environment_and_that_over_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The order is flag, our variable, the compatible variable, default."""
    assert load(ReplicaSettings, **KEYS).queue_size == 0
    monkeypatch.setenv("TELEFUSER_LIVEKIT_QUEUE_SIZE", "3")
    assert load(ReplicaSettings, **KEYS).queue_size == 3
    monkeypatch.setenv("GREENROOM_QUEUE_SIZE", "5")
    assert load(ReplicaSettings, **KEYS).queue_size == 5
    assert load(ReplicaSettings, queue_size=7, **KEYS).queue_size == 7


@pytest.mark.parametrize(
    ("variable", "value", "settings", "field", "expected"),
    [
        ("URL", "ws://other", SharedSettings, "livekit_url", "ws://other"),
        ("API_KEY", "key", SharedSettings, "livekit_api_key", "key"),
        ("TOKEN_TTL", "60", SharedSettings, "token_ttl_s", 60),
        ("SESSION_TIMEOUT", "9", SharedSettings, "session_timeout_s", 9),
        ("CONTROLLER_TIMEOUT", "8", SharedSettings, "controller_timeout_s", 8),
        ("ROOM_EMPTY_TIMEOUT", "7", SharedSettings, "room_empty_timeout_s", 7),
        ("HOST", "127.0.0.2", ReplicaSettings, "host", "127.0.0.2"),
        ("PORT", "9000", ReplicaSettings, "port", 9000),
        ("CORS_ALLOW_ORIGINS", "https://a.example", ReplicaSettings, "cors_origins", None),
        ("MAX_SESSIONS_PER_WORKER", "2", NodeSettings, "max_sessions_per_worker", 2),
        ("CONTROL_IDLE_TIMEOUT", "4", NodeSettings, "control_idle_timeout_s", 4),
        ("DEFAULT_FPS", "24", NodeSettings, "default_fps", 24),
        ("MAX_DATA_MESSAGE_BYTES", "2048", NodeSettings, "max_data_message_bytes", 2048),
    ],
)
def test_each_compatible_variable_fills_its_field(
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    settings: type[SharedSettings],
    field: str,
    expected: object,
) -> None:
    """A deployment that sets ``TELEFUSER_LIVEKIT_*`` needs no change."""
    monkeypatch.setenv(f"TELEFUSER_LIVEKIT_{variable}", value)
    given = {name: v for name, v in KEYS.items() if name != field}
    assert getattr(load(settings, **given), field) == (value if expected is None else expected)


def test_all_missing_keys_are_listed_at_once() -> None:
    """Nobody has to start three times to learn of three missing keys."""
    with pytest.raises(StartupError) as refused:
        load(SharedSettings)
    for name in KEYS:
        assert flag_of(name) in str(refused.value)
        assert variable_of(name) in str(refused.value)


def test_several_mistakes_are_one_sentence_without_values() -> None:
    """Each problem names flag and variable; the value may be a secret and isn't repeated."""
    with pytest.raises(StartupError) as refused:
        load(ReplicaSettings, **KEYS, queue_size=-1, redis_url="hunter2")
    text = str(refused.value)
    assert "--queue-size (GREENROOM_QUEUE_SIZE)" in text
    assert "--redis-url (GREENROOM_REDIS_URL)" in text
    assert "hunter2" not in text
    assert "default factory" not in text
    assert "\n" not in text


def test_secrets_do_not_print() -> None:
    """Neither the LiveKit secret nor a password in the Redis URL appears in a log or a trace."""
    settings = load(ReplicaSettings, **KEYS, redis_url="redis://:hunter2@127.0.0.1/0")
    for text in (repr(settings), str(settings)):
        assert "very-secret" not in text
        assert "hunter2" not in text
        assert settings.session_secret.get_secret_value() not in text


def test_browsers_get_the_public_url_or_the_only_one() -> None:
    """Without a public URL clients get what servers use."""
    assert load(SharedSettings, **KEYS).livekit_public_url == "ws://sfu"
    public = load(SharedSettings, **KEYS, livekit_public_url="wss://play.example")
    assert public.livekit_public_url == "wss://play.example"


def test_a_replica_takes_several_pools_and_a_node_one() -> None:
    """Pools are separated by commas; a node that names two is told so."""
    assert load(ReplicaSettings, **KEYS, pool="a, b,a").pools == ("a", "b")
    with pytest.raises(StartupError, match="--pool"):
        load(NodeSettings, **KEYS, pool="a,b")
    with pytest.raises(StartupError, match="'Ä' is no valid pool"):
        load(SharedSettings, **KEYS, pool="Ä")


def test_settings_are_frozen() -> None:
    """Nobody changes a setting of a running process."""
    settings = load(SharedSettings, **KEYS)
    with pytest.raises(ValueError, match="frozen"):
        settings.pool = "other"


def test_replicas_agree_on_the_session_secret() -> None:
    """It is derived from the LiveKit secret, so all replicas have the same without being told."""
    one, other = load(ReplicaSettings, **KEYS), load(ReplicaSettings, **KEYS)
    assert one.session_secret == other.session_secret
    changed = {**KEYS, "livekit_api_secret": "another"}
    assert load(ReplicaSettings, **changed).session_secret != one.session_secret


def test_the_beat_must_fit_into_the_lease_and_both_fields_are_named() -> None:
    """A rule between two fields names both of them."""
    with pytest.raises(StartupError, match=r"--beat-interval .*--node-ttl"):
        load(NodeSettings, **KEYS, beat_interval_s=9, node_ttl_s=10)
    with pytest.raises(StartupError, match=r"1 s before the end \(--silence-margin"):
        load(NodeSettings, **KEYS, beat_interval_s=2, node_ttl_s=3, silence_margin_s=1)


def test_a_kept_name_is_made_once(tmp_path: Path) -> None:
    """Many processes that start together agree on one value."""
    barrier = threading.Barrier(8)
    values: list[str] = []

    def start(number: int) -> None:
        barrier.wait()
        values.append(kept(tmp_path / "new", "name", lambda: f"made-by-{number}"))

    threads = [threading.Thread(target=start, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(values)) == 1
    assert [entry.name for entry in (tmp_path / "new").iterdir()] == ["name"]
    assert (tmp_path / "new" / "name").stat().st_mode & 0o777 == 0o600


def test_a_data_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """The sentence names the folder and the flag that names another one."""
    file = tmp_path / "a-file"
    file.touch()
    with pytest.raises(StartupError, match="can't be used") as refused:
        kept(file / "below", "name", lambda: "x")
    assert "--data-dir" in str(refused.value.try_)


@pytest.mark.parametrize("name", ["deployment-id", "node-id"])
def test_a_kept_file_that_is_no_text_is_told(tmp_path: Path, name: str) -> None:
    """A disk or a person wrote over it; the sentence names the file."""
    (tmp_path / name).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StartupError, match=rf"{name} holds something else") as refused:
        load(NodeSettings, **KEYS, data_dir=tmp_path)
    assert "delete it" in str(refused.value.try_)


@pytest.mark.parametrize("content", ["A B", "", "x" * 49])
def test_a_kept_node_id_that_cannot_be_one_is_told(tmp_path: Path, content: str) -> None:
    """As one that is given; the registry would meet it in its keys."""
    (tmp_path / "node-id").write_text(content)
    with pytest.raises(StartupError, match=r"node-id keeps no valid name: .* no valid node id"):
        load(NodeSettings, **KEYS, data_dir=tmp_path)
