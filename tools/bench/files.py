"""Files: sealing and verified opening against bare safetensors; reading live weights against looking at their bytes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from evseq.cache.content import LiveContent
from evseq.cache.identity import Identity
from evseq.cache.sealed import SealedKind, open_sealed, seal
from tools.bench.timing import Line, interleaved

__all__ = ["contents", "files"]

SIZES = (1, 16, 256, 1024)
"""Megabytes of a file."""

HELD = 256
"""Megabytes from which on a target is set: below, opening and flushing count for more than bytes."""

LAYERS = 32

LEAST_SEALING, LEAST_OPENING = 0.8, 0.5
"""Of the speed of bare safetensors."""


def files() -> Iterator[Line]:
    """Compare, at every size, writing with the same flush, and reading with every byte looked at; one core on both."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in SIZES:
            tensors = _tensors(size << 20)
            rounds = 11 if size < HELD else 5
            yield _sealing(folder, tensors, size, rounds=rounds)
            yield _opening(folder, size, rounds=rounds)


def _sealing(folder: Path, tensors: dict[str, Tensor], size: int, *, rounds: int) -> Line:
    ours, bare = folder / "ours.safetensors", folder / "bare.safetensors"

    def sealed() -> object:
        return seal(ours, kind=SealedKind.CACHE, identity=Identity(values={}), tensors=tensors, scalars={})

    def saved() -> None:
        temporary = bare.with_suffix(".tmp")
        save_file(tensors, temporary)
        _flush(temporary)
        temporary.replace(bare)
        _flush(folder)

    timed = interleaved(sealed, saved, rounds=rounds)
    speed = 1 / timed.ratio
    target, held = (f"at least {LEAST_SEALING}", speed >= LEAST_SEALING) if size >= HELD else ("", None)
    return Line(
        what=f"seal / safetensors + flush, {size} MB",
        timed=timed,
        figure=f"{speed:.2f} of its speed",
        target=target,
        held=held,
    )


def _opening(folder: Path, size: int, *, rounds: int) -> Line:
    ours, bare = folder / "ours.safetensors", folder / "bare.safetensors"

    def verified() -> object:
        return _read(open_sealed(ours, kind=SealedKind.CACHE).tensors.values())

    def loaded() -> object:
        return _read(load_file(bare).values())

    timed = interleaved(verified, loaded, rounds=rounds)
    speed = 1 / timed.ratio
    target, held = (f"at least {LEAST_OPENING}", speed >= LEAST_OPENING) if size >= HELD else ("", None)
    return Line(
        what=f"verified open / safetensors, {size} MB",
        timed=timed,
        figure=f"{speed:.2f} of its speed",
        target=target,
        held=held,
    )


def contents() -> Line:
    """Compare the check that live weights are what they were with summing them up once."""
    weights = _tensors(256 << 20)
    live = LiveContent(lambda: weights)
    timed = interleaved(live.digests, lambda: _read(weights.values()), rounds=9)
    return Line(what="content of live weights / reading them once, 256 MB", timed=timed, figure=f"{timed.ratio:.2f} x")


def _tensors(size: int) -> dict[str, Tensor]:
    each = size // LAYERS // 2 // 4
    generator = torch.Generator().manual_seed(1)
    names = [f"layer.{layer}.{part}" for layer in range(LAYERS) for part in ("keys", "values")]
    return {name: torch.randn(each, generator=generator) for name in names}


def _read(tensors: object) -> list[float]:
    """Look at every byte: what is mapped and not looked at was not loaded."""
    return [float(tensor.view(torch.int32).sum()) for tensor in tensors]  # type: ignore[attr-defined]


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
