from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

from evseq.cache import sealed
from evseq.cache.canonical import Scalar
from evseq.cache.damage import NotWritable, Unsealable
from evseq.cache.header import SealedKind
from evseq.cache.identity import Identity
from evseq.cache.sealed import open_sealed, seal

IDENTITY = Identity(values={"salt": "tenant"})
TENSORS = {"keys": torch.arange(24.0).view(4, 6), "length": torch.tensor(7)}

WRITE_LARGE = """
import itertools, sys, torch
from evseq.cache.identity import Identity
from evseq.cache.sealed import SealedKind, seal
for number in itertools.count():
    tensors = {"keys": torch.full((1 << 23,), number)}
    seal(sys.argv[1], kind=SealedKind.CACHE, identity=Identity(values={}), tensors=tensors, scalars={"number": number})
    print(number, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a small sealed cache lies."""
    path = tmp_path / "mid.safetensors"
    seal(path, kind=SealedKind.CACHE, identity=IDENTITY, tensors=TENSORS, scalars={})
    return path


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every file be as a large one: flushed while its tensors are digested."""
    monkeypatch.setattr(sealed, "LARGE", 0)


class TestUnsealable:
    @pytest.mark.parametrize(
        ("tensors", "scalars", "evidence"),
        [
            (
                {"keys": torch.zeros(2, dtype=torch.complex64)},
                {},
                "tensor 'keys': torch.complex64 is not one of torch.float64, torch.float32, torch.bfloat16, ",
            ),
            ({}, {"a": [1 << 64]}, "header.scalars.a[0]: 18446744073709551616 does not fit in 64 bits\n"),
            (
                {},
                {"a": {"b": b"c"}},
                "header.scalars.a.b: bytes is not one of None, bool, int, float, str, list, dict\n",
            ),
            ({"__metadata__": torch.zeros(1)}, {}, "tensor '__metadata__': the format keeps this name for itself\n"),
            ({"\ud800": torch.zeros(1)}, {}, "header.digests: '\\ud800' is not Unicode text\n"),
        ],
    )
    def test_what_the_format_cannot_hold_is_refused_and_the_old_file_stays(
        self, tensors: dict[str, Tensor], scalars: dict[str, Scalar], evidence: str, path: Path
    ) -> None:
        before = path.read_bytes()

        with pytest.raises(Unsealable) as caught:
            seal(path, kind=SealedKind.CACHE, identity=IDENTITY, tensors=tensors, scalars=scalars)

        assert str(caught.value).startswith(f"{path}: {evidence}")
        assert path.read_bytes() == before


@pytest.mark.parametrize("milliseconds", [5, 40, 120])
def test_a_writer_killed_at_any_time_leaves_a_whole_file(milliseconds: int, tmp_path: Path) -> None:
    path = tmp_path / "mid.safetensors"
    with subprocess.Popen([sys.executable, "-c", WRITE_LARGE, path], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        written = int(writer.stdout.readline())
        time.sleep(milliseconds / 1000)
        writer.kill()

    found = open_sealed(path, kind=SealedKind.CACHE)
    seal(tmp_path / "next", kind=SealedKind.CACHE, identity=IDENTITY, tensors={}, scalars={})

    assert found.tensors["keys"].unique().tolist() == [found.scalars["number"]]
    assert found.tensors["keys"][0] >= written
    assert list(tmp_path.glob(".evseq-*.tmp")) == []


class TestLarge:
    @pytest.mark.parametrize("kind", SealedKind)
    def test_a_large_file_has_the_bytes_and_the_seal_of_a_small_one(
        self, kind: SealedKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scalars: dict[str, Scalar] = {"length": 3, "held": [1, 2.5, None]}
        small = seal(tmp_path / "small", kind=kind, identity=IDENTITY, tensors=TENSORS, scalars=scalars)

        monkeypatch.setattr(sealed, "LARGE", 0)
        large = seal(tmp_path / "large", kind=kind, identity=IDENTITY, tensors=TENSORS, scalars=scalars)

        assert large == small
        assert (tmp_path / "large").read_bytes() == (tmp_path / "small").read_bytes()

    @pytest.mark.usefixtures("large")
    def test_what_the_format_cannot_hold_is_refused_before_a_byte_is_written(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = path.read_bytes()
        monkeypatch.setattr(sealed, "replacing", None)

        with pytest.raises(Unsealable, match=r"header\.scalars\.a\[0\]: 18446744073709551616 does not fit"):
            seal(path, kind=SealedKind.CACHE, identity=IDENTITY, tensors=TENSORS, scalars={"a": [1 << 64]})

        assert path.read_bytes() == before

    @pytest.mark.usefixtures("large")
    def test_a_disk_that_fails_while_tensors_are_digested_leaves_the_old_file(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = path.read_bytes()

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(NotWritable, match=r"mid\.safetensors: cannot be written: No space left on device"):
            seal(path, kind=SealedKind.CACHE, identity=IDENTITY, tensors={"keys": torch.ones(3)}, scalars={})

        assert path.read_bytes() == before
        assert list(path.parent.glob(".evseq-*.tmp")) == []

    @pytest.mark.usefixtures("large")
    def test_an_interrupt_while_tensors_are_digested_leaves_the_old_file(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = path.read_bytes()

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(sealed, "_digests", interrupted)
        with pytest.raises(KeyboardInterrupt):
            seal(path, kind=SealedKind.CACHE, identity=IDENTITY, tensors={"keys": torch.ones(3)}, scalars={})

        assert path.read_bytes() == before
        assert list(path.parent.glob(".evseq-*.tmp")) == []
