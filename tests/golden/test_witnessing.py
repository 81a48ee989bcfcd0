from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from evseq.geometry import Dtype
from evseq.golden.histories import Histories, arranged
from evseq.golden.witness import read
from evseq.golden.witnessing import Numerics, witnessed
from evseq.judging import observed_cases
from evseq.pipeline import Run, Settings
from evseq.replay.group import Group, observe
from evseq.replay.target import Target
from evseq.script.lower import lower
from evseq.verdict.label import label
from evseq.verdict.result import Case, Note, Outcome, Witnessed
from playing import script

TEXT = """\
rows:
  a: {random: {length: 10, seed: 1}}
  b: [17, 4, 59, 3, 8, 21]
arms:
  dtype: [float64, float32]
  padding: [left, right]
events:
  - prefill: {rows: {a: 7, b: 3}}
  - append: {next: 2}
"""

SINGLE = {"dtype": ("float32",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """All cases of a script, and what they came from."""

    cases: tuple[Case, ...]
    group: Group
    target: Target
    histories: Histories

    def told(self, *folders: Path, write: bool = False, numerics: Numerics | None = None) -> tuple[Case, ...]:
        return witnessed(
            self.cases,
            group=self.group,
            target=self.target,
            histories=self.histories,
            folders=folders,
            numerics={} if numerics is None else numerics,
            write=write,
        )


def play(named: str, *, only: Mapping[str, tuple[str, ...]] | None = None) -> Played:
    parsed = script(TEXT)
    with Run(Settings(mode="all", only=only or {})) as running, TemporaryDirectory() as folder:
        target = running.target(named)
        chosen = running.selected(parsed, named)
        group = observe(lower(parsed, chosen, description=target.description), target=target, folder=Path(folder))
        labels = [label(parsed, case, named, in_memory=False) for case in chosen]
        result = observed_cases(parsed, labels, target.description, chosen, group)
    assert group.tree is not None
    assert group.references is not None
    histories, _ = arranged(group.tree, group.references.nodes)
    return Played(cases=result.cases, group=group, target=target, histories=histories)


def said(cases: tuple[Case, ...]) -> list[Witnessed | None]:
    """Return what is said in any case, each once."""
    return list(dict.fromkeys(case.witnessed for case in cases))


@pytest.fixture(scope="module")
def healthy() -> Played:
    return play("reference:full")


@pytest.fixture(scope="module")
def single() -> Played:
    return play("reference:full", only=SINGLE)


@pytest.fixture
def written(healthy: Played, tmp_path: Path) -> Path:
    """Return a folder with the witnesses of the healthy engine."""
    healthy.told(tmp_path, write=True)
    return tmp_path


def the(folder: Path, dtype: str) -> Path:
    (file,) = folder.glob(f"cpu-{dtype}-plain-torch-*.json")
    return file


class TestWriting:
    def test_each_dtype_has_its_file(self, written: Path) -> None:
        assert sorted(written.iterdir()) == [the(written, "float32"), the(written, "float64")]

    def test_every_history_of_both_sides_is_written(self, healthy: Played, written: Path) -> None:
        witness = read(the(written, "float32"))
        assert witness is not None
        errors = witness.scripts["case"]
        assert len(errors.cached) == len(healthy.histories.observed) == 14
        assert None not in errors.cached
        assert None not in errors.uncached

    def test_in_float64_the_uncached_side_is_truth(self, written: Path) -> None:
        witness = read(the(written, "float64"))
        assert witness is not None
        assert set(witness.scripts["case"].uncached) == {0.0}

    def test_it_is_said(self, healthy: Played, tmp_path: Path) -> None:
        cases = healthy.told(tmp_path, write=True)
        assert said(cases) == [
            Witnessed(file=str(the(tmp_path, "float64")), drift=None, written=True),
            Witnessed(file=str(the(tmp_path, "float32")), drift=None, written=True),
        ]

    def test_the_same_errors_give_the_same_bytes(self, healthy: Played, written: Path) -> None:
        before = the(written, "float32").read_bytes()
        healthy.told(written, write=True)
        assert the(written, "float32").read_bytes() == before

    def test_what_was_not_run_is_kept(self, single: Played, written: Path) -> None:
        before = the(written, "float64").read_bytes()
        single.told(written, write=True)
        assert the(written, "float64").read_bytes() == before

    def test_nothing_is_written_of_a_failed_case(self, single: Played, tmp_path: Path) -> None:
        failed = replace(single.cases[0], outcome=Outcome.FAILED)
        cases = replace(single, cases=(failed, *single.cases[1:])).told(tmp_path, write=True)
        (told,) = said(cases)
        assert told is not None
        assert list(tmp_path.iterdir()) == []
        assert cases[0].notes == (Note(kind="witness", message=f"{told.file}: not written: a case failed"),)


class TestReading:
    def test_a_run_like_the_one_that_wrote_it_has_no_drift(self, healthy: Played, written: Path) -> None:
        assert said(healthy.told(written)) == [
            Witnessed(file=str(the(written, "float64")), drift=0.0),
            Witnessed(file=str(the(written, "float32")), drift=0.0),
        ]

    def test_a_noisier_cached_side_drifts_and_passes(self, written: Path) -> None:
        noisy = play("planted.engines:noisy_cached", only=SINGLE).told(written)
        (told,) = said(noisy)
        assert told is not None
        assert told.file == str(the(written, "float32"))
        assert told.drift is not None
        assert 0.1 < told.drift < 1.0
        assert [case.outcome for case in noisy] == [Outcome.PASSED, Outcome.PASSED]

    def test_what_an_engine_is_is_read_once_a_run(
        self, single: Played, written: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        numerics: Numerics = {}
        before = single.told(written, numerics=numerics)
        monkeypatch.setattr(type(single.target.engine(Dtype.FLOAT32)), "identity", None)
        assert single.told(written, numerics=numerics) == before

    def test_no_witness_is_said_and_passes(self, single: Played, tmp_path: Path) -> None:
        cases = single.told(tmp_path)
        (told,) = said(cases)
        assert told is not None
        assert told.drift is None
        assert [case.outcome for case in cases] == [Outcome.PASSED, Outcome.PASSED]
        assert cases[0].notes == ()

    def test_the_first_folder_that_knows_the_script_is_taken(
        self, single: Played, written: Path, tmp_path: Path
    ) -> None:
        assert said(single.told(tmp_path / "project", written)) == [
            Witnessed(file=str(the(written, "float32")), drift=0.0)
        ]

    def test_an_engine_that_cannot_say_what_it_is_has_none(self, tmp_path: Path) -> None:
        unknown = play("planted.engines:unknown_library", only=SINGLE)
        assert said(unknown.told(tmp_path, write=True)) == [None]

    def test_where_nothing_ran_nothing_is_said(self, single: Played, written: Path) -> None:
        broken = replace(single, group=replace(single.group, references=None))
        assert broken.told(written) == single.cases


class TestDamaged:
    def test_a_damaged_witness_is_a_note(self, single: Played, written: Path) -> None:
        file = the(written, "float32")
        file.write_text("{")
        cases = single.told(written)
        assert said(cases) == [Witnessed(file=str(file), drift=None)]
        assert [case.outcome for case in cases] == [Outcome.PASSED, Outcome.PASSED]
        assert cases[0].notes == (
            Note(
                kind="witness",
                message=f"{file}: not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
                "; --update-witness writes it anew",
            ),
        )

    def test_it_is_written_anew(self, single: Played, written: Path) -> None:
        the(written, "float32").write_text("{")
        cases = single.told(written, write=True)
        assert cases[0].notes == ()
        assert said(single.told(written)) == [Witnessed(file=str(the(written, "float32")), drift=0.0)]

    def test_a_witness_of_other_histories_is_a_note(self, single: Played, written: Path) -> None:
        file = the(written, "float32")
        other = replace(single, histories=replace(single.histories, observed=single.histories.observed[:-1]))
        cases = other.told(written)
        assert said(cases) == [Witnessed(file=str(file), drift=None)]
        assert cases[0].notes == (
            Note(kind="witness", message=f"{file}: of case as it was before; --update-witness writes it anew"),
        )
