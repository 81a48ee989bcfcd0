from __future__ import annotations

from pathlib import Path

import pytest

from evseq.golden.scripts import known_scripts
from evseq.script.library import SUITE, read_all


def of(project: Path) -> frozenset[str]:
    """Return the names of a project's own scripts."""
    return known_scripts(project) - {script.name for script in read_all([SUITE])}


class TestKnownScripts:
    def test_names_come_from_the_scripts(self, tmp_path: Path) -> None:
        (tmp_path / "deep" / "er").mkdir(parents=True)
        (tmp_path / "a.evseq.yaml").write_text("evseq: 1\nname: called-so\n")
        (tmp_path / "deep" / "er" / "b.evseq.yaml").write_text("name: other\n")
        (tmp_path / "c.yaml").write_text("name: no-script\n")
        assert of(tmp_path) == {"called-so", "other"}

    @pytest.mark.parametrize("text", ["1: [", "", "[7]", "\x00"])
    def test_one_that_cannot_be_read_is_called_as_its_file_is(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "broken.evseq.yaml").write_text(text)
        assert of(tmp_path) == {"broken"}

    def test_or_by_any_word_in_it(self, tmp_path: Path) -> None:
        (tmp_path / "broken.evseq.yaml").write_text("evseq: 1\nname: crop-twice\nrows: {a: [4\n")
        assert of(tmp_path) == {"broken", "evseq", "name", "crop-twice", "rows", "a"}

    def test_one_that_is_gone_meanwhile_is_no_matter(self, tmp_path: Path) -> None:
        (tmp_path / "gone.evseq.yaml").symlink_to(tmp_path / "nowhere")
        assert of(tmp_path) == {"gone"}

    def test_those_of_the_suite_are_among_them(self, tmp_path: Path) -> None:
        assert "reload-continues" in known_scripts(tmp_path)

    @pytest.mark.parametrize("folder", [".hidden", ".nox", "build", "dist", "node_modules"])
    def test_copies_are_not_the_projects(self, tmp_path: Path, folder: str) -> None:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.evseq.yaml").write_text("name: a\n")
        assert of(tmp_path) == frozenset()

    def test_virtual_environments_are_not_the_projects(self, tmp_path: Path) -> None:
        (tmp_path / "env" / "lib").mkdir(parents=True)
        (tmp_path / "env" / "pyvenv.cfg").touch()
        (tmp_path / "env" / "lib" / "a.evseq.yaml").write_text("name: a\n")
        assert of(tmp_path) == frozenset()

    def test_links_to_folders_are_followed_once(self, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "a.evseq.yaml").write_text("name: a\n")
        (tmp_path / "project").mkdir()
        (tmp_path / "project" / "scripts").symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "project")
        assert of(tmp_path / "project") == {"a"}
