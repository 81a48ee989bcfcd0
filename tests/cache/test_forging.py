"""Each field alone, in a file that is sound in every other way: refused by name, and nothing else with it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from evseq.cache.canonical import Scalar
from evseq.cache.fields import FIELDS
from evseq.cache.forging import another, forge, without
from evseq.cache.guard import Admitted, Refused, admit
from evseq.cache.identity import Identity
from evseq.cache.sealed import SealedKind, open_sealed, seal

VALUES: dict[str, Scalar] = {
    name: [["a", [1, 2]]] if field.per_row else f"value of {name}" for name, field in FIELDS.items()
}
ASKED = Identity(values=VALUES)


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    path = tmp_path / "sound.cache.safetensors"
    seal(path, kind=SealedKind.CACHE, identity=ASKED, tensors={"keys": torch.ones(2)}, scalars={})
    return path


def answer(path: Path) -> Admitted | Refused:
    return admit(open_sealed(path, kind=SealedKind.CACHE).identity, ASKED)


def fields(verdict: Admitted | Refused) -> list[str]:
    assert isinstance(verdict, Refused)
    return [difference.field for difference in verdict.differences]


def test_the_file_itself_is_admitted_wherever_it_lies(sealed: Path, tmp_path: Path) -> None:
    moved = sealed.rename(tmp_path / "moved.safetensors")
    assert answer(moved) == Admitted()


@pytest.mark.parametrize("field", FIELDS)
def test_another_value_of_a_field_is_refused_by_its_name_alone(field: str, sealed: Path, tmp_path: Path) -> None:
    forge(sealed, to=tmp_path / "forged", field=field)
    assert fields(answer(tmp_path / "forged")) == [field]


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_is_missing_is_refused_by_its_name_alone(field: str, sealed: Path, tmp_path: Path) -> None:
    without(sealed, to=tmp_path / "forged", field=field)
    assert fields(answer(tmp_path / "forged")) == [field]


def test_a_field_that_nobody_knows_is_refused(sealed: Path, tmp_path: Path) -> None:
    forge(sealed, to=tmp_path / "forged", field="model.mood")
    assert fields(answer(tmp_path / "forged")) == ["model.mood"]


def test_equal_values_in_two_fields_do_not_collide() -> None:
    swapped: dict[str, Scalar] = {**VALUES, "numeric.device": "x", "numeric.attention": "y"}
    back: dict[str, Scalar] = {**VALUES, "numeric.device": "y", "numeric.attention": "x"}
    digests = Identity(values=dict.fromkeys(FIELDS, "equal")).digests()
    assert fields(admit(Identity(values=swapped), Identity(values=back))) == ["numeric.attention", "numeric.device"]
    assert len(set(digests.values())) == len(FIELDS)


@pytest.mark.parametrize("value", [None, True, 3, 0.5, "word", [], [1, [2]], {}, {"key": {"deep": 1}}])
def test_another_value_differs_and_has_the_same_form(value: object) -> None:
    changed = another(value)  # type: ignore[arg-type]
    assert changed != value
    assert value is None or type(changed) is type(value)
