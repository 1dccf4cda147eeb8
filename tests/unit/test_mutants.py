"""The mutants themselves: patches apply, the tests that are to notice exist, and the runner can tell."""

import ast
from pathlib import Path

import pytest

from tests.mutants.__main__ import main
from tests.mutants.mutant import MalformedMutant, Mutant, load
from tests.mutants.trial import Run, Verdict, run_tests, try_mutant
from tests.rules.source import ROOT

MUTANTS = load()
EXAMPLE = Mutant(
    name="adds-too-much",
    promise="Two and two are four.",
    file="sums.py",
    old="return a + b",
    new="return a + b + 1",
    tests=("test_sums.py",),
)


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_every_patch_still_applies_and_leaves_code_that_can_be_read(mutant: Mutant) -> None:
    healthy = (ROOT / mutant.file).read_text()
    patched = mutant.patched(healthy)

    assert healthy != patched
    if mutant.file.endswith(".py"):
        ast.parse(patched)


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_every_test_that_is_to_notice_it_exists(mutant: Mutant) -> None:
    for name in mutant.tests:
        path, _, function = name.partition("::")
        assert not function or function.partition("[")[0] in functions(ROOT / path), name


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_every_mutant_says_in_a_sentence_what_it_breaks(mutant: Mutant) -> None:
    assert mutant.promise[0].isupper()
    assert mutant.promise.endswith(".")


def test_a_patch_that_does_not_apply_exactly_once_is_refused() -> None:
    with pytest.raises(MalformedMutant, match=r"stands 0 times in sums\.py"):
        EXAMPLE.patched("def add(a, b): return b + a")
    with pytest.raises(MalformedMutant, match=r"stands 2 times in sums\.py"):
        EXAMPLE.patched("return a + b; return a + b")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[one]\npromise = "X."\nfile = "a"\nold = "b"\nnew = "c"', "wanted"),
        ('[one]\npromise = "X."\nfile = "a"\nold = "b"\nnew = "c"\ntests = []', "one or more"),
    ],
)
def test_a_malformed_entry_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "some.toml").write_text(text)

    with pytest.raises(MalformedMutant, match=complaint):
        load(tmp_path)


def test_a_name_in_two_files_is_refused(tmp_path: Path) -> None:
    entry = '[one]\npromise = "X."\nfile = "a"\nold = "b"\nnew = "c"\ntests = ["t"]'
    for name in ("one.toml", "two.toml"):
        (tmp_path / name).write_text(entry)

    with pytest.raises(MalformedMutant, match="two files"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("asserted", "verdict"), [("add(2, 2) == 4", Verdict.KILLED), ("add(2, 2) > 0", Verdict.SURVIVED)]
)
def test_a_mutant_is_killed_only_by_a_test_that_fails(
    tmp_path: Path, asserted: str, verdict: Verdict
) -> None:
    healthy = tree(tmp_path, f"from sums import add\n\ndef test_add():\n    assert {asserted}\n")
    run = try_mutant(tmp_path, EXAMPLE)

    assert isinstance(run, Run)
    assert verdict is run.verdict
    assert healthy == (tmp_path / "sums.py").read_text()


def test_a_test_that_cannot_run_kills_nothing(tmp_path: Path) -> None:
    tree(tmp_path, "import no_such_module\n")

    assert Verdict.BROKEN is run_tests(tmp_path, EXAMPLE.tests).verdict


def test_tests_that_do_not_end_are_stopped_and_kill_nothing(tmp_path: Path) -> None:
    tree(tmp_path, "import time\n\ndef test_add():\n    time.sleep(60)\n")

    assert Verdict.HUNG is run_tests(tmp_path, EXAMPLE.tests, limit=0.5).verdict


def tree(folder: Path, test: str) -> str:
    """A checkout of two files; returns the text of the healthy one."""
    healthy = "def add(a, b):\n    return a + b\n"
    (folder / "sums.py").write_text(healthy)
    (folder / "test_sums.py").write_text(test)
    return healthy


def functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_the_runner_refuses_a_name_that_it_does_not_know() -> None:
    assert 2 == main(["no-such-mutant"])
