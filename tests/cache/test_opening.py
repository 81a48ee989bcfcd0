from __future__ import annotations

import os
from pathlib import Path

import pytest

from evseq.cache.damage import (
    FieldDamaged,
    HeaderTooLarge,
    LeadsOut,
    NotAFile,
    NotReadable,
    NotThere,
    SaidTwice,
    TooLarge,
)
from evseq.cache.header import SealedKind
from evseq.cache.opening import opened, plain_json, whole
from evseq.cache.sealed import open_sealed
from evseq.golden.ledger import Ledger, LedgerError
from evseq.golden.witness import read as read_witness


class TestWhole:
    def test_a_file_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"four")

        assert whole(tmp_path / "file", most=4) == b"four"

    def test_a_longer_one_is_not(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"fives")

        with pytest.raises(TooLarge) as caught:
            whole(tmp_path / "file", most=4)

        assert str(caught.value) == (
            f"{tmp_path}/file: 5 bytes, at most 4 are read\n"
            "  help: the file was changed after it was written: take an undamaged copy, or write it again"
        )

    def test_ten_gigabytes_of_nothing_are_not_read(self, tmp_path: Path) -> None:
        with (tmp_path / "file").open("wb") as file:
            file.truncate(10 << 30)

        with pytest.raises(TooLarge, match="10737418240 bytes, at most 100 are read"):
            whole(tmp_path / "file", most=100)

    def test_what_grows_without_a_size_is_read_no_further(self) -> None:
        with pytest.raises(TooLarge, match="101 bytes, at most 100 are read"):
            whole("/proc/self/smaps", most=100)  # the system says it has no bytes

    def test_a_name_with_a_zero_in_it_is_nobodys(self) -> None:
        with pytest.raises(NotThere, match="no such file"):
            whole("a\0b", most=100)

    def test_a_link_to_a_file_is_followed(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"four")
        (tmp_path / "link").symlink_to("file")

        assert whole(tmp_path / "link", most=4) == b"four"

    def test_a_link_to_itself_is_not_readable(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to("link")

        with pytest.raises(NotReadable, match="cannot be read: Too many levels of symbolic links"):
            whole(tmp_path / "link", most=4)


@pytest.fixture(params=["folder", "pipe", "device", "link to a device"])
def no_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a path that is no file's, though it can be opened."""
    path = tmp_path / "path"
    match request.param:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "device":
            return Path("/dev/zero")
        case _:
            path.symlink_to("/dev/zero")
    return path


class TestNoFile:
    def test_is_neither_waited_for_nor_read(self, no_file: Path) -> None:
        with pytest.raises(NotAFile, match="not a regular file"), opened(no_file):
            pass

    def test_is_no_sealed_file(self, no_file: Path) -> None:
        with pytest.raises(NotAFile):
            open_sealed(no_file, kind=SealedKind.CACHE)

    def test_is_no_ledger(self, no_file: Path) -> None:
        with pytest.raises(LedgerError, match="not a regular file"):
            Ledger.read(no_file)

    def test_is_no_witness(self, no_file: Path) -> None:
        with pytest.raises((NotAFile, LeadsOut)):
            read_witness(no_file)


def test_a_pipe_that_takes_the_name_between_two_looks_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    really = os.open

    def exchanged(path: str, flags: int) -> int:
        (tmp_path / "file").unlink()
        os.mkfifo(tmp_path / "file")
        return really(path, flags)

    monkeypatch.setattr("evseq.cache.opening.os.open", exchanged)

    with pytest.raises(NotAFile), opened(tmp_path / "file"):
        pass


def test_a_sparse_file_is_refused_by_its_header(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.write(b"\xff" * 8)
        file.truncate(10 << 30)

    with pytest.raises(HeaderTooLarge):
        open_sealed(tmp_path / "file", kind=SealedKind.CACHE)


class TestPlainJson:
    @pytest.mark.parametrize(
        ("text", "error", "message"),
        [
            ('{"a": {"b": 1, "b": 2}}', SaidTwice, "the key 'b' is said twice"),
            ('{"a": NaN}', FieldDamaged, "NaN is no number that JSON has"),
            ('{"a": -Infinity}', FieldDamaged, "-Infinity is no number that JSON has"),
            ("[" * 100_000, FieldDamaged, "not JSON: "),
            ("9" * 5000, FieldDamaged, "not JSON: "),
            ("{", FieldDamaged, "not JSON: Expecting property name"),
        ],
    )
    def test_what_readers_differ_about_is_refused(
        self, text: str, error: type[Exception], message: str, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text(text)

        with pytest.raises(error, match=message):
            plain_json(tmp_path / "file", most=1 << 20)

    def test_bytes_come_back_as_they_are(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b' {"a": 1}\n')

        assert plain_json(tmp_path / "file", most=100) == b' {"a": 1}\n'
