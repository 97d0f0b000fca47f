"""What does a script's header promise?

Read from the file, as a person reads it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import shared.store

LUA = Path(shared.store.__file__).parent / "lua"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The comment block above a script's first statement."""

    shebang: str
    purpose: str
    fields: dict[str, str]

    def words(self, name: str) -> tuple[str, ...]:
        """Return a comma-separated field as words."""
        return tuple(word.strip() for word in self.fields[name].split(",") if word.strip())


@cache
def header(script: str) -> Header:
    """Read the header of one script."""
    shebang, *lines = (LUA / f"{script}.lua").read_text().splitlines()
    comments = []
    for line in lines:
        if not line.startswith("--"):
            break
        comments.append(line.removeprefix("--").strip())
    named = (re.fullmatch(r"([A-Za-z]+): (.+)", line) for line in comments)
    return Header(
        shebang=shebang, purpose=comments[0], fields={m[1]: m[2] for m in named if m is not None}
    )
