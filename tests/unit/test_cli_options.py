"""Do the command's flags and the processes' settings agree?"""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from control_plane.cli.main import app
from control_plane.cli.options import NODE_FLAGS, default_text, flags_of
from control_plane.cli.registry_tour import reply_lines
from control_plane.cli.settings import StackSettings
from gpu_node.settings import NodeSettings
from shared.errors import StartupError
from shared.settings import SharedSettings, load


def test_the_flags_of_a_node_are_the_fields_of_its_settings() -> None:
    """The list stands in the other plane, so it is compared: names, help, types, defaults."""
    own = [
        flag
        for flag in flags_of(NodeSettings)
        if flag.field not in SharedSettings.model_fields and flag.field != "pipe_path"
    ]
    assert list(NODE_FLAGS) == own


@pytest.mark.parametrize("command", ["stream-serve", "api", "node", "redis"])
def test_the_help_names_flag_variable_and_default(command: str) -> None:
    """Help is complete without a look into the documents."""
    told = CliRunner().invoke(app, [command, "--help"]).output
    words = " ".join(told.split())
    assert "--redis-url" in words
    assert "[GREENROOM_REDIS_URL; default: redis://127.0.0.1:6379/0]" in words


def test_a_wrong_number_is_one_line_and_status_two() -> None:
    """What isn't a number at all is refused before a process starts."""
    result = CliRunner().invoke(app, ["api", "--port", "many"])
    assert result.exit_code == 2
    assert "Invalid value for '--port'" in result.output


def test_keys_without_a_server_are_refused() -> None:
    """The embedded LiveKit makes its own keys, so given ones belong to a server that is missing."""
    with pytest.raises(StartupError, match="--livekit-url, which is missing"):
        load(StackSettings, livekit_api_key="k", livekit_api_secret="s")


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (False, "off"), (1800.0, "1800"), (0.5, "0.5"), ("a", "a")]
)
def test_defaults_read_well(value: object, text: str) -> None:
    """A default is shown as one would type it."""
    assert default_text(value) == text


@pytest.mark.parametrize(
    ("reply", "lines"),
    [
        ({"state": "running", "ep": "3"}, ["state  running", "ep     3"]),
        (["a", ["b", "c"]], ["1) a", "2)", "   1) b", "   2) c"]),
        ([], ["(empty)"]),
        ({}, ["(empty)"]),
        (None, ["(nothing)"]),
        (4, ["4"]),
    ],
)
def test_a_raw_reply_reads_well(reply: object, lines: list[str]) -> None:
    """Fields stand beside their values, lists are numbered, nothing is said where nothing is."""
    assert list(reply_lines(reply)) == lines
