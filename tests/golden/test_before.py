from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace

import pytest

from evseq.golden.acceptance import accept
from evseq.golden.before import Before, compared_with
from evseq.golden.candidate import Candidate
from evseq.golden.choice import chosen
from evseq.golden.golden import read
from evseq.golden.ledger import Ledger
from evseq.golden.root import Place, Root

V1 = Place(model="small", revision="v1", script="one")
V2, V3 = (replace(V1, revision=revision) for revision in ("v2", "v3"))


@pytest.fixture
def two(root: Root, make_candidate: Callable[..., Candidate]) -> Root:
    """Return a folder in which two revisions were accepted, one after the other."""
    for place in (V1, V2):
        make_candidate(root, str(place))
        accept(root, chosen(root), reason="why", environment={}, today=dt.date(2026, 3, 2))
    return root


def before(root: Root, place: Place, *, parent: str | None = None) -> Before | None:
    return compared_with(root, Ledger.read(root.ledger("small")), place, parent=parent)


def which(found: Before | None) -> Place | None:
    return None if found is None else found.place


@pytest.mark.parametrize(("place", "parent", "expected"), [(V1, None, V1), (V3, None, V2), (V2, "v1", V1)])
def test_the_parent_named_then_its_own_name_then_the_last_other(
    two: Root, place: Place, parent: str | None, expected: Place
) -> None:
    assert which(before(two, place, parent=parent)) == expected


def test_a_script_that_the_revision_before_has_not_is_compared_with_nothing(two: Root) -> None:
    assert before(two, replace(V3, script="other")) is None


@pytest.mark.parametrize("damage", [b"damaged", None])
def test_a_file_that_is_not_the_accepted_one_is_named_and_not_used(two: Root, damage: bytes | None) -> None:
    two.golden(V2).unlink()
    two.golden(V2).write_bytes(damage or two.golden(V1).read_bytes()[:-1])
    assert before(two, V3) == Before(place=V2, golden=None)


def test_the_accepted_file_is_used(two: Root) -> None:
    found = before(two, V3)
    assert found is not None
    assert found.golden is not None
    assert found.golden.seal == read(two.golden(V2)).seal
