"""Golden: the truth of one script at one revision, each history once, and whose it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from jaxtyping import Float32
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from evseq.cache.canonical import Scalar, canonical
from evseq.cache.damage import FieldDamaged, UnknownTensor
from evseq.cache.header import SealedKind
from evseq.cache.identity import Difference, Identity, compare
from evseq.cache.sealed import open_sealed, seal
from evseq.geometry import Deciding
from evseq.golden.forms import FORMS, Form
from evseq.golden.histories import TOP, Histories

__all__ = ["FIELDS", "Golden", "belongs", "differences", "read", "write"]

FIELDS = (
    "model.architecture",
    "weights.source",
    "tokenizer.vocabulary",
    "tokenizer.merges",
    "tokenizer.special",
    "tokenizer.normaliser",
    "tokenizer.template",
)
"""What a golden belongs to. Not its configuration, dtype or device: every arm and library version is held to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """Accepted logits of one script. `allowed` is what each logit of a row may be off in the deciding dtype.

    `greedy` gives the id chosen after a prefix, which every arm is fed. `seal` is that of the file it was read from.
    """

    script: str
    identity: Identity
    histories: Histories
    logits: Form
    allowed: Float32[Tensor, " row"]
    greedy: Mapping[tuple[int, ...], int]
    deciding: Deciding
    layers: int
    seal: str = ""


def belongs(identity: Mapping[str, Scalar]) -> Identity:
    """Return what of an engine's identity its goldens belong to."""
    return Identity(values={name: identity[name] for name in FIELDS if name in identity})


def differences(recorded: Identity, now: Identity) -> tuple[Difference, ...]:
    """Return the fields in which a golden is another model's, and where."""
    return tuple(found for found in compare(recorded, now) if found.field in FIELDS)


def write(path: Path, golden: Golden) -> str:
    """Write a golden in place of whatever has that name and return its seal; equal goldens give equal bytes.

    Raises CacheError.
    """
    with contextlib.suppress(OSError):  # what is wrong with the folder is told when the file is written
        path.parent.mkdir(parents=True, exist_ok=True)
    return seal(
        path, kind=SealedKind.GOLDEN, identity=golden.identity, tensors=_tensors(golden), scalars=_scalars(golden)
    )


def read(path: Path) -> Golden:
    """Read a golden, verified whole. Raises CacheError for a file that is damaged or no golden."""
    sealed = open_sealed(path, kind=SealedKind.GOLDEN)
    try:
        facts = _Facts.model_validate(dict(sealed.scalars))
        form = FORMS[facts.form].read(sealed.tensors, sealed.scalars)
        histories = Histories(
            **{name: _numbers(sealed.tensors[name]) for name in ("parents", "tokens", "positions", "observed")}
        )
        allowed = sealed.tensors["allowed"]
    except (KeyError, TypeError, ValueError) as error:
        raise FieldDamaged(path, f"not what a golden holds: {error}") from None
    if not _fit(histories, form, allowed):
        raise FieldDamaged(path, "its histories, rows and allowances do not fit together")
    golden = Golden(
        script=facts.script,
        identity=sealed.identity,
        histories=histories,
        logits=form,
        allowed=allowed,
        greedy={tuple(prefix): token for prefix, token in facts.greedy},
        deciding=facts.deciding,
        layers=facts.layers,
        seal=sealed.seal,
    )
    if others := _tensors(golden).keys() ^ sealed.tensors.keys():
        raise UnknownTensor(path, f"tensor {min(others)!r}: no golden of form {facts.form!r} has it")
    if canonical(_scalars(golden)) != canonical(dict(sealed.scalars)):  # 1 is not True, and nothing is said besides
        raise FieldDamaged(path, "scalars: not as a golden says them")
    return golden


def _tensors(golden: Golden) -> dict[str, Tensor]:
    histories = golden.histories
    return {
        **golden.logits.tensors(),
        "allowed": golden.allowed,
        "parents": _ints(histories.parents),
        "tokens": _ints(histories.tokens),
        "positions": _ints(histories.positions),
        "observed": _ints(histories.observed),
    }


def _scalars(golden: Golden) -> dict[str, Scalar]:
    return {
        **golden.logits.facts(),
        "script": golden.script,
        "deciding": golden.deciding.value,
        "layers": golden.layers,
        "greedy": [[list(prefix), token] for prefix, token in sorted(golden.greedy.items())],
    }


class _Facts(BaseModel):
    """The scalars of a golden; those of its form are the form's."""

    model_config = ConfigDict(extra="allow")

    form: str
    script: str
    deciding: Deciding
    layers: int
    greedy: list[tuple[list[int], int]]


def _fit(histories: Histories, form: Form, allowed: Tensor) -> bool:
    slots, rows = len(histories.parents), len(histories.observed)
    return (
        len(histories.tokens) == len(histories.positions) == slots
        and all(TOP <= parent < slot for slot, parent in enumerate(histories.parents))
        and all(0 <= slot < slots for slot in histories.observed)
        and all(one < two for one, two in pairwise(histories.observed))
        and allowed.dtype == torch.float32
        and tuple(form.scale.shape) == tuple(allowed.shape) == (rows,)
    )


def _numbers(tensor: Tensor) -> tuple[int, ...]:
    if tensor.dtype != torch.int32 or tensor.ndim != 1:
        raise TypeError(f"{tensor.dtype} of {tensor.ndim} axes, expected a list of int32")
    return tuple(tensor.tolist())


def _ints(numbers: Iterable[int]) -> Tensor:
    return torch.tensor(list(numbers), dtype=torch.int32)
