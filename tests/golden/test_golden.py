"""A golden as a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from evseq.cache.canonical import Scalar
from evseq.cache.damage import Damage, FieldDamaged, WrongKind
from evseq.cache.header import SealedKind, inspect_header
from evseq.cache.identity import Identity
from evseq.cache.sealed import seal
from evseq.geometry import Deciding
from evseq.golden.forms import Full
from evseq.golden.golden import FIELDS, Golden, belongs, differences, read, write
from evseq.golden.histories import Histories

IDENTITY = Identity(values=dict.fromkeys(FIELDS, "the same"))

ACCEPTED = sorted((Path(__file__).parents[2] / "goldens" / "reference-full").glob("*/*.safetensors"))

GOLDEN = Golden(
    script="case",
    identity=IDENTITY,
    histories=Histories(parents=(-1, 0), tokens=(5, 6), positions=(0, 1), observed=(0, 1)),
    logits=Full.of(torch.arange(8, dtype=torch.float64).view(2, 4) / 3),
    allowed=torch.tensor([1e-6, 2e-6]),
    greedy={(5, 6): 3, (5,): 6},
    deciding=Deciding.PURE,
    layers=2,
)


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    write(tmp_path / "new" / "case.safetensors", GOLDEN)

    found = read(tmp_path / "new" / "case.safetensors")

    assert found.logits.tensors()["logits"].equal(GOLDEN.logits.tensors()["logits"])
    assert found.allowed.equal(GOLDEN.allowed)
    assert replace(found, logits=GOLDEN.logits, allowed=GOLDEN.allowed, identity=IDENTITY, seal="") == GOLDEN
    assert found.identity.fingerprint() == IDENTITY.fingerprint()


def test_equal_goldens_have_equal_bytes(tmp_path: Path) -> None:
    turned = replace(GOLDEN, greedy={(5,): 6, (5, 6): 3})
    write(tmp_path / "one", GOLDEN)
    write(tmp_path / "two", turned)

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("accepted", ACCEPTED, ids=[path.stem for path in ACCEPTED])
def test_an_accepted_golden_is_written_byte_for_byte_as_it_is(accepted: Path, tmp_path: Path) -> None:
    write(tmp_path / "again", read(accepted))

    assert (tmp_path / "again").read_bytes() == accepted.read_bytes()


def test_the_seal_is_that_of_the_header(tmp_path: Path) -> None:
    write(tmp_path / "case", GOLDEN)

    assert read(tmp_path / "case").seal == inspect_header(tmp_path / "case", kind=SealedKind.GOLDEN).seal


def test_a_cache_is_no_golden(tmp_path: Path) -> None:
    seal(tmp_path / "case", kind=SealedKind.CACHE, identity=IDENTITY, tensors={}, scalars={})

    with pytest.raises(WrongKind):
        read(tmp_path / "case")


def test_every_truncation_is_told(tmp_path: Path) -> None:
    write(tmp_path / "case", GOLDEN)
    whole = (tmp_path / "case").read_bytes()

    for length in range(len(whole)):
        (tmp_path / "case").write_bytes(whole[:length])
        with pytest.raises(Damage):
            read(tmp_path / "case")


@pytest.mark.parametrize(
    "made",
    [
        replace(GOLDEN, allowed=torch.tensor([1e-6])),
        replace(GOLDEN, histories=replace(GOLDEN.histories, observed=(0,))),
        replace(GOLDEN, histories=replace(GOLDEN.histories, observed=(0, 2))),
        replace(GOLDEN, histories=replace(GOLDEN.histories, parents=(-1, 1))),
        replace(GOLDEN, histories=replace(GOLDEN.histories, parents=(-2, 0))),
        replace(GOLDEN, histories=replace(GOLDEN.histories, tokens=(5,))),
    ],
)
def test_parts_that_do_not_fit_together_are_told(tmp_path: Path, made: Golden) -> None:
    write(tmp_path / "case", made)

    with pytest.raises(FieldDamaged, match="its histories, rows and allowances do not fit together"):
        read(tmp_path / "case")


def test_a_sealed_file_that_lacks_a_part_is_told(tmp_path: Path) -> None:
    path = tmp_path / "case"
    scalars: dict[str, Scalar] = {
        "script": "case",
        "form": "full",
        "deciding": "float64, pure",
        "layers": 2,
        "greedy": [],
    }
    seal(path, kind=SealedKind.GOLDEN, identity=IDENTITY, tensors={}, scalars=scalars)

    with pytest.raises(FieldDamaged, match="not what a golden holds"):
        read(path)


def test_a_golden_belongs_to_weights_and_tokenizer_and_to_no_dtype_or_device() -> None:
    identity = {**IDENTITY.values, "numeric.dtype": "float64", "numeric.device": "cpu", "model.config": {}}

    assert belongs(identity).values == IDENTITY.values


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_is_told_alone(field: str) -> None:
    other = Identity(values={**IDENTITY.values, field: "another"})

    (found,) = differences(IDENTITY, other)

    assert str(found) == f"{field}: recorded 'the same', now 'another'"
