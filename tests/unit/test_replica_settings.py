"""What an operator may set for a replica, and what follows from it."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from control_plane.settings import ReplicaSettings
from shared.errors import StartupError
from shared.records import SessionLimits
from shared.settings import load


def settings(**options: object) -> ReplicaSettings:
    """Return settings with LiveKit named and nothing else set."""
    known: dict[str, object] = {
        "livekit_url": "ws://127.0.0.1:7880",
        "livekit_api_key": "key",
        "livekit_api_secret": "secret",
        "deployment_id": "test",
    }
    return ReplicaSettings.model_validate(known | options)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
def test_loopback_is_recognised(host: str) -> None:
    """Whatever only this machine can reach."""
    assert settings(host=host).on_loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "stage.example", ""])
def test_anything_else_is_not_loopback(host: str) -> None:
    """Whatever others can reach, or may."""
    assert not settings(host=host).on_loopback


def test_the_session_secret_follows_from_livekits() -> None:
    """All replicas with the same LiveKit secret agree without a further setting."""
    one, two = settings(), settings(port=9000)
    other = settings(livekit_api_secret="another")

    assert one.session_secret == two.session_secret
    assert one.session_secret != other.session_secret
    assert "secret" not in one.session_secret.get_secret_value()


def test_the_session_secret_may_be_given() -> None:
    """Then it outlives a change of LiveKit's keys."""
    assert settings(session_secret="mine").session_secret == SecretStr("mine")


def test_limits_take_the_operators_timeouts() -> None:
    """What is frozen into each session; a waiting client may be silent for a minute."""
    limits = settings(session_timeout_s=100, controller_timeout_s=20, room_empty_timeout_s=0).limits

    assert limits == SessionLimits(session_s=100, controller_s=20, room_empty_s=0, queued_s=60)
    quick = settings(
        assigned_timeout_s=1, joining_timeout_s=2, starting_timeout_s=3, draining_timeout_s=4
    ).limits
    assert (quick.assigned_s, quick.joining_s) == (1, 2)
    assert (quick.starting_s, quick.draining_s) == (3, 4)
    assert settings(queue_lease_s=0).limits.queued_s == 0


def test_one_identity_may_have_any_number_of_sessions_unless_said_otherwise() -> None:
    """Both limits are off at first."""
    assert not settings().identity_limits.are_set
    limits = settings(max_waiting_per_identity=2, max_active_per_identity=3).identity_limits
    assert (limits.waiting, limits.active) == (2, 3)


def test_compatible_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of the API that we follow, with ours and flags in front of them."""
    for name, value in {
        "URL": "ws://livekit:7880",
        "API_KEY": "key",
        "API_SECRET": "secret",
        "PORT": "9001",
        "QUEUE_SIZE": "7",
        "CORS_ALLOW_ORIGINS": "https://a.example, https://b.example",
    }.items():
        monkeypatch.setenv(f"TELEFUSER_LIVEKIT_{name}", value)
    monkeypatch.setenv("GREENROOM_QUEUE_SIZE", "8")

    loaded = load(ReplicaSettings, deployment_id="test", port=9002)

    assert (loaded.port, loaded.queue_size) == (9002, 8)
    assert loaded.allowed_origins == ("https://a.example", "https://b.example")


def test_all_missing_keys_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence with every option that is missing, and none that is there."""
    monkeypatch.setenv("GREENROOM_LIVEKIT_API_KEY", "key")

    with pytest.raises(StartupError) as mistake:
        load(ReplicaSettings, deployment_id="test")

    assert "--livekit-url" in str(mistake.value)
    assert "--livekit-api-secret" in str(mistake.value)
    assert "--livekit-api-key " not in str(mistake.value)


@pytest.mark.parametrize("options", [{"port": 70_000}, {"queue_size": -1}, {"queue_size": 20_000}])
def test_values_out_of_range_are_refused(options: dict[str, object]) -> None:
    """The sentence names the flag."""
    with pytest.raises(StartupError, match=r"--(port|queue-size)"):
        load(
            ReplicaSettings,
            livekit_url="ws://x",
            livekit_api_key="k",
            livekit_api_secret="s",
            deployment_id="test",
            **options,
        )
