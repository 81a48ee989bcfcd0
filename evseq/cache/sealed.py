"""Sealed files: one format for caches, goldens and recordings, verified whole before anything of it is used."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from os import PathLike

import torch
from torch import Tensor

from evseq.cache.canonical import Scalar
from evseq.cache.content import blake3_digest, byte_runs, tensor_digest
from evseq.cache.damage import DigestMismatch, Unsealable
from evseq.cache.frame import Extent, Form
from evseq.cache.header import WRITTEN, Algorithm, SealedKind, encode, read
from evseq.cache.identity import Identity
from evseq.cache.opening import opened
from evseq.cache.replacing import replacing

__all__ = ["Sealed", "SealedKind", "open_sealed", "seal"]

NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""The format's names of torch's dtypes."""

DTYPES = {name: dtype for dtype, name in NAMES.items()}

DIGESTS: Mapping[Algorithm, Callable[[Tensor], str]] = {
    Algorithm.SHA256: tensor_digest,
    Algorithm.BLAKE3: blake3_digest,
}

BLANK = "0" * 64
"""Stands in a header for a digest that is still to come."""

LARGE = 2**23
"""Bytes of tensors from which on they are digested while the disk flushes them: `nox -s bench` shows no difference at
16 MB and a fifth at 256 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A verified file. The tensors map it: what is not touched is not loaded, what is written stays in memory.

    `seal` is a digest of everything the file holds.
    """

    identity: Identity
    scalars: Mapping[str, Scalar]
    tensors: Mapping[str, Tensor]
    seal: str


def seal(
    path: str | PathLike[str],
    *,
    kind: SealedKind,
    identity: Identity,
    tensors: Mapping[str, Tensor],
    scalars: Mapping[str, Scalar],
) -> str:
    """Write a sealed file in place of whatever has that name, and return its seal.

    The same state gives the same bytes everywhere.

    The tensors may lie on any device, in any strides, and share memory. Raise `Unsealable` for what the format cannot
    hold and `NotWritable` where the system refuses; the old file is then whole.
    """
    forms = {name: _form(path, name, tensor) for name, tensor in tensors.items()}
    algorithm = WRITTEN[kind]
    headed = partial(encode, kind=kind, algorithm=algorithm, identity=identity, scalars=scalars, forms=forms)
    large = sum(tensor.nbytes for tensor in tensors.values()) >= LARGE
    try:
        # A large file goes to the disk first: its header is as long whatever the digests are.
        header, order, vouching = headed(digests=dict.fromkeys(forms, BLANK) if large else _digests(tensors, algorithm))
    except (TypeError, ValueError) as error:
        raise Unsealable(path, str(error)) from None
    with replacing(path) as file:
        file.write(header)
        for name in order:
            for run in byte_runs(tensors[name]):
                file.write(run)
        if large:
            file.flush()
            with ThreadPoolExecutor(max_workers=1) as thread:
                flushed = thread.submit(os.fsync, file.fileno())
                header, _, vouching = headed(digests=_digests(tensors, algorithm))
                flushed.result()
            file.seek(0)
            file.write(header)
    return vouching


def open_sealed(path: str | PathLike[str], *, kind: SealedKind) -> Sealed:
    """Return what a sealed file holds, after every byte of it was verified.

    Sizes and limits come first, then the header, then the digest of every tensor. Raise a `Damage` at the first thing
    that is wrong; nothing is returned of a damaged file.
    """
    with opened(path) as file:
        header = read(path, file, kind=kind)
        # Private to us: a caller may write into the tensors, and the file keeps its bytes.
        mapped = mmap.mmap(file.fileno(), header.size, access=mmap.ACCESS_COPY)
    tensors = {name: _tensor(mapped, extent) for name, extent in header.extents.items()}
    for name, tensor in tensors.items():
        if (actual := DIGESTS[header.algorithm](tensor)) != header.digests[name]:
            place = f"tensor {name!r}, bytes {header.extents[name].start} to {header.extents[name].stop}"
            raise DigestMismatch(path, f"{place}: {header.algorithm} is {actual}, recorded {header.digests[name]}")
    return Sealed(identity=header.identity, scalars=header.scalars, tensors=tensors, seal=header.seal)


def _digests(tensors: Mapping[str, Tensor], algorithm: Algorithm) -> dict[str, str]:
    return {name: DIGESTS[algorithm](tensor) for name, tensor in tensors.items()}


def _form(path: str | PathLike[str], name: str, tensor: Tensor) -> Form:
    dtype = NAMES.get(tensor.dtype)
    if dtype is None:
        raise Unsealable(path, f"tensor {name!r}: {tensor.dtype} is not one of {', '.join(map(str, NAMES))}")
    return dtype, tuple(tensor.shape)


def _tensor(mapped: mmap.mmap, extent: Extent) -> Tensor:
    dtype = DTYPES[extent.dtype]
    count = (extent.stop - extent.start) // dtype.itemsize
    if count == 0:
        return torch.empty(extent.shape, dtype=dtype)
    return torch.frombuffer(mapped, dtype=dtype, count=count, offset=extent.start).view(extent.shape)
