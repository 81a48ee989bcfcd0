"""What a run rests on is looked at in the folder worked in, and tells apart what could make a result another."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from evseq import versions
from evseq.golden.terms import Terms
from evseq.part import Part
from evseq.pipeline import Settings, read_scripts
from evseq.premises import Premises, premises
from evseq.script.cases import CaseArms

SCRIPT = """\
evseq: 1
name: read
about: Rows from a file.
rows:
  a: {file: rows.txt}
events:
  - prefill: [a]
"""


@contextmanager
def resting(settings: Settings) -> Iterator[Premises]:
    """Give the premises of a script with a file beside it and failures that are known."""
    Path("read.evseq.yaml").write_text(SCRIPT)
    Path("rows.txt").write_text("words")
    Path("known.yaml").write_text("[]")
    (script,) = read_scripts(["read.evseq.yaml"])
    parts = [Part(script=script, target="reference:full", chosen=(CaseArms(arms={}),))]
    with premises(parts, settings) as held:
        yield held


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [name for name in before if before[name] != after.get(name)]


@pytest.mark.usefixtures("here")
class TestPremises:
    def test_nothing_changes_by_itself_wherever_it_is_looked_at(self) -> None:
        with resting(Settings()) as held:
            before = held()
            os.chdir("/")

            assert held() == before

    @pytest.mark.parametrize("file", ["rows.txt", "known.yaml", "goldens/small/LEDGER.yaml"])
    def test_a_file_that_changes(self, file: str) -> None:
        Path("goldens/small").mkdir(parents=True)
        Path("goldens/small/LEDGER.yaml").write_text("[]")
        with resting(Settings(goldens=Terms(root=Path("goldens")))) as held:
            before = held()
            Path(file).write_text("other words")

            (name,) = changed(before, held())

        assert name.endswith(file)

    def test_a_file_that_is_not_there(self) -> None:
        with resting(Settings()) as held:
            Path("rows.txt").unlink()

            assert held()["rows.txt"] == "No such file or directory"

    def test_another_folder(self, tmp_path: Path) -> None:
        with resting(Settings()) as held:
            folder = tmp_path / "nowhere"

            assert replace(held, folder=folder)()[f"the folder {folder}"] == "not found"

    def test_another_version(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with resting(Settings()) as held:
            before = held()
            monkeypatch.setattr(
                versions, "libraries", lambda: {"python": before["the version of python"], "torch": "1"}
            )

            assert changed(before, held())[0] == "the version of torch"

    def test_other_code(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        with resting(Settings()) as held:
            before = held()
            monkeypatch.setattr("evseq.premises.PACKAGE", tmp_path)

            assert changed(before, held()) == ["the folder of evseq", "the code of evseq"]

    def test_a_folder_that_is_written_to_and_not_shared(self, here: Path) -> None:
        for name in ("kept", "goldens"):
            (here / name).mkdir()
        with resting(Settings(record=Path("kept"), goldens=Terms(root=Path("goldens"), update=True))) as held:
            marks = [f"a file written in {here / name}" for name in ("kept", "goldens")]
            assert [held()[name] for name in marks] == ["found", "found"]
            elsewhere = replace(held, marks=tuple(mark.with_name("other") for mark in held.marks))

            assert [elsewhere()[name] for name in marks] == ["not found", "not found"]

        assert [file.name for name in ("kept", "goldens") for file in (here / name).iterdir()] == []

    def test_what_a_killed_run_left_there_is_swept_by_the_next(self, here: Path) -> None:
        (here / "kept").mkdir()
        with resting(Settings(record=Path("kept"))) as held:
            (left,) = held.marks
            name = left.name
        (here / "kept" / name).touch()

        with resting(Settings(record=Path("kept"))) as held:
            there = list((here / "kept").iterdir())

        assert there == list(held.marks)
