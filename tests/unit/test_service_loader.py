"""A pipeline file is loaded once, by its own rules, or refused with one clear sentence."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_node.services.loader import find_service_file, load, module_name_of
from gpu_node.services.server_push import ServerPushAdapter
from shared.errors import ServiceLoadFailed, StartupError

GOOD = """
    class World:
        def __init__(self, **arguments): self.arguments = arguments
        def start(self): pass
        def stop(self): pass
        def create_session(self, config): return "one"
        def push_chunk(self, session_id, chunk): pass
        async def pull_chunks(self, session_id): yield {"type": "done"}
        def close_session(self, session_id): pass
"""
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Put a service file into an empty folder."""

    def put(*parts: str) -> Path:
        path = tmp_path / "my_world.py"
        path.write_text("\n".join(textwrap.dedent(part) for part in parts))
        return path

    return put


def arguments_of(path: Path) -> object:
    """What ``get_service`` was called with."""
    loaded = load(path, gpu_num=2, gpu_ids=["0", "3"])
    loaded.unload()
    return loaded.service.arguments  # type: ignore[attr-defined]


def refusal_of(path: Path) -> str:
    """The sentence; nothing is left behind."""
    with pytest.raises(ServiceLoadFailed) as caught:
        load(path, gpu_num=1, gpu_ids=None)
    assert module_name_of(path) not in sys.modules
    return str(caught.value)


@pytest.mark.parametrize(
    ("signature", "given"),
    [
        ("", {}),
        ("gpu_num", {"gpu_num": 2}),
        ("gpu_num=1, gpu_ids=None", {"gpu_num": 2, "gpu_ids": ["0", "3"]}),
        ("gpu_ids, other=5", {"gpu_ids": ["0", "3"]}),
        ("**kwargs", {"gpu_num": 2, "gpu_ids": ["0", "3"]}),
    ],
)
def test_get_service_is_given_what_its_signature_asks_for(
    write: Write, signature: str, given: dict[str, object]
) -> None:
    """``gpu_num`` and ``gpu_ids`` only if it has such parameters."""
    body = f"""
        def get_service({signature}):
            known = dict(locals().get("kwargs", locals()))
            known.pop("other", None)
            return World(**known)
    """
    assert arguments_of(write(GOOD, body)) == given


def test_the_module_is_registered_under_its_own_name_until_unloaded(write: Write) -> None:
    """Dataclasses and pickles in the file look themselves up in ``sys.modules``."""
    body = """
        from __future__ import annotations
        import sys
        from dataclasses import dataclass

        @dataclass
        class Shape:
            width: int

        def get_service():
            assert sys.modules[__name__].Shape is Shape
            return World()
    """
    path = write(textwrap.dedent(body), GOOD)
    loaded = load(path, gpu_num=1, gpu_ids=None)
    assert loaded.module_name in sys.modules
    loaded.unload()
    assert loaded.module_name not in sys.modules


def test_a_late_unload_leaves_the_module_of_the_next_load(write: Write) -> None:
    """A service that failed may still be on its way out while the next attempt runs."""
    path = write(GOOD, "def get_service(): return World()")
    first = load(path, gpu_num=1, gpu_ids=None)
    second = load(path, gpu_num=1, gpu_ids=None)
    first.unload()
    assert sys.modules[second.module_name] is second.module
    second.unload()
    assert second.module_name not in sys.modules


def test_two_files_of_one_name_never_share_a_module(tmp_path: Path) -> None:
    """The name is made from the whole path."""
    assert module_name_of(tmp_path / "a" / "world.py") != module_name_of(
        tmp_path / "b" / "world.py"
    )


def test_a_missing_file_is_told_with_its_path(tmp_path: Path) -> None:
    """An operator's mistake, found before anything is imported."""
    with pytest.raises(StartupError, match=r"nowhere\.py doesn't exist"):
        find_service_file(tmp_path / "nowhere.py")
    with pytest.raises(StartupError, match="is a folder"):
        find_service_file(tmp_path)


def test_without_a_path_the_demo_world_is_served() -> None:
    """The default on a laptop."""
    assert find_service_file(None).name == "demo_world.py"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("x = 1", "my_world.py has no function get_service()"),
        ("get_service = 5", "has no function get_service()"),
        ("import no_such_module_at_all", "can't be imported: ModuleNotFoundError: No module named"),
        ("x = 1\nraise OSError('no weights')", "OSError: no weights (line 2)"),
        ("def broken(:", "can't be imported: SyntaxError"),
        ("import sys\nsys.exit(4)", "can't be imported: SystemExit: 4"),
        ("def get_service(): raise KeyError('w')", "get_service() in my_world.py failed: KeyError"),
        (
            "def get_service(a_must): return 1",
            "failed: TypeError: get_service() missing 1 required",
        ),
        (
            "def get_service(): return {}",
            "returned a dict, which is no model service: it lacks start",
        ),
        ("def get_service(): return None", "returned a NoneType"),
        ("async def get_service(): return 1", "returned a coroutine: it must be a plain function"),
        ("def get_service(): return World", "returned the class World itself"),
    ],
)
def test_a_file_that_breaks_the_contract_is_refused_in_one_sentence(
    write: Write, body: str, words: str
) -> None:
    """The sentence names the file, the step and the file's own words; no module is left behind."""
    text = refusal_of(write(body if "World" not in body else GOOD + "\n" + " " * 4 + body))
    assert words in text
    assert "\n" not in text


def test_a_service_that_lacks_one_method_is_told_which(write: Write) -> None:
    """Close to right is the common mistake."""
    body = "def get_service(): return World()"
    text = refusal_of(write(GOOD.replace("def push_chunk", "def push_chunks"), body))
    assert "returned a World, which is no model service: it lacks push_chunk." in text


FILM = """
    class Film:
        def start(self): pass
        def stop(self): pass
        async def serve(self, request): yield {"type": "done"}
"""


def test_server_push_is_recognised_and_given_the_other_shape(write: Write) -> None:
    """The mode is told as it is; bidirectional wins if a service has both."""
    loaded = load(write(FILM, "def get_service(): return Film()"), gpu_num=1, gpu_ids=None)
    loaded.unload()
    assert loaded.mode == "server_push"
    assert isinstance(loaded.service, ServerPushAdapter)
    both = "class Both(World, Film): pass\ndef get_service(): return Both()"
    loaded = load(write(GOOD, FILM, both), gpu_num=1, gpu_ids=None)
    loaded.unload()
    assert loaded.mode == "bidirectional"
    assert not isinstance(loaded.service, ServerPushAdapter)


def test_a_film_that_lacks_a_method_is_told_which(write: Write) -> None:
    """Not those of the other protocol."""
    text = refusal_of(
        write(FILM.replace("def stop", "def end"), "def get_service(): return Film()")
    )
    assert "it lacks stop." in text
