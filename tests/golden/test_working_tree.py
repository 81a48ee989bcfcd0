from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from evseq.errors import UsageError
from evseq.golden.working_tree import commit, unclean


class TestCommit:
    def test_it_is_the_one_checked_out(self, git: Callable[..., str], tmp_path: Path) -> None:
        assert commit(tmp_path) == git("rev-parse", "HEAD").strip()

    def test_a_folder_that_is_not_there_yet_stands_where_it_will(self, git: Callable[..., str], tmp_path: Path) -> None:
        assert commit(tmp_path / "goldens" / "small") == git("rev-parse", "HEAD").strip()

    def test_there_is_none_outside_a_repository(self, tmp_path: Path) -> None:
        assert commit(tmp_path) is None

    def test_there_is_none_before_the_first(self, git: Callable[..., str], tmp_path: Path) -> None:
        git("checkout", "--quiet", "--orphan", "empty")
        assert commit(tmp_path) is None

    def test_there_is_none_without_git(
        self, git: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert commit(tmp_path) is None


class TestUnclean:
    @pytest.fixture(autouse=True)
    def goldens(self, git: Callable[..., str], tmp_path: Path) -> Path:
        """Return a folder of goldens with one that is tracked."""
        folder = tmp_path / "goldens"
        folder.mkdir()
        (folder / "golden").touch()
        git("add", "goldens")
        git("commit", "--quiet", "--message", "golden")
        return folder

    def test_a_clean_tree_has_none(self, tmp_path: Path, goldens: Path) -> None:
        assert unclean(tmp_path, besides=goldens) == ()

    def test_changes_count_staged_or_not_and_so_do_deletions(
        self, git: Callable[..., str], tmp_path: Path, goldens: Path
    ) -> None:
        for name in ("gone.py", "staged é.py"):
            (tmp_path / name).touch()
        git("add", "gone.py", "staged é.py")
        git("commit", "--quiet", "--message", "more")
        (tmp_path / "code.py").write_text("x = 2\n")
        (tmp_path / "gone.py").unlink()
        (tmp_path / "staged é.py").write_text("x = 2\n")
        git("add", "staged é.py")

        assert unclean(goldens, besides=goldens) == ("code.py", "gone.py", "staged é.py")

    def test_a_staged_new_name_is_two_changes(self, git: Callable[..., str], tmp_path: Path, goldens: Path) -> None:
        git("mv", "code.py", "other.py")
        assert unclean(tmp_path, besides=goldens) == ("code.py", "other.py")

    def test_goldens_do_not_count(self, tmp_path: Path, goldens: Path) -> None:
        (goldens / "golden").write_text("changed")
        assert unclean(tmp_path, besides=goldens) == ()

    def test_a_folder_whose_name_begins_like_theirs_counts(
        self, git: Callable[..., str], tmp_path: Path, goldens: Path
    ) -> None:
        (tmp_path / "goldens-old").mkdir()
        (tmp_path / "goldens-old" / "x").touch()
        git("add", "goldens-old")
        assert unclean(tmp_path, besides=goldens) == ("goldens-old/x",)

    def test_goldens_reached_through_a_link_do_not_count(self, tmp_path: Path, goldens: Path) -> None:
        (goldens / "golden").write_text("changed")
        (tmp_path / "link").symlink_to(goldens)
        assert unclean(tmp_path / "link", besides=tmp_path / "link") == ()

    def test_untracked_files_do_not_count(self, tmp_path: Path, goldens: Path) -> None:
        (tmp_path / "new.py").touch()
        assert unclean(tmp_path, besides=goldens) == ()

    def test_settings_of_the_environment_and_the_user_change_nothing(
        self, git: Callable[..., str], tmp_path: Path, goldens: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        git("config", "status.relativePaths", "true")
        git("config", "status.showUntrackedFiles", "all")
        git("config", "core.quotePath", "true")
        (tmp_path / "code.py").write_text("x = 2\n")
        monkeypatch.setenv("GIT_DIR", "/nowhere")
        monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere")
        monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")

        assert unclean(goldens, besides=goldens) == ("code.py",)

    def test_nothing_is_unclean_outside_a_repository(self, tmp_path: Path, goldens: Path) -> None:
        shutil.rmtree(tmp_path / ".git")
        assert unclean(tmp_path, besides=goldens) == ()

    def test_a_repository_without_git_is_not_taken_for_clean(
        self, tmp_path: Path, goldens: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))

        with pytest.raises(UsageError, match="git does not say what is uncommitted: no git is installed"):
            unclean(tmp_path, besides=goldens)

    def test_a_repository_that_git_cannot_read_is_not_taken_for_clean(self, tmp_path: Path, goldens: Path) -> None:
        (tmp_path / ".git" / "index").write_bytes(b"    " * 16)

        with pytest.raises(UsageError) as caught:
            unclean(tmp_path, besides=goldens)

        assert str(caught.value) == (
            f"{tmp_path}: git does not say what is uncommitted: error: bad signature 0x20202020 fatal: index file "
            "corrupt\n  help: do what git asks for"
        )

    def test_goldens_linked_from_elsewhere_belong_to_the_project(
        self, git: Callable[..., str], tmp_path: Path, goldens: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        (tmp_path / "linked").symlink_to(tmp_path_factory.mktemp("elsewhere"))
        (tmp_path / "code.py").write_text("changed\n")

        assert unclean(tmp_path / "linked", besides=tmp_path / "linked") == ("code.py",)

    def test_a_repository_that_cannot_be_asked_is_not_taken_for_none(self, tmp_path: Path) -> None:
        shutil.rmtree(tmp_path / ".git")
        (tmp_path / ".git").write_text("gitdir: /nowhere\n")

        with pytest.raises(UsageError, match="git does not say what is uncommitted"):
            unclean(tmp_path / "goldens", besides=tmp_path / "goldens")

    def test_the_whole_repository_is_no_folder_of_goldens(self, git: Callable[..., str], tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="is the whole repository"):
            unclean(tmp_path, besides=tmp_path)
