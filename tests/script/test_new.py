from __future__ import annotations

from pathlib import Path

import pytest

from evseq.errors import UsageError
from evseq.script.document import parse, unparse
from evseq.script.lower import check
from evseq.script.new import Bug, create
from evseq.script.source import read


def refused(name: str, folder: Path) -> str:
    with pytest.raises(UsageError) as error:
        create(name, folder)
    return str(error.value)


class TestCreate:
    def test_a_new_script_is_possible_and_in_normal_form(self, tmp_path: Path) -> None:
        file = create("first", tmp_path)
        script = parse(read(file))
        check(script)
        assert (file, script.name) == (tmp_path / "first.evseq.yaml", "first")
        assert unparse(script) == file.read_text()

    @pytest.mark.parametrize("bug", Bug)
    def test_one_that_starts_from_a_bug_is_possible_and_in_normal_form(self, bug: Bug, tmp_path: Path) -> None:
        file = create("first", tmp_path, bug=bug)
        script = parse(read(file))
        check(script)
        assert unparse(script) == file.read_text()

    @pytest.mark.parametrize(
        ("bug", "help"),
        [("windw", "did you mean 'window'?"), ("zzz", "use beam, reuse, window, caller or lossy")],
    )
    def test_a_bug_of_no_kind_is_refused(self, bug: str, help: str, tmp_path: Path) -> None:
        with pytest.raises(UsageError) as error:
            create("first", tmp_path, bug=bug)
        assert str(error.value) == f"new: no kind of bug {bug!r}\n  help: {help}"
        assert list(tmp_path.iterdir()) == []

    def test_the_ending_may_be_given(self, tmp_path: Path) -> None:
        assert create("first.evseq.yaml", tmp_path) == tmp_path / "first.evseq.yaml"

    def test_the_folder_is_made(self, tmp_path: Path) -> None:
        assert create("first", tmp_path / "a" / "b").is_file()

    def test_nothing_is_overwritten(self, tmp_path: Path) -> None:
        (tmp_path / "first.evseq.yaml").write_text("mine")
        assert refused("first", tmp_path) == (
            f"new: {tmp_path}/first.evseq.yaml exists already\n  help: take another name, or remove it first"
        )
        assert (tmp_path / "first.evseq.yaml").read_text() == "mine"

    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "a b", "-a", "a\n"])
    def test_what_no_script_can_be_called_is_refused(self, name: str, tmp_path: Path) -> None:
        assert refused(name, tmp_path) == (
            f"new: {name!r} is no name\n  help: begin with a letter or _, go on with letters, digits and _ . -; "
            "the folder is said with --dir"
        )

    def test_a_folder_that_cannot_be_made_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        assert refused("first", tmp_path / "file" / "x") == (
            f"new: {tmp_path}/file/x/first.evseq.yaml: cannot be written: Not a directory\n  help: name another --dir"
        )
