"""Digests of what tensors hold now, and a checksum quick enough to ask at every reload whether that moved."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping

import torch
from blake3 import blake3
from jaxtyping import Int64, UInt8
from torch import Tensor

from evseq.cache.canonical import Scalar, canonical

__all__ = ["LiveContent", "blake3_digest", "byte_runs", "checksum", "root", "tensor_digest"]

WORD = 8
"""Bytes of one word of a checksum."""

WIDTH = 256
"""Words in one row of a checksum; the more rows, the less likely that changes cancel out in all of them."""

RUN = 1 << 20
"""Bytes worked on at once: their mixed copy stays in a core's second-level cache between the sums."""

SMALL = 1 << 16
"""Bytes of a tensor that SHA-256 is through with before a checksum has begun."""


def tensor_digest(tensor: Tensor) -> str:
    """Return SHA-256 over dtype, shape and elements in row-major order, in hexadecimal.

    Any device and any strides; two tensors have one digest exactly when they are equal bit for bit. A tensor that is
    not contiguous is copied a run at a time.
    """
    digest = hashlib.sha256(_form(tensor.dtype, tensor.shape))
    for run in byte_runs(tensor):
        digest.update(run)
    return digest.hexdigest()


def blake3_digest(tensor: Tensor) -> str:
    """Return BLAKE3 over what `tensor_digest` is SHA-256 of, at three times its speed on one core."""
    digest = blake3(_form(tensor.dtype, tensor.shape))
    for run in byte_runs(tensor):
        digest.update(run)
    return digest.hexdigest()


def byte_runs(tensor: Tensor) -> Iterator[memoryview]:
    """Yield the elements' bytes in row-major order, a run at a time; copy only what is not contiguous or not here."""
    yield from map(_bytes, _runs(tensor))


def root(digests: Mapping[str, str]) -> str:
    """Return SHA-256 over the digests of named tensors, in hexadecimal; their order does not matter."""
    named: dict[str, Scalar] = dict(digests)
    return hashlib.sha256(canonical(named)).hexdigest()


def checksum(tensor: Tensor) -> bytes:
    """Return 32 bytes that differ after any change within one word of eight bytes and after any swap of two words.

    Words are laid out in rows, each mixed with a key of its column, and summed modulo 2**64 by row and by column. A
    changed word moves its row's sum; two words swapped between rows move both rows' sums, within a row both columns'.
    Of their highest bits such sums only tell whether an even number changed, as when a float64 tensor is negated; the
    row sums of the words' upper halves tell how many. Other changes escape with the odds of a hash, but whoever wants
    to can make one that does: against that, `tensor_digest`.
    """
    if tensor.nbytes <= SMALL:
        return bytes.fromhex(tensor_digest(tensor))
    key = _key(tensor.device)
    columns, scratch = torch.zeros_like(key), key.new_empty(RUN // WORD)
    sums: list[Tensor] = []
    for run in _runs(tensor):
        words, rest = _words(run)
        full = len(words) // WIDTH * WIDTH
        for block in (words[:full].view(-1, WIDTH), words[full:].view(1, -1)):
            if block.numel() == 0:
                continue
            mixed = scratch[: block.numel()].view_as(block)  # one buffer: a fresh one for each run costs half the speed
            torch.bitwise_xor(block, key[: block.shape[1]], out=mixed)
            columns[: block.shape[1]] += mixed.sum(0)
            sums.append(mixed.sum(1))
            sums.append(mixed.bitwise_right_shift_(32).sum(1))
        sums.append(rest.to(torch.int64))
    digest = hashlib.sha256(_form(tensor.dtype, tensor.shape))
    digest.update(_bytes(torch.cat([*sums, columns])))
    return digest.digest()


class LiveContent:
    """The digests of tensors that may change under us, such as a model's parameters and buffers.

    Pointers and version counters miss a write through `.data` or a numpy view; a checksum over all bytes does not.
    SHA-256 is computed again only for a tensor whose checksum moved.
    """

    def __init__(self, named: Callable[[], Mapping[str, Tensor]]) -> None:
        self._named = named
        self._known: dict[str, tuple[bytes, str]] = {}

    def digests(self) -> dict[str, str]:
        """Return the digest of every tensor as it is now, in the order of the names."""
        self._known = {name: self._verified(name, tensor) for name, tensor in self._named().items()}
        return {name: digest for name, (_, digest) in self._known.items()}

    def _verified(self, name: str, tensor: Tensor) -> tuple[bytes, str]:
        now = checksum(tensor)
        known = self._known.get(name)
        return known if known is not None and known[0] == now else (now, tensor_digest(tensor))


@functools.lru_cache(maxsize=1024)  # a model has few forms, and one takes longer to spell than a small tensor to digest
def _form(dtype: torch.dtype, shape: tuple[int, ...]) -> bytes:
    return canonical([str(dtype).removeprefix("torch."), list(shape)])


def _runs(tensor: Tensor) -> Iterator[UInt8[Tensor, " byte"]]:
    """Yield the bytes of a tensor in row-major order, at most RUN at a time unless one element is larger."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.numel() == 0:
        return
    if tensor.is_contiguous() or tensor.nbytes <= RUN:
        yield from torch.split(tensor.contiguous().view(-1).view(torch.uint8), RUN)
        return
    fitting = RUN * len(tensor) // tensor.nbytes
    for part in torch.split(tensor, fitting) if fitting else tensor.unbind():
        yield from _runs(part)


def _bytes(tensor: Tensor) -> memoryview:
    """Return the memory of a contiguous tensor, copied only from another device."""
    return tensor.cpu().numpy().data


def _words(run: UInt8[Tensor, " byte"]) -> tuple[Int64[Tensor, " word"], UInt8[Tensor, " rest"]]:
    """Return the whole words of a run, and the bytes behind the last one."""
    whole = run.numel() // WORD * WORD
    aligned = run[:whole] if run.storage_offset() % WORD == 0 else run[:whole].clone()
    return aligned.view(torch.int64), run[whole:]


@functools.cache
def _key(device: torch.device) -> Int64[Tensor, " word"]:
    generator = torch.Generator().manual_seed(0x65767365)
    return torch.randint(-(1 << 63), (1 << 63) - 1, (WIDTH,), generator=generator).to(device)
