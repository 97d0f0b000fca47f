"""Are the mutants of the scripts still about scripts that exist?"""

from __future__ import annotations

from collections import Counter

import pytest

from scripts.mutation.__main__ import misfits_among
from scripts.mutation.mutant import Mutant, MutantMisfit
from scripts.mutation.rules import ALL_MUTANTS


def test_every_mutant_finds_the_piece_that_it_replaces() -> None:
    """A script that has changed takes its mutants along, or they would prove nothing."""
    assert list(misfits_among(ALL_MUTANTS)) == []


def test_every_mutant_has_a_name_of_its_own() -> None:
    """So that it can be asked for."""
    assert [name for name, count in Counter(m.name for m in ALL_MUTANTS).items() if count > 1] == []


@pytest.mark.parametrize("text", ["return nil", "return 1, 1"])
def test_a_piece_that_isn_t_there_once_is_loud(text: str) -> None:
    """Neither a mutant that changes nothing nor one that changes more than it says."""
    mutant = Mutant(name="one", file="include/core", piece="1", instead="2", harm="None.")
    with pytest.raises(MutantMisfit):
        mutant.plant(text)
    assert mutant.plant("return 1") == "return 2"
