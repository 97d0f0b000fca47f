"""What is a mutant, and where is it planted?

One rule of the scripts taken away or turned round, by replacing one exact piece of one Lua file. A
piece that isn't found exactly once is a mistake of this table: the script has changed, and so must
the mutant.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LUA = Path("shared/store/lua")


class MutantMisfit(ValueError):
    """The piece that a mutant replaces isn't there, or is there more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One wrong version of one script or of a piece that scripts share."""

    name: str
    """What it does wrong, in a few words."""
    file: str
    """Below `LUA`, without the ending."""
    piece: str
    instead: str
    harm: str
    """What users or operators would suffer, in one sentence."""

    @property
    def path(self) -> Path:
        """Return its file, relative to the root."""
        return LUA / f"{self.file}.lua"

    def plant(self, text: str) -> str:
        """Return the mutated text of its file.

        Raises:
            MutantMisfit: The piece isn't in *text* exactly once.
        """
        found = text.count(self.piece)
        if found != 1:
            raise MutantMisfit(f"{self.name}: its piece is {found} times in {self.path}, not once")
        return text.replace(self.piece, self.instead)
