"""Where scripts are found: files, and folders of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from evseq.errors import ScriptError, UsageError
from evseq.script.library import SUITE, read_all

HEALTHY = "evseq: 1\nname: NAME\nabout: A test.\nrows: {a: [1]}\nevents: [prefill: [a]]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b", "a", "inner/c"):
        file = tmp_path / f"{name}.evseq.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(HEALTHY.replace("NAME", file.name[0]), encoding="utf-8")
    (tmp_path / "notes.yaml").write_text("no script\n", encoding="utf-8")
    return tmp_path


def test_a_folder_is_walked_in_order(folder: Path) -> None:
    assert [script.name for script in read_all([folder])] == ["a", "b", "c"]


def test_a_file_named_twice_is_read_once(folder: Path) -> None:
    assert [script.name for script in read_all([folder / "b.evseq.yaml", folder])] == ["b", "a", "c"]


def test_a_file_is_read_whatever_it_is_called(folder: Path) -> None:
    (folder / "notes.yaml").write_text(HEALTHY, encoding="utf-8")
    assert [script.name for script in read_all([folder / "notes.yaml"])] == ["NAME"]


def test_the_problems_of_all_files_are_told_at_once(folder: Path) -> None:
    for name in ("a", "b"):
        (folder / f"{name}.evseq.yaml").write_text(HEALTHY.replace("prefill", "prefil"), encoding="utf-8")
    with pytest.raises(ScriptError) as error:
        read_all([folder])
    assert [Path(problem.place.file).name for problem in error.value.problems] == ["a.evseq.yaml", "b.evseq.yaml"]


def test_a_folder_without_scripts_is_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        read_all([tmp_path])
    assert str(error.value) == f"{tmp_path}: no *.evseq.yaml in this folder\n  help: `evseq new NAME` writes one"


def test_a_name_that_is_neither_is_a_wrong_call() -> None:
    with pytest.raises(UsageError) as error:
        read_all([Path("nowhere")])
    assert str(error.value) == "nowhere: no such file or folder\n  help: name a script, or a folder of *.evseq.yaml"


def test_the_shipped_suite_is_a_folder_of_scripts() -> None:
    assert len(read_all([SUITE])) >= 15
