"""A service file is judged by what its code does, not by the words in it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from gpu_node.services.loader import DEMO_WORLD
from gpu_node.services.validation import LIMIT_BYTES, Level, judge, look_at, validated
from shared.errors import ServiceLoadFailed

ENTRY = "\ndef get_service(): return None\n"


def written(folder: Path, text: str | bytes) -> Path:
    """A service file."""
    path = folder / "my_world.py"
    path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
    return path


def refused(folder: Path, text: str, level: Level = Level.BASIC) -> list[str]:
    """Why a file with this text and an entry isn't loaded."""
    judged = judge(written(folder, textwrap.dedent(text) + ENTRY), level)
    return [finding.told for finding in judged.refused]


@pytest.mark.parametrize(
    "text",
    [
        "model = build(); model.eval()",
        "import torch\nnet = torch.compile(net)",
        "import re\npattern = re.compile('a')",
        "help = 'never eval( or exec( or import subprocess'",
        "# os.system('ls')\n'''exec(code)'''",
        "frame.exec(1); frame.compile()",
        "def compile(graph): return graph\ncompile(1)",
        "class M:\n    def eval(self): return self\nM().eval()",
        "import asyncio, base64, time, uuid, sys, os, argparse, click, pathlib, numpy",
        "import os\nos.makedirs('x'); os.environ.get('y'); os.path.join('a')",
        "open('weights.json'); open('weights.bin', 'rb')",
        "import torch\ntorch.load('w.pt', weights_only=True)",
        "import time\ndef start(self): time.sleep(1)",
        "if __name__ == '__main__':\n    import subprocess, sys\n    sys.exit(subprocess.run('x'))",
        "from shapes import *",
        "try:\n    import av\nexcept ImportError:\n    av = None",
    ],
)
def test_what_only_looks_bad_is_fine(tmp_path: Path, text: str) -> None:
    """Even at the strictest level: a method, a text, a comment, one's own function."""
    assert refused(tmp_path, text, Level.STRICT) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\neval('1')", "line 2 calls eval(), which runs text as code"),
        ("exec('1')", "line 1 calls exec()"),
        ("exec(compile('1', 'f', 'exec'))", "line 1 calls compile()"),
        ("__import__('os')", "line 1 calls __import__()"),
        ("import builtins\nbuiltins.eval('1')", "line 2 calls eval()"),
        ("import subprocess", "line 1 imports subprocess, which starts another program"),
        ("def start():\n    from subprocess import run", "line 2 imports subprocess"),
        ("import ctypes.util", "line 1 imports ctypes.util, which can crash the node"),
        ("import socket", "line 1 imports socket"),
        ("import os\nos.system('ls')", "line 2 calls os.system()"),
        ("import os as o\no.popen('ls')", "line 2 calls os.popen()"),
        ("from os import system as run\nrun('ls')", "line 2 calls os.system()"),
        ("import os\nos.execvp('ls', [])", "line 2 calls os.execvp()"),
    ],
)
def test_what_is_hardly_ever_meant_is_refused(tmp_path: Path, text: str, told: str) -> None:
    """With its line, under whatever name it was imported."""
    assert any(finding.startswith(told) for finding in refused(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import requests", "line 1 imports requests, which reaches out of the node"),
        ("import os\nos._exit(1)", "line 2 calls os._exit(), which ends the node"),
        ("import sys\nsys.exit()", "line 2 calls sys.exit()"),
        ("import pickle\npickle.load(f)", "line 2 calls pickle.load()"),
        ("import torch\ntorch.load('w.pt')", "line 2 calls torch.load() without weights_only=True"),
        ("open('log.txt', mode='a')", "line 1 opens a file for writing"),
        ("import importlib\nimportlib.import_module(x)", "line 2 calls importlib.import_module()"),
        (
            "import time\nasync def pull(): time.sleep(1)",
            "line 2 calls time.sleep() in a coroutine, which stops all sessions meanwhile; await",
        ),
    ],
)
def test_what_is_doubtful_is_said_and_refused_only_when_strict(
    tmp_path: Path, text: str, told: str
) -> None:
    """The basic level loads it with a remark."""
    assert refused(tmp_path, text) == []
    assert [finding[: len(told)] for finding in refused(tmp_path, text, Level.STRICT)] == [told]
    (remark,) = validated(tmp_path / "my_world.py", Level.BASIC)
    assert remark.told.startswith(told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1", "it has no function get_service()"),
        ("async def get_service(): pass", "line 1 defines get_service() with async"),
        ("def get_service(weights, *, fast, gpu_num=1): pass", "get_service() with weights, fast,"),
        (
            """
            class World:
                async def create_session(self, config): pass
                async def pull_chunks(self, session_id): yield {}
            def get_service(): pass
            """,
            "line 3 defines create_session() with async, so a call would do nothing",
        ),
        (
            """
            class World:
                def create_session(self, config): pass
                def pull_chunks(self, session_id): yield {}
            get_service = World
            """,
            "line 4 defines pull_chunks() without async; its chunks are awaited",
        ),
        (
            """
            class World:
                def create_session(self, config): pass
                async def pull_chunks(self, session_id): return []
            get_service = World
            """,
            "line 4 defines pull_chunks() with async and without yield",
        ),
        (
            """
            class Film:
                def start(self): pass
                def serve(self, request): yield {}
            get_service = Film
            """,
            "line 4 defines serve() without async",
        ),
    ],
)
def test_slips_against_the_contract_are_found_before_anything_is_loaded(
    tmp_path: Path, text: str, told: str
) -> None:
    """They would show at the first session only."""
    assert any(told in finding.told for finding in look_at(written(tmp_path, text)))


@pytest.mark.parametrize(
    "text",
    [
        "get_service = lambda: None",
        "from shapes import make as get_service",
        "try:\n    from fast import get_service\nexcept ImportError:\n    get_service = None",
        "def get_service(gpu_num, gpu_ids=None, **rest): pass",
        "class A:\n    def create_session(self): pass\n    def pull_chunks(self): return self.x()"
        + ENTRY,
        "class A:\n    def start(self): pass\n    async def serve(self, r): return self.x(r)"
        + ENTRY,
    ],
)
def test_every_way_to_keep_the_contract_is_fine(tmp_path: Path, text: str) -> None:
    """The text alone can't tell all, so what it doesn't tell is left to the loading."""
    assert look_at(written(tmp_path, text)) == ()


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"#" * (LIMIT_BYTES + 1), "it has 1.0 MB, 1 MB is the limit"),
        (b"x = 1\ny = '\xff'", "line 2 isn't UTF-8"),
        (b"x = 1\ndef broken(:", "line 2 isn't Python"),
        (b"x = \0", "null bytes"),
        (b"x = " + b"(" * 500 + b")" * 500, ""),
    ],
)
def test_a_file_that_cant_be_read_as_python_is_refused(
    tmp_path: Path, raw: bytes, told: str
) -> None:
    """Whatever it's made of, one sentence comes back."""
    (finding,) = look_at(written(tmp_path, raw))
    assert told in finding.told
    assert finding.refused_by_basic


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    """Python takes it, so do we."""
    assert look_at(written(tmp_path, b"\xef\xbb\xbf" + ENTRY.encode())) == ()


def test_a_refusal_is_one_sentence_with_the_way_out(tmp_path: Path) -> None:
    """However much was found."""
    path = written(tmp_path, "eval('1')\n" * 9 + ENTRY)
    with pytest.raises(ServiceLoadFailed) as caught:
        validated(path, Level.BASIC)
    text = str(caught.value)
    assert text.startswith(
        "my_world.py isn't loaded: line 1 calls eval(), which runs text as code;"
    )
    assert text.endswith(
        "and 4 more. If it is meant as it stands, --skip-validation loads it all the same."
    )
    assert "\n" not in text
    assert validated(path, Level.NONE) == ()


@pytest.mark.parametrize("raw", [b"def broken(:", b"x = \0"])
def test_no_flag_is_offered_that_can_t_help(tmp_path: Path, raw: bytes) -> None:
    """What Python can't run isn't loaded by leaving the look out."""
    with pytest.raises(ServiceLoadFailed) as caught:
        validated(written(tmp_path, raw), Level.BASIC)
    assert "--skip-validation" not in str(caught.value)


def test_our_own_services_pass_the_strictest_level() -> None:
    """The demo world, and whatever else is shipped."""
    for path in DEMO_WORLD.parent.glob("*.py"):
        if "def get_service" in path.read_text():
            assert judge(path, Level.STRICT).refused == (), path.name
