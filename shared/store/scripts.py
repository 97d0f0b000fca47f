"""How is a Lua file loaded, called and its reply decoded?

A script is one file in ``lua/``. Its header is its contract and the loader reads it:

- the first line is ``#!lua`` with its flags;
- ``-- ARGV: a, b, c`` names the arguments: callers pass them by name, and the loader writes the
  ``local a, b, c = ...`` line, so nobody counts ``ARGV`` by hand;
- ``-- Replies: word, word`` lists the status words; any other first element raises;
- ``-- Include: core, dispatch`` names files of ``lua/include/`` that are put in front;
  ``-- Then include: ending`` further down names those that are put there, for a script that has
  often answered before it needs them; the tables of states come with the last of these lines.

The tables of ``shared/states.py``, the bounds of ``shared/durations.py`` and the schema of
``keys.py`` are written in front too: Lua holds no second copy of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shared.durations import BOUNDS
from shared.states import ENDED_AS, SESSION_MOVES, Reason, SessionState, sources_of
from shared.store.keys import SCHEMA

_LUA = Path(__file__).parent / "lua"
_HEADER = re.compile(r"^-- (ARGV|Replies|Include): *(.*)$", re.MULTILINE)
_THEN = re.compile(r"^-- Then include: *(.*)$", re.MULTILINE)

Argument = str | int | bytes
Reply = list[object]


class UnknownReply(RuntimeError):
    """A script answered with a word that its header doesn't list: a programming error."""

    def __init__(self, *, script: str, word: str) -> None:
        super().__init__(f"Script {script} replied {word!r}, which its header doesn't list.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One loaded script: its whole source, its digest and its contract."""

    name: str
    source: str
    digest: str
    argv: tuple[str, ...]
    replies: frozenset[str]

    def arguments(self, named: Mapping[str, Argument]) -> list[bytes]:
        """Return *named* in the order of the header; a missing or surplus name raises `KeyError`.

        ``now_ms`` is filled in as 0 (the server's clock) unless a test names it.
        """
        values = {"now_ms": 0, **named}
        if len(values) > len(self.argv):  # fewer or others are found out by the next line
            raise KeyError(f"{self.name} takes no {sorted(values.keys() - set(self.argv))}")
        return [_encode(values[name]) for name in self.argv]

    def check(self, reply: object) -> tuple[str, Reply]:
        """Split a reply into its status word and its fields, all decoded to text."""
        fields = _decode(reply)
        if not isinstance(fields, list):
            raise UnknownReply(script=self.name, word=str(fields))
        word = str(fields[0])
        if word not in self.replies:
            raise UnknownReply(script=self.name, word=word)
        return word, fields[1:]


def _encode(value: Argument) -> bytes:
    if isinstance(value, str):
        return value.encode(errors="replace")  # a service's own words may hold half a character
    return value if isinstance(value, bytes) else b"%d" % value


def _decode(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list | tuple):
        return [_decode(item) for item in value]
    return value


def _lua_table(values: Mapping[Reason, SessionState]) -> str:
    return "{" + ", ".join(f"{key}='{value}'" for key, value in values.items()) + "}"


def _tables() -> str:
    """Write as Lua: how a reason ends, who may move where, the bounds that durations fall under."""
    moves = ", ".join(
        f"{target}={{" + ", ".join(f"{s}=true" for s in sources_of(SESSION_MOVES, target)) + "}"
        for target in SessionState
    )
    bounds = ", ".join(f"{{'{name}', {limit_ms}}}" for name, limit_ms in BOUNDS)
    return (
        f"local ENDED_AS = {_lua_table(ENDED_AS)}\nlocal MAY_BECOME = {{{moves}}}\n"
        f"local DURATION_BOUNDS_MS = {{{bounds}}}\n"
    )


@cache
def load(name: str, folder: Path = _LUA) -> Script:
    """Read, expand and return script *name*; the same object each time.

    Tests name the *folder* of an earlier release.
    """
    text = (folder / f"{name}.lua").read_text(encoding="utf-8")
    shebang, body = text.split("\n", 1)
    header = dict(_HEADER.findall(text))
    argv = _words(header["ARGV"])
    locals_ = f"local {', '.join(argv)} = {', '.join(f'ARGV[{i + 1}]' for i in range(len(argv)))}\n"
    locals_ += f"local SCHEMA = {SCHEMA}\n"
    first, (body, has_more) = _pieces(folder, header["Include"]), _with_later_pieces(folder, body)
    source = "\n".join([shebang, ("" if has_more else _tables()) + locals_, first, body])
    return Script(
        name=name,
        source=source,
        digest=hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest(),
        argv=argv,
        replies=frozenset(_words(header["Replies"])),
    )


def _pieces(folder: Path, names: str) -> str:
    """Return the texts of some files of ``include/``, one after the other."""
    paths = (folder / "include" / f"{name}.lua" for name in _words(names))
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def _with_later_pieces(folder: Path, body: str) -> tuple[str, bool]:
    """Put the tables and pieces that a script needs further down in their place, if any."""
    found = list(_THEN.finditer(body))
    for place in reversed(found):
        later = (_tables() if place is found[-1] else "") + _pieces(folder, place[1])
        body = f"{body[: place.start()]}{later}{body[place.end() :]}"
    return body, bool(found)


def _words(line: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in line.split(",") if word.strip())


def all_names() -> tuple[str, ...]:
    """Return the names of all scripts, sorted."""
    return tuple(sorted(path.stem for path in _LUA.glob("*.lua")))


def expanded_scripts() -> dict[str, str]:
    """Return every script as Redis gets it; luacheck and the cluster check read these."""
    return {name: load(name).source for name in all_names()}
