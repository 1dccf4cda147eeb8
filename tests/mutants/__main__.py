"""`python -m tests.mutants [NAME...]`: plants each fault in a copy of the checkout; its tests must notice.

Ends with 1 when a fault goes unnoticed, cannot be tried or no longer applies, with 2 for an unknown name.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.mutants.mutant import MalformedMutant, Mutant, load
from tests.mutants.trial import Verdict, copied, run_tests, try_mutant

CHECKOUT: Final = Path(__file__).parents[2]
HEALTHY_LIMIT: Final = 900.0
"""Seconds for all tests of all mutants in the healthy tree."""
RERUNS: Final = 2
"""As in every other run of the healthy tree; beside a mutant a test has one try."""


def main(names: Sequence[str]) -> int:
    """The exit code."""
    known = load()
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no such mutant: {', '.join(unknown)}. There are: {', '.join(known)}", file=sys.stderr)
        return 2
    return _try_all([known[name] for name in names] if names else list(known.values()))


def _try_all(mutants: Sequence[Mutant]) -> int:
    with copied(CHECKOUT) as tree:
        if not _is_healthy(tree, mutants):
            return 1
        verdicts = {mutant.name: _try(tree, mutant) for mutant in mutants}
    return _summary(verdicts)


def _is_healthy(tree: Path, mutants: Iterable[Mutant]) -> bool:
    """Whether every test that is to fail passes without a mutant."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    run = run_tests(tree, tests, limit=HEALTHY_LIMIT, reruns=RERUNS)
    healthy = run.verdict is Verdict.SURVIVED
    print(
        f"{len(tests)} tests without a mutant: {'pass' if healthy else 'FAIL'} ({run.took:.0f} s)", flush=True
    )
    if not healthy:
        print(run.output)
    return healthy


def _try(tree: Path, mutant: Mutant) -> Verdict:
    run = try_mutant(tree, mutant)
    if isinstance(run, MalformedMutant):
        print(f"  {Verdict.STALE:9} {run}", flush=True)
        return Verdict.STALE
    print(f"  {run.verdict:9} {mutant.name:42} {run.took:5.1f} s  {mutant.promise}", flush=True)
    if run.verdict is not Verdict.KILLED:
        print(_indented(run.output[-2000:]), flush=True)
    return run.verdict


def _summary(verdicts: Mapping[str, Verdict]) -> int:
    alive = [name for name, verdict in verdicts.items() if verdict is not Verdict.KILLED]
    print(f"{len(verdicts) - len(alive)} of {len(verdicts)} mutants killed")
    if alive:
        print(f"not killed: {', '.join(alive)}")
    return 1 if alive else 0


def _indented(text: str) -> str:
    return "\n".join(f"      {line}" for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
