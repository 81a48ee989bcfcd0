"""Accepted goldens in a store: the cache, what is never used of either, and a store that fails."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evseq.cache.damage import FieldDamaged, NotThere, NotWritable
from evseq.golden import reader as module
from evseq.golden.golden import Golden, write
from evseq.golden.outage import Altered, NotInStore, Unreachable
from evseq.golden.reader import Reader, cached, fetched, published
from evseq.golden.root import Place, Root
from evseq.golden.store import Store

PLACE = Place(model="small", revision="v1", script="one")
OTHER = "0" * 64

FETCH = """
import os, sys
from pathlib import Path
from evseq.golden.reader import fetched
from evseq.golden.root import Place
from evseq.golden.store import Store

url, cache, seal = sys.argv[1:]
for _ in range(6):
    if os.fork() == 0:
        for _ in range(5):
            fetched(Store(url=url, cache=Path(cache)), Place(model="small", revision="v1", script="one"), seal)
        os._exit(0)
print([os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(6)])
"""
"""Fetches one golden in six processes, five times each."""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """Return a root whose store is a folder."""
    (tmp_path / "store").mkdir()
    return Root(folder=tmp_path / "goldens", store=Store(url=f"file://{tmp_path}/store", cache=tmp_path / "cache"))


@pytest.fixture
def store(root: Root) -> Store:
    assert root.store is not None
    return root.store


@pytest.fixture
def seal(tmp_path: Path, store: Store, make_golden: Callable[..., Golden]) -> str:
    """Return the seal of a golden that is in the store and not in the cache."""
    seal = write(tmp_path / "made", make_golden())
    published(store, PLACE, seal, tmp_path / "made")
    (store.folder / f"{seal}.safetensors").unlink()
    return seal


def object_of(tmp_path: Path, seal: str) -> Path:
    return tmp_path / "store" / "small" / "v1" / f"one.{seal}.safetensors"


class TestCache:
    def test_what_was_read_once_needs_no_store(self, root: Root, seal: str, tmp_path: Path) -> None:
        Reader().read(root, PLACE, seal)
        object_of(tmp_path, seal).unlink()
        assert Reader().read(root, PLACE, seal).seal == seal

    def test_a_file_is_named_by_its_seal(self, root: Root, store: Store, seal: str) -> None:
        Reader().read(root, PLACE, seal)
        assert [path.name for path in store.folder.iterdir()] == [f"{seal}.safetensors"]

    def test_a_damaged_entry_is_fetched_anew(self, root: Root, store: Store, seal: str) -> None:
        Reader().read(root, PLACE, seal)
        path = store.folder / f"{seal}.safetensors"
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        assert Reader().read(root, PLACE, seal).seal == seal
        assert path.read_bytes() == whole

    def test_an_entry_under_anothers_name_is_fetched_anew(
        self, root: Root, store: Store, seal: str, make_golden: Callable[..., Golden]
    ) -> None:
        write(store.folder / f"{seal}.safetensors", make_golden(seed=1))
        assert cached(store, seal) is None
        assert Reader().read(root, PLACE, seal).seal == seal

    def test_using_an_entry_makes_it_young(self, root: Root, store: Store, seal: str) -> None:
        Reader().read(root, PLACE, seal)
        path = store.folder / f"{seal}.safetensors"
        os.utime(path, (0, 0))
        Reader().read(root, PLACE, seal)
        assert path.stat().st_mtime > 0

    def test_many_processes_may_fetch_at_once(self, store: Store, seal: str) -> None:
        arguments = [sys.executable, "-c", FETCH, store.url, str(store.cache), seal]
        done = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=True)
        assert done.stdout.strip() == "[0, 0, 0, 0, 0, 0]"
        assert [path.name for path in store.folder.iterdir()] == [f"{seal}.safetensors"]

    def test_a_cache_that_cannot_be_written_is_said(self, root: Root, store: Store, seal: str, tmp_path: Path) -> None:
        store.folder.rmdir()
        store.cache.rmdir()
        store.cache.write_text("a file")
        with pytest.raises(NotWritable) as error:
            Reader().read(root, PLACE, seal)
        assert str(error.value).startswith(f"{tmp_path}/cache/goldens: cannot be written: Not a directory\n")

    def test_a_full_disk_is_said_and_leaves_nothing(
        self, root: Root, store: Store, seal: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def download(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(module, "download", download)
        with pytest.raises(NotWritable) as error:
            Reader().read(root, PLACE, seal)
        assert str(error.value).startswith(
            f"{store.folder}/{seal}.safetensors: cannot be written: No space left on device\n"
        )
        assert list(store.folder.iterdir()) == []


class TestPins:
    def test_what_was_never_accepted_is_not_asked_for(self, root: Root, seal: str) -> None:
        with pytest.raises(NotThere, match="no golden of this name was accepted"):
            Reader().read(root, PLACE, None)

    def test_another_golden_at_the_address_is_not_used(
        self, root: Root, store: Store, seal: str, tmp_path: Path, make_golden: Callable[..., Golden]
    ) -> None:
        there = write(object_of(tmp_path, seal), make_golden(seed=1))
        with pytest.raises(Altered) as error:
            Reader().read(root, PLACE, seal)
        assert str(error.value) == (
            f"{store.url}/small/v1/one.{seal}.safetensors: is not the golden that was accepted: its seal is {there}, "
            f"accepted {seal}\n"
            "  help: `evseq golden push` puts it back from where it still lies, in the goldens folder or a cache"
        )
        assert list(store.folder.iterdir()) == []

    def test_changed_bytes_are_not_used(self, root: Root, store: Store, seal: str, tmp_path: Path) -> None:
        path = object_of(tmp_path, seal)
        path.write_bytes(path.read_bytes()[:-4] + b"evil")
        with pytest.raises(Altered) as error:
            Reader().read(root, PLACE, seal)
        assert str(error.value).startswith(
            f"{store.url}/small/v1/one.{seal}.safetensors: is not the golden of seal {seal} that was accepted: tensor "
        )
        assert list(store.folder.iterdir()) == []

    def test_a_golden_that_is_gone_is_named(self, root: Root, store: Store, seal: str, tmp_path: Path) -> None:
        object_of(tmp_path, seal).unlink()
        with pytest.raises(NotInStore) as error:
            Reader().read(root, PLACE, seal)
        assert str(error.value).startswith(f"{store.url}/small/v1/one.{seal}.safetensors: is not in the store: ")

    @pytest.mark.parametrize("said", ["../../etc/passwd", "", "3F" * 32])
    def test_what_is_no_seal_names_no_file(self, root: Root, said: str) -> None:
        with pytest.raises(FieldDamaged, match="in a ledger is no seal"):
            Reader().read(root, PLACE, said)

    @pytest.mark.parametrize("script", ["../one", "", ".one", "a/b", "*", "one?x"])
    def test_what_is_no_name_leads_nowhere(self, root: Root, script: str) -> None:
        with pytest.raises(FieldDamaged, match="in a ledger is no name"):
            Reader().read(root, replace(PLACE, script=script), OTHER)


class TestOutage:
    def test_a_store_that_failed_is_asked_once(
        self, root: Root, store: Store, seal: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = []

        def download(store: Store, name: str, **_: object) -> None:
            asked.append(name)
            raise Unreachable(store.address(name), "cannot be reached")

        monkeypatch.setattr(module, "download", download)
        reader = Reader()
        for script in ("one", "two"):
            with pytest.raises(Unreachable, match=r"one\.[0-9a-f]*\.safetensors: cannot be reached"):
                reader.read(root, replace(PLACE, script=script), seal)
        assert len(asked) == 1

    def test_the_cache_is_used_all_the_same(self, root: Root, store: Store, seal: str) -> None:
        fetched(store, PLACE, seal)
        reader = Reader(outage=Unreachable("s3://bucket", "cannot be reached"))
        assert reader.read(root, PLACE, seal).seal == seal

    def test_one_golden_that_is_lost_is_none(
        self, root: Root, seal: str, tmp_path: Path, make_golden: Callable[..., Golden]
    ) -> None:
        reader = Reader()
        with pytest.raises(NotInStore):
            reader.read(root, PLACE, OTHER)
        assert reader.read(root, PLACE, seal).seal == seal


class TestPublished:
    def test_what_is_there_is_not_sent_again(self, store: Store, seal: str, tmp_path: Path) -> None:
        before = object_of(tmp_path, seal).stat().st_mtime_ns
        assert not published(store, PLACE, seal, tmp_path / "made")
        assert object_of(tmp_path, seal).stat().st_mtime_ns == before

    def test_half_an_upload_is_sent_again(self, store: Store, seal: str, tmp_path: Path) -> None:
        path = object_of(tmp_path, seal)
        path.write_bytes(path.read_bytes()[:100])
        assert published(store, PLACE, seal, tmp_path / "made")
        assert path.read_bytes() == (tmp_path / "made").read_bytes()

    def test_a_store_that_loses_bytes_is_found_out(
        self, store: Store, seal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def upload(*_: object, file: Path) -> None:
            object_of(tmp_path, seal).write_bytes(file.read_bytes()[:100])

        monkeypatch.setattr(module, "upload", upload)
        object_of(tmp_path, seal).unlink()
        with pytest.raises(Altered):
            published(store, PLACE, seal, tmp_path / "made")
