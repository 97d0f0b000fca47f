"""Which rules are there to be lost? One module for each part of the registry."""

from __future__ import annotations

from scripts.mutation.rules import access, beats, clocks, line, lives, recovery, slots, stage

ALL_MUTANTS = (
    *line.MUTANTS,
    *stage.MUTANTS,
    *slots.MUTANTS,
    *beats.MUTANTS,
    *lives.MUTANTS,
    *clocks.MUTANTS,
    *recovery.MUTANTS,
    *access.MUTANTS,
)
