from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from evseq.golden.acceptance import accept
from evseq.golden.candidate import Candidate
from evseq.golden.choice import chosen, finished
from evseq.golden.root import Place, Root

Make = Callable[..., Candidate]


class TestChosen:
    @pytest.fixture(autouse=True)
    def _four(self, root: Root, make_candidate: Make) -> None:
        for one in ("big/v1/one", "small/v1/one", "small/v1/two", "small/v2/one"):
            make_candidate(root, one)

    @pytest.mark.parametrize(
        ("filters", "expected"),
        [
            ({}, ["big/v1/one", "small/v1/one", "small/v1/two", "small/v2/one"]),
            ({"model": "small"}, ["small/v1/one", "small/v1/two", "small/v2/one"]),
            ({"scripts": ["t*", "one"], "revision": "v1"}, ["big/v1/one", "small/v1/one", "small/v1/two"]),
        ],
    )
    def test_patterns_choose(self, root: Root, filters: dict[str, Any], expected: list[str]) -> None:
        assert [str(one) for one in chosen(root, **filters)] == expected

    def test_a_half_is_chosen_too(self, root: Root) -> None:
        root.sidecar(Place(model="small", revision="v1", script="two")).unlink()
        assert chosen(root, scripts=["two"]) == (Place(model="small", revision="v1", script="two"),)


class TestFinished:
    @pytest.fixture(autouse=True)
    def _half_done(self, root: Root, make_candidate: Make) -> None:
        """Accept one of two scripts at v1, and propose it again at v2."""
        make_candidate(root)
        accept(root, chosen(root), reason="why", environment={}, today=dt.date(2026, 3, 2))
        make_candidate(root, "small/v1/two")
        make_candidate(root, "small/v2/one")

    @pytest.mark.parametrize(
        ("names", "filters", "expected"),
        [
            (["one", "two"], {"revision": "v1"}, ("one",)),
            (["o*", "t*", "x*"], {"revision": "v1", "model": "small"}, ("o*",)),
            (["one", "two"], {"revision": "v2"}, ()),
            (["one", "two"], {"model": "big"}, ()),
            (["one", "two"], {}, ()),
        ],
    )
    def test_what_was_accepted_and_waits_no_more(
        self, root: Root, names: list[str], filters: dict[str, Any], expected: tuple[str, ...]
    ) -> None:
        assert finished(root, names, **filters) == expected
