"""Bytes to and from real stores, and what is said where they fail."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from fsspec.callbacks import Callback
from fsspec.implementations.local import LocalFileSystem

from evseq.cache.damage import NotWritable
from evseq.errors import EvseqError, UsageError
from evseq.golden.outage import Altered, Denied, NotInStore, Silent, Unreachable
from evseq.golden.store import Store
from evseq.golden.transfer import download, upload
from objects import Bucket, known_to, serving

NAME = "small/v1/one.safetensors"


def store(url: str, *, timeout: float = 20) -> Store:
    return Store(url=url, cache=Path("nowhere"), timeout=timeout)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file to be sent."""
    path = tmp_path / "file"
    path.write_bytes(b"golden" * 1000)
    return path


def refused(kind: type[EvseqError], asked: Store, tmp_path: Path) -> str:
    with pytest.raises(kind) as error:
        download(asked, NAME, to=tmp_path / "arrived")
    return str(error.value)


class TestObjectStore:
    def test_what_was_sent_comes_back(self, bucket: Bucket, file: Path, tmp_path: Path) -> None:
        upload(store(f"{bucket.url}/evseq"), NAME, file=file)
        download(store(f"{bucket.url}/evseq"), NAME, to=tmp_path / "arrived")
        assert bucket.objects() == [f"evseq/{NAME}"]
        assert (tmp_path / "arrived").read_bytes() == file.read_bytes()

    def test_an_object_that_is_not_there_is_named(self, bucket: Bucket, tmp_path: Path) -> None:
        assert refused(NotInStore, store(bucket.url), tmp_path).startswith(
            f"s3://bucket/{NAME}: is not in the store: An error occurred (NoSuchKey)"
        )

    def test_no_bucket_is_made_of_a_misspelt_name(self, bucket: Bucket, file: Path) -> None:
        with pytest.raises(NotInStore, match=r"^s3://buckte/small/v1/one\.safetensors: is not in the store: The spec"):
            upload(store("s3://buckte"), NAME, file=file)
        assert [path.name for path in bucket.folder.parent.iterdir()] == ["bucket"]

    def test_a_wrong_key_is_refused(
        self, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Path
    ) -> None:
        known_to(bucket, monkeypatch, secret="another-secret")
        assert refused(Denied, store(bucket.url), tmp_path) == (
            f"s3://bucket/{NAME}: access is refused: The request signature we calculated does not match the signature "
            "you provided. Check your key and signing method.\n"
            "  help: give the package of the protocol credentials that may: it reads its own environment variables and "
            "files"
        )
        with pytest.raises(Denied):
            upload(store(bucket.url), NAME, file=file)
        assert bucket.objects() == []

    def test_no_key_is_refused(self, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        known_to(bucket, monkeypatch)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        assert refused(Denied, store(bucket.url), tmp_path).startswith(
            f"s3://bucket/{NAME}: access is refused: Unable to locate credentials\n"
        )

    def test_a_dead_server_is_unreachable(self, bucket: Bucket, tmp_path: Path) -> None:
        bucket.server.kill()
        bucket.server.wait()
        assert refused(Unreachable, store(bucket.url), tmp_path) == (
            f"s3://bucket/{NAME}: cannot be reached: Could not connect to the endpoint URL: "
            f'"{bucket.endpoint}/bucket/{NAME}"\n'
            "  help: check the URL and the network; with all in the cache (`evseq golden pull`) runs need neither"
        )

    def test_a_server_that_says_nothing_is_given_up(self, bucket: Bucket, tmp_path: Path) -> None:
        os.kill(bucket.server.pid, signal.SIGSTOP)
        assert refused(Silent, store(bucket.url, timeout=0.5), tmp_path) == (
            f"s3://bucket/{NAME}: nothing moved for 0.5 s\n"
            "  help: ask again, or allow more seconds: EVSEQ_GOLDEN_TIMEOUT, or golden-timeout under [tool.evseq]"
        )


class TestWeb:
    def test_goldens_are_read_from_a_plain_web_server(self, tmp_path: Path) -> None:
        with serving(tmp_path / "server", "http") as web:
            path = web.folder / NAME
            path.parent.mkdir(parents=True)
            path.write_bytes(b"golden")
            download(store(web.url), NAME, to=tmp_path / "arrived")
            lost = refused(NotInStore, store(f"{web.url}/other"), tmp_path)
        assert (tmp_path / "arrived").read_bytes() == b"golden"
        assert lost.startswith(f"{web.url}/other/{NAME}: is not in the store: {web.url}/other/{NAME}\n")

    def test_it_takes_none(self, tmp_path: Path, file: Path) -> None:
        with serving(tmp_path / "server", "http") as web, pytest.raises(Unreachable) as error:
            upload(store(web.url), NAME, file=file)
        assert str(error.value).startswith(f"{web.url}/{NAME}: the store fails: 405, message='Method Not Allowed'")


class TestFolder:
    def test_folders_below_the_stores_own_are_made(self, tmp_path: Path, file: Path) -> None:
        upload(store(f"file://{tmp_path}"), NAME, file=file)
        assert (tmp_path / NAME).read_bytes() == file.read_bytes()

    def test_a_folder_in_place_of_an_object_is_told_as_one(self, tmp_path: Path, file: Path) -> None:
        (tmp_path / "store" / NAME).mkdir(parents=True)
        asked = store(f"file://{tmp_path}/store")
        (tmp_path / "arrived").touch()
        told = f"file://{tmp_path}/store/{NAME}: is a folder, which has to be removed"
        assert refused(Altered, asked, tmp_path).splitlines()[0] == told
        with pytest.raises(Altered, match="is a folder, which has to be removed"):
            upload(asked, NAME, file=file)

    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
    def test_a_store_that_takes_nothing_is_named(
        self, number: int, tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def put_file(*_: object, **__: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(LocalFileSystem, "put_file", put_file)
        with pytest.raises(NotWritable) as error:
            upload(store(f"file://{tmp_path}"), NAME, file=file)
        assert str(error.value) == (
            f"file://{tmp_path}/{NAME}: cannot be written: {os.strerror(number)}\n"
            "  help: check the folder's permissions and the room on its disk"
        )

    def test_the_stores_own_is_not(self, tmp_path: Path, file: Path) -> None:
        with pytest.raises(NotInStore):
            upload(store(f"file://{tmp_path}/goldens"), NAME, file=file)
        assert not (tmp_path / "goldens").exists()

    @pytest.mark.parametrize(
        ("raised", "kind", "told"),
        [
            (TimeoutError(), Silent, "did not answer in time: TimeoutError"),
            (PermissionError(13, "Permission denied"), Denied, "access is refused: [Errno 13] Permission denied"),
            (RuntimeError("of its\n own"), Unreachable, "cannot be reached: of its own"),
            (OSError(errno.EIO, "InternalError"), Unreachable, "the store fails: [Errno 5] InternalError"),
        ],
    )
    def test_whatever_a_package_raises_is_said_in_one_line(
        self,
        raised: Exception,
        kind: type[EvseqError],
        told: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def get_file(*_: object, **__: object) -> None:
            raise raised

        monkeypatch.setattr(LocalFileSystem, "get_file", get_file)
        asked = store(f"file://{tmp_path}")
        assert refused(kind, asked, tmp_path).splitlines()[0] == f"file://{tmp_path}/{NAME}: {told}"

    def test_a_slow_store_is_not_a_silent_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def get_file(*_: object, callback: Callback) -> None:
            for _step in range(8):
                time.sleep(0.2)
                callback.relative_update(1)

        monkeypatch.setattr(LocalFileSystem, "get_file", get_file)
        download(store(f"file://{tmp_path}", timeout=1.5), NAME, to=tmp_path / "arrived")

    def test_our_own_full_disk_is_not_the_stores(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def get_file(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(LocalFileSystem, "get_file", get_file)
        with pytest.raises(OSError, match="No space left on device"):
            download(store(f"file://{tmp_path}"), NAME, to=tmp_path / "arrived")


class TestPackages:
    def test_without_fsspec_its_extra_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "fsspec.core", None)
        assert refused(UsageError, store("s3://bucket"), tmp_path) == (
            "s3://bucket: fsspec is not installed\n  help: pip install 'evseq[remote]'"
        )

    def test_a_protocol_without_its_package_is_said(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "adlfs", None)
        assert refused(UsageError, store("abfs://kept/evseq"), tmp_path) == (
            "abfs://kept/evseq: Install adlfs to access Azure Datalake Gen2 and Azure Blob Storage\n"
            "  help: mend the URL, or install the package of its protocol"
        )

    def test_a_misspelt_protocol_is_said(self, tmp_path: Path) -> None:
        assert refused(UsageError, store("s4://bucket"), tmp_path) == (
            "s4://bucket: Protocol not known: s4\n  help: mend the URL, or install the package of its protocol"
        )
