from __future__ import annotations

import pytest

from evseq.cache.claim import RequestRow, cache_identity, claimed_cache, numbering, request_identity
from evseq.cache.identity import FIELDS, Part
from evseq.geometry import (
    CacheKind,
    Deciding,
    Description,
    Dtype,
    Geometry,
    Keep,
    Layer,
    Layout,
    PositionRule,
    Positions,
    WindowCounts,
)

PADDED = RequestRow(name="a", tokens=(17, 4, 59), mask=(False, False, True, True, True), positions=(0, 1, 2))
FULL = RequestRow(name="b", tokens=(3, 8, 21, 6, 1), mask=(True,) * 5, positions=(0, 1, 2, 3, 4), text="five words")
HOLED = RequestRow(name="c", tokens=(17, 4, 59), mask=(True, False, False, True, True), positions=(0, 1, 2))


def described(
    *, rule: PositionRule = PositionRule.MASK, counts: WindowCounts = WindowCounts.POSITIONS, window: int = 3
) -> Description:
    """Return a decoder of one layer that sees all and one that sees a window, with three kinds of cache."""
    layers = (Layer(kv_heads=2, head_dim=8), Layer(kv_heads=1, head_dim=4, window=window))
    return Description(
        geometry=Geometry(layers=layers, vocab=64, position_rule=rule, window_counts=counts),
        capabilities=frozenset(),
        caches=(
            CacheKind(name="growing", full=Keep.EVERY, sliding=Keep.TAIL),
            CacheKind(name="fixed", full=Keep.CAPACITY, sliding=Keep.CAPACITY),
            CacheKind(name="ring", full=Keep.CAPACITY, sliding=Keep.RING),
        ),
        dtypes=(Dtype.FLOAT64,),
        deciding=Deciding.PURE,
        options={},
    )


def laid_out(*, cache: str = "growing", depth: int = 0, positions: Positions = Positions.GIVEN) -> Layout:
    """Return the layout of two rows with room for twelve columns."""
    return Layout(rows=2, capacity=12, depth=depth, cache=cache, positions=positions)


class TestRequest:
    def test_its_fields_are_those_of_the_registry(self) -> None:
        fields = request_identity(rows=[PADDED], rule="given", padding="left", salt=None)

        assert list(fields) == [field.name for field in FIELDS.values() if field.part is Part.REQUEST]

    def test_its_values_are_by_row_and_plain(self) -> None:
        assert request_identity(rows=[PADDED, FULL], rule="mask", padding="left", salt="tenant") == {
            "prefix.tokens": [["a", [17, 4, 59]], ["b", [3, 8, 21, 6, 1]]],
            "prefix.text": [["a", None], ["b", "five words"]],
            "prefix.mask": [["a", [False, False, True, True, True]], ["b", [True] * 5]],
            "position.rule": "mask",
            "position.ids": [["a", [0, 1, 2]], ["b", [0, 1, 2, 3, 4]]],
            "padding": "left",
            "salt": "tenant",
        }


class TestClaimedCache:
    def test_its_fields_are_those_of_the_registry(self) -> None:
        fields = claimed_cache(description=described(), layout=laid_out(), dtype=Dtype.FLOAT64, rows=[PADDED])

        assert list(fields) == [field.name for field in FIELDS.values() if field.part is Part.CACHE]

    def test_its_values_follow_from_request_and_description(self) -> None:
        fields = claimed_cache(description=described(), layout=laid_out(), dtype=Dtype.FLOAT64, rows=[PADDED, FULL])

        assert fields == {
            "cache.kind": "growing",
            "cache.shapes": [[2, 2, 5, 8], [2, 1, 2, 4]],
            "cache.dtype": "float64",
            "cache.quantisation": None,
            "window.policy": ["every slot", "3 positions"],
            "cache.length": [["a", 3], ["b", 5]],
            "cache.visible": [["a", [3, 2]], ["b", [5, 2]]],
            "cache.eviction": [0, 3],
            "format.version": 1,
        }

    @pytest.mark.parametrize(
        ("cache", "depth", "slots", "first"),
        [
            ("growing", 0, [5, 2], [0, 3]),
            ("growing", 1, [5, 5], [0, 0]),
            ("fixed", 0, [12, 12], [0, 0]),
            ("ring", 0, [12, 3], [0, 2]),
            ("ring", 1, [12, 4], [0, 1]),
            ("ring", 9, [12, 12], [0, 0]),
        ],
    )
    def test_slots_and_eviction_are_those_of_the_cache_kind(
        self, cache: str, depth: int, slots: list[int], first: list[int]
    ) -> None:
        layout = laid_out(cache=cache, depth=depth)
        fields = claimed_cache(description=described(), layout=layout, dtype=Dtype.FLOAT64, rows=[PADDED, FULL])

        assert fields["cache.shapes"] == [[2, 2, slots[0], 8], [2, 1, slots[1], 4]]
        assert fields["cache.eviction"] == first

    def test_a_crop_brings_back_nothing_that_was_forgotten(self) -> None:
        layout = laid_out(cache="ring", depth=1)
        fields = claimed_cache(
            description=described(), layout=layout, dtype=Dtype.FLOAT64, rows=[PADDED, FULL], furthest=6
        )

        assert fields["cache.eviction"] == [0, 2]

    @pytest.mark.parametrize(
        ("row", "counts", "visible"),
        [
            (PADDED, WindowCounts.POSITIONS, [3, 2]),
            (PADDED, WindowCounts.SLOTS, [3, 2]),
            (HOLED, WindowCounts.POSITIONS, [3, 2]),
            (HOLED, WindowCounts.SLOTS, [3, 2]),
        ],
    )
    def test_the_next_query_itself_takes_one_place_of_a_window(
        self, row: RequestRow, counts: WindowCounts, visible: list[int]
    ) -> None:
        description = described(counts=counts)
        fields = claimed_cache(description=description, layout=laid_out(), dtype=Dtype.FLOAT64, rows=[row])

        assert fields["cache.visible"] == [[row.name, visible]]

    @pytest.mark.parametrize(("counts", "seen"), [(WindowCounts.POSITIONS, 3), (WindowCounts.SLOTS, 2)])
    def test_holes_fill_a_window_only_where_it_counts_slots(self, counts: WindowCounts, seen: int) -> None:
        description = described(counts=counts, window=4)
        fields = claimed_cache(description=description, layout=laid_out(), dtype=Dtype.FLOAT64, rows=[HOLED])

        assert fields["cache.visible"] == [["c", [3, seen]]]

    def test_a_window_over_slot_positions_counts_from_the_next_slot(self) -> None:
        row = RequestRow(name="c", tokens=HOLED.tokens, mask=HOLED.mask, positions=(0, 3, 4))
        description = described(rule=PositionRule.SLOT, window=3)
        layout = laid_out(positions=Positions.ENGINE)

        fields = claimed_cache(description=description, layout=layout, dtype=Dtype.FLOAT64, rows=[row])

        assert fields["cache.visible"] == [["c", [3, 2]]]


class TestCacheIdentity:
    def test_what_the_saving_side_measured_agrees_with_the_claim_of_a_healthy_cache(self) -> None:
        claimed = claimed_cache(description=described(), layout=laid_out(), dtype=Dtype.FLOAT64, rows=[PADDED, FULL])
        measured = cache_identity(
            description=described(),
            dtype=Dtype.FLOAT64,
            kind="growing",
            shapes=[(2, 2, 5, 8), (2, 1, 2, 4)],
            lengths={"a": 3, "b": 5},
            visible={"a": [3, 2], "b": [5, 2]},
            eviction=[0, 3],
        )

        assert measured == claimed


@pytest.mark.parametrize(
    ("positions", "rule", "word"),
    [
        (Positions.GIVEN, PositionRule.SLOT, "given"),
        (Positions.ENGINE, PositionRule.SLOT, "slot"),
        (Positions.ENGINE, PositionRule.MASK, "mask"),
    ],
)
def test_the_engine_s_rule_counts_only_where_it_numbers_tokens(
    positions: Positions, rule: PositionRule, word: str
) -> None:
    assert numbering(described(rule=rule).geometry, laid_out(positions=positions)) == word
