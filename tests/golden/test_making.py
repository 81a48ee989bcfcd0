"""The candidate of a script: what it holds, when it is written, and what it tells its review."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from accepting import accepted, held, terms
from evseq.engines.reference import loader as healthy
from evseq.errors import UsageError
from evseq.geometry import Description, Dtype
from evseq.golden.candidate import Candidate, Change, JudgedCase, Told, Use, load
from evseq.golden.compact import Compact
from evseq.golden.golden import Golden, read
from evseq.golden.root import Place, Root
from evseq.golden.terms import FormWord, Terms
from evseq.history import Path as History
from evseq.pipeline import Settings, run
from evseq.script.picks import Pick
from evseq.verdict.result import Check, Exit, Outcome
from playing import DOUBLE, lines, script

FULL = "reference:full"
PLACE = Place(model="small", revision="v1", script="case")

APPEND = script("""\
rows:
  a: {random: {length: 5, seed: 1}}
arms:
  more: [1, 2]
events:
  - prefill: {rows: {a: 3}}
  - append: {next: more}
""")

LONGER = script("""\
rows:
  a: {random: {length: 5, seed: 1}}
events:
  - prefill: {rows: {a: 3}}
  - append: {next: 2}
""")

LONGEST = script("""\
rows:
  a: {random: {length: 5, seed: 1}}
events:
  - prefill: {rows: {a: 3}}
  - append: {next: 1}
  - append: {ids: {a: [7]}}
""")


def update(said: Terms) -> Terms:
    return replace(said, update=True)


def made(root: Path, target: str = FULL) -> tuple[Candidate, Golden]:
    """Return the candidate that a run of one case writes."""
    said = update(terms(root, target))
    run([LONGER], [target], settings=Settings(only=DOUBLE, goldens=said))
    return load(Root(folder=root), PLACE)


def test_a_run_that_wrote_one_fails(tmp_path: Path) -> None:
    said = replace(terms(tmp_path, model="other"), update=True)

    result = run([LONGER], [FULL], settings=Settings(only=DOUBLE, goldens=said))

    assert lines(result) == []
    assert result.candidates == (str(tmp_path / "reference-full" / "77a0c42a5850" / "case.candidate.safetensors"),)
    assert result.exit is Exit.FAILED


def test_a_plain_run_writes_nothing(tmp_path: Path) -> None:
    held([LONGER], FULL, terms(tmp_path, FULL))

    assert list(tmp_path.iterdir()) == []


def test_it_holds_every_arm_whatever_the_run_selected(tmp_path: Path) -> None:
    run([APPEND], [FULL], settings=Settings(only={"more": ("1",)}, goldens=update(terms(tmp_path, FULL))))

    _, golden = load(Root(folder=tmp_path), PLACE)

    assert len(golden.histories.observed) == 5


def test_it_holds_the_uncached_logits_of_the_deciding_dtype_in_float32(tmp_path: Path) -> None:
    _, golden = made(tmp_path)

    history = golden.histories.paths()[-1]
    truth = healthy("full").load(Dtype.FLOAT64, {}).uncached(history)[-1]
    assert golden.logits.tensors()["logits"][-1].equal(truth.float())


def test_it_tells_its_review_all_it_needs(tmp_path: Path) -> None:
    candidate, golden = made(tmp_path)

    assert candidate.change is Change.NEW
    assert candidate.seal == golden.seal
    assert (candidate.finite, candidate.repeats, candidate.commit, candidate.unclean) == (True, True, None, ())
    assert sorted(candidate.libraries) == ["evseq", "python", "torch"]
    assert candidate.weights.startswith("77a0c42a5850")
    assert candidate.cases == (
        JudgedCase(id="case[float64][reference:full]", outcome=Outcome.PASSED, dtype=Dtype.FLOAT64),
    )
    assert candidate.uses == (
        Use(event="prefill", place="case.evseq.yaml:7:5", rows=(("a", 0, 0), ("a", 1, 1), ("a", 2, 2))),
        Use(event="append", place="case.evseq.yaml:8:5", rows=(("a", 3, 3), ("a", 4, 4))),
    )


def test_what_another_check_said_is_in_it_and_what_this_one_said_is_not(tmp_path: Path) -> None:
    candidate, _ = made(tmp_path, "planted.sides:cached_side")

    (case,) = candidate.cases
    assert {told.check for told in case.told} == {Check.PARITY}
    assert case.told[0] == Told(check=Check.PARITY, place="case.evseq.yaml:7:5", message=case.told[0].message)


def test_none_is_written_where_nothing_would_change(tmp_path: Path) -> None:
    accepted([LONGER], FULL, terms(tmp_path, FULL))

    result = held([LONGER], FULL, update(terms(tmp_path, FULL)))

    assert result.exit is Exit.PASSED
    assert list(Root(folder=tmp_path).candidates()) == []


def test_one_of_moved_logits_is_changed(tmp_path: Path) -> None:
    accepted([LONGER], FULL, terms(tmp_path, FULL))

    candidate, _ = made(tmp_path, "planted.sides:both_sides")

    assert candidate.change is Change.CHANGED


def test_one_of_more_histories_is_changed(tmp_path: Path) -> None:
    accepted([LONGER], FULL, terms(tmp_path, FULL))

    held([LONGEST], FULL, update(terms(tmp_path, FULL)))

    assert load(Root(folder=tmp_path), PLACE)[0].change is Change.CHANGED


def test_one_that_says_the_same_in_another_form_is_format_only(tmp_path: Path) -> None:
    accepted([LONGER], FULL, terms(tmp_path, FULL))

    held([LONGER], FULL, replace(update(terms(tmp_path, FULL)), form=FormWord.COMPACT))

    candidate, golden = load(Root(folder=tmp_path), PLACE)
    assert candidate.change is Change.FORMAT
    assert isinstance(golden.logits, Compact)


def test_the_accepted_golden_stays_until_the_candidate_is_accepted(tmp_path: Path) -> None:
    accepted([LONGER], FULL, terms(tmp_path, FULL))
    before = read(Root(folder=tmp_path).golden(PLACE)).seal

    made(tmp_path, "planted.sides:both_sides")

    assert read(Root(folder=tmp_path).golden(PLACE)).seal == before


def test_one_that_is_no_longer_true_goes_with_the_next_update(tmp_path: Path) -> None:
    accepted([LONGER], FULL, terms(tmp_path, FULL))
    made(tmp_path, "planted.sides:both_sides")

    result = held([LONGER], FULL, update(terms(tmp_path, FULL)))

    assert (result.exit, list(Root(folder=tmp_path).candidates())) == (Exit.PASSED, [])


def test_a_folder_that_is_none_is_told_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "goldens").write_text("a file")

    with pytest.raises(UsageError) as refused:
        held([LONGER], FULL, update(terms(tmp_path / "goldens", FULL)))

    assert str(refused.value) == (
        f"{tmp_path / 'goldens'}: goldens cannot be written: File exists\n  help: name a folder you may write to"
    )


def test_a_script_that_nobody_would_find_again_gets_none(tmp_path: Path) -> None:
    odd = script("rows: {a: [1, 2]}\nevents:\n  - prefill: [a]\n", file="odd.yaml")

    with pytest.raises(UsageError, match=r"call it odd\.evseq\.yaml"):
        held([odd], FULL, update(terms(tmp_path, FULL)))


def test_without_a_folder_there_is_nowhere_to_write() -> None:
    said = replace(terms(Path(), FULL), root=None, update=True)

    with pytest.raises(UsageError, match="no folder of goldens to write to"):
        held([LONGER], FULL, said)


def test_none_is_made_of_a_planted_fault_nor_of_what_runs_beside_it(tmp_path: Path) -> None:
    said = update(terms(tmp_path, FULL))

    with pytest.raises(UsageError, match="nothing is kept of a planted fault"):
        run([LONGER], [FULL, f"{FULL}+rewind-to-nothing"], settings=Settings(only=DOUBLE, goldens=said))

    assert list(tmp_path.iterdir()) == []


def test_two_scripts_of_one_name_would_share_a_golden(tmp_path: Path) -> None:
    twin = script("rows: {a: [1, 2]}\nevents:\n  - prefill: [a]\n", file="twin.evseq.yaml")

    with pytest.raises(UsageError) as refused:
        held([LONGER, twin], FULL, update(terms(tmp_path, FULL)))

    assert str(refused.value) == (
        "twin.evseq.yaml: name: case.evseq.yaml is called 'case' too, and goldens go by name\n"
        "  help: give one of them another name"
    )


def test_a_model_that_cannot_be_asked_is_told_by_its_cases(tmp_path: Path) -> None:
    result = held([LONGER], "planted.raising:uncached", update(terms(tmp_path)))

    assert {finding.check for case in result.cases for finding in case.findings} == {Check.REFERENCE}
    assert result.candidates == ()


def test_one_that_replaces_a_golden_not_to_be_used_is_changed(tmp_path: Path) -> None:
    accepted([LONGER], FULL, terms(tmp_path, FULL))
    Root(folder=tmp_path).golden(PLACE).unlink()

    assert made(tmp_path)[0].change is Change.CHANGED


@dataclass(kw_only=True)
class Restless:
    """An engine whose uncached forward gives other bits each time."""

    engine: Any
    asked: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def uncached(self, path: History) -> torch.Tensor:
        self.asked += 1
        logits: torch.Tensor = self.engine.uncached(path)
        return logits + 1e-9 * self.asked


@dataclass(kw_only=True)
class RestlessLoader:
    """Loads the restless engine."""

    loader: Any = field(default_factory=lambda: healthy("full"))

    def describe(self) -> Description:
        return self.loader.describe()  # type: ignore[no-any-return]

    def tokenize(self, text: str) -> tuple[int, ...]:
        return self.loader.tokenize(text)  # type: ignore[no-any-return]

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Restless:
        return Restless(engine=self.loader.load(dtype, options))


def test_truth_that_differs_when_computed_again_is_told(tmp_path: Path) -> None:
    target = RestlessLoader()

    run([LONGER], [target], settings=Settings(only=DOUBLE, goldens=Terms(root=tmp_path, update=True)))

    root = Root(folder=tmp_path)
    (place,) = root.candidates()
    assert load(root, place)[0].repeats is False


def test_a_run_of_few_cases_proposes_what_a_run_of_all_does(tmp_path: Path) -> None:
    few = replace(APPEND, picks=(Pick(script="case"),))
    for name, asked in (("whole", APPEND), ("few", few)):
        run([asked], [FULL], settings=Settings(goldens=update(terms(tmp_path / name, FULL))))

    whole, part = (load(Root(folder=tmp_path / name), PLACE) for name in ("whole", "few"))

    assert part[1].histories == whole[1].histories
    assert part[0].uses == whole[0].uses
    assert (len(part[0].cases), part[0].of) == (1, 2)
