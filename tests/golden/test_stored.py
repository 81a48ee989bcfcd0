"""All goldens of a root in a store at once; acceptance, status and comparison with such a root."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from candidates import adopt, propose
from evseq.golden.acceptance import accept
from evseq.golden.comparison import between
from evseq.golden.ledger import Ledger
from evseq.golden.outage import Altered, NotInStore, Unreachable
from evseq.golden.review import review
from evseq.golden.root import Place, Root
from evseq.golden.status import Status, prune, status
from evseq.golden.store import Store
from evseq.golden.stored import Moved, entries, forget, pins, pull, push

MOVED = (1, 1, 1.5)
TODAY = dt.date(2026, 3, 2)
CROP = Place(model="small", revision="v1", script="crop")

ACCEPT = """
import datetime, os, signal, sys
from pathlib import Path
from evseq.golden.acceptance import accept
from evseq.golden.choice import chosen
from evseq.golden.root import Root
from evseq.golden.store import Store

def killing(last, function):
    def called(path, *arguments, **named):
        if last in [Path(one).name for one in (path, *arguments)]:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(path, *arguments, **named)
    return called

for folder, last in (job.split(",") for job in sys.argv[1:]):
    if os.fork() == 0:
        store = Store(url=f"file://{folder}/store", cache=Path(folder, "cache"))
        root = Root(folder=Path(folder, "goldens"), store=store)
        Path.replace, Path.unlink = killing(last, Path.replace), killing(last, Path.unlink)
        accept(root, chosen(root), reason="why", environment={}, today=datetime.date(2026, 3, 2))
        os._exit(0)
print([os.waitstatus_to_exitcode(os.wait()[1]) for _ in sys.argv[1:]])
"""
"""Accepts what waits in a process for each `FOLDER,NAME`, killed before a file NAME gets or loses it."""


def stored(folder: Path) -> Root:
    """Return a root whose store is a folder beside it."""
    (folder / "store").mkdir(parents=True)
    return Root(folder=folder / "goldens", store=Store(url=f"file://{folder}/store", cache=folder / "cache"))


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """Return a root with nothing in it."""
    return stored(tmp_path)


@pytest.fixture
def store(root: Root) -> Store:
    assert root.store is not None
    return root.store


def objects(tmp_path: Path) -> list[Path]:
    return sorted(path for path in (tmp_path / "store").rglob("*") if path.is_file())


def here(root: Root) -> list[str]:
    return sorted(path.name for path in root.folder.rglob("*") if path.is_file())


def seen(root: Root, *, audit: bool = True) -> Status:
    return status(root, scripts=["crop"], audit=audit)


class TestAccept:
    def test_the_ledger_is_here_and_the_bytes_are_there(self, root: Root, tmp_path: Path) -> None:
        adopt(root)
        seal = pins(root)[CROP]
        assert here(root) == ["LEDGER.yaml"]
        assert [str(path.relative_to(tmp_path)) for path in objects(tmp_path)] == [
            f"store/small/v1/crop.{seal}.safetensors"
        ]

    def test_the_golden_before_stays_for_older_commits(self, root: Root, tmp_path: Path) -> None:
        adopt(root)
        adopt(root, MOVED)
        assert len(objects(tmp_path)) == 2

    def test_a_store_that_takes_nothing_changes_nothing(self, root: Root, tmp_path: Path) -> None:
        propose(root)
        (tmp_path / "store").rmdir()
        with pytest.raises(NotInStore):
            accept(root, [CROP], reason="why", environment={}, today=TODAY)
        assert here(root) == ["crop.candidate.json", "crop.candidate.safetensors"]

    def test_a_killed_process_leaves_old_or_new_and_a_rerun_finishes(self, tmp_path: Path) -> None:
        lasts = ("LEDGER.yaml", "crop.candidate.safetensors", "crop.candidate.json")
        roots = [stored(tmp_path / last) for last in lasts]
        for root in roots:
            adopt(root)
            propose(root, MOVED)
        old = [pins(root)[CROP] for root in roots]

        jobs = [f"{tmp_path}/{last},{last}" for last in lasts]
        done = subprocess.run([sys.executable, "-c", ACCEPT, *jobs], stdout=subprocess.PIPE, text=True, check=True)
        between = [len(Ledger.read(root.ledger("small")).entries) for root in roots]
        whole = [seen(root).damaged for root in roots]
        for root in roots:
            accept(root, [CROP], reason="why", environment={}, today=TODAY)

        assert done.stdout.strip() == str([-signal.SIGKILL] * 3)
        assert (between, whole) == ([1, 2, 2], [(), (), ()])
        assert [pins(root)[CROP] != before for root, before in zip(roots, old, strict=True)] == [True] * 3
        assert [(seen(root).problems, here(root)) for root in roots] == [((), ["LEDGER.yaml"])] * 3

    def test_a_review_compares_with_what_is_in_the_store(self, root: Root) -> None:
        adopt(root)
        propose(root, MOVED)
        found = review(root, CROP).drift
        assert found is not None
        assert len(found.moved) == 1

    def test_a_review_does_not_go_on_without_the_store(self, root: Root, store: Store) -> None:
        adopt(root)
        forget(entries(store.folder))
        propose(root, MOVED)
        away = Root(folder=root.folder, store=Store(url="http://127.0.0.1:9", cache=store.cache))
        with pytest.raises(Unreachable):
            review(away, CROP)

    def test_revisions_are_compared(self, root: Root) -> None:
        adopt(root)
        adopt(root, MOVED, at="small/v2/crop")
        (one,) = between(root, "v2", "v1")
        assert len(one.drifts["crop"].moved) == 1


class TestStatus:
    def test_all_in_order(self, root: Root) -> None:
        adopt(root)
        assert (seen(root).accepted, seen(root).problems) == ((CROP,), ())

    def test_changed_underneath_is_told_past_the_cache(self, root: Root, tmp_path: Path) -> None:
        adopt(root)
        (path,) = objects(tmp_path)
        path.write_bytes(b"something else")
        ((address, told),) = seen(root).problems
        assert address == f"file://{path}"
        assert told.startswith(f"is not the golden of seal {pins(root)[CROP]} that was accepted: ")

    def test_without_an_audit_no_store_is_asked(self, root: Root, tmp_path: Path) -> None:
        adopt(root)
        (path,) = objects(tmp_path)
        path.unlink()
        assert (seen(root, audit=False).accepted, seen(root, audit=False).problems) == ((CROP,), ())

    def test_a_store_that_fails_is_told_once(self, root: Root, store: Store) -> None:
        adopt(root)
        adopt(root, at="small/v2/crop")
        away = Root(folder=root.folder, store=Store(url="http://127.0.0.1:9", cache=store.cache))
        ((address, told),) = seen(away).problems
        assert address.startswith("http://127.0.0.1:9/small/v1/crop.")
        assert told.startswith("cannot be reached: Cannot connect to host 127.0.0.1:9 ")

    def test_a_golden_left_in_the_folder_is_told(self, root: Root, store: Store) -> None:
        adopt(Root(folder=root.folder))
        assert [told for _, told in seen(root, audit=False).problems] == [
            f"goldens are kept in {store.url}: `evseq golden push`, then remove it here"
        ]

    def test_pruned_ones_stay_in_the_store(self, root: Root, tmp_path: Path) -> None:
        adopt(root)
        assert prune(root, scripts=["fork"], reason="gone", delete=True, environment={}, today=TODAY) == (CROP,)
        assert (pins(root), len(objects(tmp_path))) == ({}, 1)


class TestMoves:
    def test_goldens_of_a_folder_move_to_a_store(self, root: Root, store: Store) -> None:
        adopt(Root(folder=root.folder))
        assert list(push(root, store)) == [(CROP, Moved.SENT)]
        root.golden(CROP).unlink()
        assert list(push(root, store)) == [(CROP, Moved.THERE)]
        assert seen(root).problems == ()

    def test_a_cache_mends_the_store(self, root: Root, store: Store, tmp_path: Path) -> None:
        adopt(root)
        (path,) = objects(tmp_path)
        path.write_bytes(b"something else")
        assert list(push(root, store)) == [(CROP, Moved.SENT)]
        assert seen(root).problems == ()

    def test_what_is_nowhere_is_told(self, root: Root, store: Store, tmp_path: Path) -> None:
        adopt(root)
        (path,) = objects(tmp_path)
        path.write_bytes(b"something else")
        forget(entries(store.folder))
        assert [type(happened) for _, happened in push(root, store)] == [Altered]
        path.unlink()
        assert [type(happened) for _, happened in pull(root, store)] == [NotInStore]

    def test_a_cache_is_filled(self, root: Root, store: Store) -> None:
        adopt(root)
        forget(entries(store.folder))
        assert list(pull(root, store)) == [(CROP, Moved.FETCHED)]
        assert list(pull(root, store)) == [(CROP, Moved.THERE)]

    def test_a_cache_tells_the_longest_unused_first(self, root: Root, store: Store) -> None:
        adopt(root)
        adopt(root, MOVED, at="small/v2/crop")
        old = store.folder / f"{pins(root)[Place(model='small', revision='v2', script='crop')]}.safetensors"
        os.utime(old, (time.time() - 100, time.time() - 100))
        assert [entry.path == old for entry in entries(store.folder)] == [True, False]
