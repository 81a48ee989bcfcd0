from __future__ import annotations

from pathlib import Path

import pytest
import torch

from evseq.cache.damage import Damage, TrailingBytes
from evseq.cache.frame import PARTS
from evseq.cache.header import HEADER_FIELDS, inspect_header
from evseq.cache.identity import Identity
from evseq.cache.regions import ERRORS, MOST, Region, variants
from evseq.cache.sealed import SealedKind, open_sealed, seal

ENDS = ("truncated", "trailing")
TENSORS = {f"layer.{layer}.keys": torch.full((2, 3), float(layer)) for layer in range(3)}
IDENTITY = Identity(values={"salt": None, "cache.length": [["a", 3]], "position.rule": "mask", "format.version": 1})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a small sealed cache lies."""
    path = tmp_path / "mid.safetensors"
    seal(path, kind=SealedKind.CACHE, identity=IDENTITY, tensors=TENSORS, scalars={"length": 3, "ring": True})
    return path


def told(path: Path, content: bytes) -> type[Damage] | None:
    """Return the error that a file of this content is refused with."""
    path.write_bytes(content)
    try:
        open_sealed(path, kind=SealedKind.CACHE)
    except Damage as error:
        return type(error)
    return None


class TestRegions:
    def test_every_part_of_the_format_has_a_word(self) -> None:
        assert sorted(Region) == sorted({*PARTS, *HEADER_FIELDS, *ENDS})

    def test_every_region_has_an_error(self) -> None:
        assert list(ERRORS) == list(Region)

    @pytest.mark.parametrize("region", Region)
    def test_each_damage_is_refused_as_that_error(self, region: Region, path: Path) -> None:
        damaged = list(variants(path.read_bytes(), region))
        assert damaged
        assert {told(path, variant.content) for variant in damaged} == {ERRORS[region]}

    @pytest.mark.parametrize("region", Region)
    def test_no_two_damages_are_of_one_place_or_one_content(self, region: Region, path: Path) -> None:
        damaged = list(variants(path.read_bytes(), region))
        assert (
            len({variant.place for variant in damaged}) == len({variant.content for variant in damaged}) == len(damaged)
        )

    def test_every_tensor_is_damaged(self, path: Path) -> None:
        places = [variant.place for variant in variants(path.read_bytes(), Region.TENSOR)]
        assert [place.partition(",")[0] for place in places] == [repr(name) for name in TENSORS]

    def test_every_field_of_the_identity_is_damaged(self, path: Path) -> None:
        places = [variant.place for variant in variants(path.read_bytes(), Region.IDENTITY)]
        assert places == sorted(IDENTITY.values)

    def test_where_there_are_no_scalars_one_is_added(self, path: Path) -> None:
        seal(path, kind=SealedKind.CACHE, identity=IDENTITY, tensors=TENSORS, scalars={})
        assert [variant.place for variant in variants(path.read_bytes(), Region.SCALARS)] == ["an entry more"]

    def test_of_many_places_the_first_the_last_and_some_between_are_taken(self, path: Path) -> None:
        many = {f"{number:03}": torch.tensor([number]) for number in range(100)}
        seal(path, kind=SealedKind.CACHE, identity=IDENTITY, tensors=many, scalars={})
        places = [variant.place for variant in variants(path.read_bytes(), Region.DIGESTS)]
        assert (places[0], places[-1], len(places)) == ("000", "099", MOST)

    def test_a_file_that_is_damaged_already_is_an_error(self, path: Path) -> None:
        with pytest.raises(TrailingBytes):
            list(variants(path.read_bytes() + b"x", Region.TENSOR))

    def test_the_header_but_for_the_field_is_as_it_was(self, path: Path) -> None:
        before = inspect_header(path)
        (variant,) = list(variants(path.read_bytes(), Region.VERSION))
        assert len(variant.content) >= before.size - 8
