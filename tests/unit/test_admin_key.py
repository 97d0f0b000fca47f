"""Is a replica closed? Settings and data folder decide, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.admin_key import AdminKey, admin_key_of, made_key_text
from control_plane.settings import ReplicaSettings
from shared.access_keys import id_of
from shared.errors import StartupError

KEY = "chosen-by-an-operator-of-ours"
EVERYWHERE = "0.0.0.0"


def settings(data_dir: Path, **options: object) -> ReplicaSettings:
    """Return settings with a data folder."""
    known: dict[str, object] = {
        "livekit_url": "ws://127.0.0.1:7880",
        "livekit_api_key": "key",
        "livekit_api_secret": "secret",
        "deployment_id": "test",
        "data_dir": data_dir,
    }
    return ReplicaSettings.model_validate(known | options)


def test_on_this_machine_alone_nobody_needs_a_key(tmp_path: Path) -> None:
    """And none is made."""
    assert admin_key_of(settings(tmp_path)) is None
    assert list(tmp_path.iterdir()) == []


def test_elsewhere_a_key_is_made_once_and_kept(tmp_path: Path) -> None:
    """Readable for its owner alone; the next start says nothing of it any more."""
    made = admin_key_of(settings(tmp_path, host=EVERYWHERE))
    assert made is not None
    assert (made.is_new, id_of(made.value)) == (True, "admin")
    assert made.value in made_key_text(made)
    assert made.value not in repr(made)
    file = tmp_path / "admin-key"
    assert file.read_text().strip() == made.value
    assert file.stat().st_mode & 0o077 == 0
    again = admin_key_of(settings(tmp_path, host=EVERYWHERE))
    assert again == AdminKey(value=made.value, file=file, is_new=False)


def test_what_was_closed_stays_closed_on_this_machine_alone(tmp_path: Path) -> None:
    """A proxy may stand in front of it now."""
    made = admin_key_of(settings(tmp_path, host=EVERYWHERE))
    kept = admin_key_of(settings(tmp_path))
    assert made is not None
    assert kept is not None
    assert kept.value == made.value


@pytest.mark.parametrize("host", ["127.0.0.1", EVERYWHERE])
def test_a_key_of_the_settings_closes_anywhere(tmp_path: Path, host: str) -> None:
    """Nothing is written then."""
    assert admin_key_of(settings(tmp_path, host=host, admin_key=KEY)) == AdminKey(value=KEY)
    assert list(tmp_path.iterdir()) == []


def test_no_auth_is_said_aloud_and_alone(tmp_path: Path) -> None:
    """It opens what was closed; together with a key it is refused."""
    admin_key_of(settings(tmp_path, host=EVERYWHERE))
    assert admin_key_of(settings(tmp_path, host=EVERYWHERE, no_auth=True)) is None
    with pytest.raises(ValueError, match="contradict"):
        settings(tmp_path, no_auth=True, admin_key=KEY)


@pytest.mark.parametrize("key", ["short", "a key of several words, which is long", "ä" * 30])
def test_a_key_that_is_easily_guessed_or_mangled_is_refused(tmp_path: Path, key: str) -> None:
    """Without being repeated."""
    with pytest.raises(ValueError, match="at least 24") as told:
        settings(tmp_path, admin_key=key)
    assert key not in str(told.value)


@pytest.mark.parametrize("content", ["", "\n", "grk_admin_"])
def test_a_kept_key_that_was_cut_short_stops_the_start(tmp_path: Path, content: str) -> None:
    """It must neither open the replica nor be guessed."""
    (tmp_path / "admin-key").write_text(content)
    for host in ("127.0.0.1", EVERYWHERE):
        with pytest.raises(StartupError, match="cut short") as told:
            admin_key_of(settings(tmp_path, host=host))
        way_out = told.value.try_ or ""
        assert way_out.startswith("give a key with --admin-key;")
        assert "a replica on loopback is open" in way_out  # what to delete the file leads to
        assert admin_key_of(settings(tmp_path, host=host, admin_key=KEY)) == AdminKey(value=KEY)


def test_a_folder_that_can_t_be_seen_is_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Perhaps there is a key in it."""

    def denied(_self: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "lstat", denied)
    with pytest.raises(StartupError, match="can't be read"):
        admin_key_of(settings(tmp_path))
