"""Where commands put a text they were told to write."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from evseq.errors import UsageError
from evseq.report.output import fixed, put


class TestPut:
    def test_a_text_takes_the_place_of_another(self, tmp_path: Path) -> None:
        put(tmp_path / "a.json", "one\n")
        put(tmp_path / "a.json", "zwei ä\n")

        assert (tmp_path / "a.json").read_bytes() == "zwei ä\n".encode()
        assert [path.name for path in tmp_path.iterdir()] == ["a.json"]

    def test_a_full_disk_leaves_what_was_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        put(tmp_path / "a.json", "one\n")

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(UsageError) as refused:
            put(tmp_path / "a.json", "two\n")

        assert str(refused.value) == (
            f"{tmp_path}/a.json: cannot be written: No space left on device\n"
            "  help: name a file in a folder you may write to"
        )
        assert (tmp_path / "a.json").read_text() == "one\n"

    def test_a_link_stays_one(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to("a.json")

        put(tmp_path / "link", "one\n")

        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "a.json").read_text() == "one\n"

    def test_a_device_is_written_into(self) -> None:
        put(Path(os.devnull), "one\n")

        assert not Path(os.devnull).is_file()


class TestFixed:
    def test_a_file_that_may_be_written_is_not_made(self, tmp_path: Path) -> None:
        fixed(tmp_path / "a.json")
        fixed(Path(os.devnull))

        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("name", "told"), [("absent/a.json", "No such file or directory"), (".", "Is a directory")]
    )
    def test_where_nothing_can_be_put_is_told(self, name: str, told: str, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=rf"cannot be written: {told}\n  help: name a file in a folder"):
            fixed(tmp_path / name)
