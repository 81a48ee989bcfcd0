from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evseq.cache.damage import NotWritable
from evseq.golden import candidate as halves
from evseq.golden.candidate import Candidate, load, store
from evseq.golden.golden import Golden, write
from evseq.golden.root import Place, Root

ONE = Place(model="small", revision="v1", script="one")

Make = Callable[..., Candidate]


def test_the_folder_is_held_while_both_halves_are_written(
    root: Root, make_candidate: Make, make_golden: Callable[..., Golden], monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bool] = []

    def watched(path: Path, golden: Golden) -> str:
        held.append((root.folder / ".evseq-lock.tmp").exists())
        return write(path, golden)

    made = make_candidate(root)
    monkeypatch.setattr(halves, "write", watched)
    store(root, make_golden(), made)

    assert held == [True]


def test_it_vouches_for_what_it_wrote_and_for_nothing_that_lies_there(
    root: Root, make_candidate: Make, make_golden: Callable[..., Golden], monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(path: Path, golden: Golden) -> str:
        seal = write(path, golden)
        write(path, make_golden(by=1.0))  # somebody who takes no lock
        return seal

    made = make_candidate(root)
    monkeypatch.setattr(halves, "write", overtaken)
    store(root, make_golden(), made)

    with pytest.raises(Exception, match="it is about another candidate than the file beside it"):
        load(root, ONE)


def test_a_folder_that_cannot_be_made_is_told(
    root: Root, tmp_path: Path, make_candidate: Make, make_golden: Callable[..., Golden]
) -> None:
    made = make_candidate(root)
    (tmp_path / "file").touch()

    with pytest.raises(NotWritable, match=r"file/small/v1: cannot be written: Not a directory"):
        store(Root(folder=tmp_path / "file"), make_golden(), made)
