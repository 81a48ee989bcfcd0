"""A decoder described: what each cache kind keeps, and the sizes the plan and the allowances need."""

from __future__ import annotations

import pytest

from evseq.geometry import (
    CacheKind,
    Deciding,
    Dtype,
    Geometry,
    Keep,
    Layer,
    Layout,
    PositionRule,
    WindowCounts,
)
from planning import FULL, GROWING, RING, decoder

WIDE = Layer(kv_heads=2, head_dim=4)
SLIDING = Layer(kv_heads=2, head_dim=4, window=5)


def layout(*, capacity: int = 20, depth: int = 0) -> Layout:
    return Layout(rows=1, capacity=capacity, depth=depth, cache="any")


def kind(*, full: Keep = Keep.EVERY, sliding: Keep = Keep.EVERY) -> CacheKind:
    return CacheKind(name="any", full=full, sliding=sliding)


class TestSlotsKept:
    @pytest.mark.parametrize("fed", [1, 5, 30])
    def test_every_slot_fed(self, fed: int) -> None:
        assert kind().slots(WIDE, fed=fed, layout=layout()) == fed

    @pytest.mark.parametrize("fed", [1, 5, 20])
    def test_the_whole_capacity_at_once(self, fed: int) -> None:
        assert kind(full=Keep.CAPACITY).slots(WIDE, fed=fed, layout=layout(capacity=20)) == 20

    @pytest.mark.parametrize(("capacity", "depth", "slots"), [(20, 0, 5), (20, 3, 8), (6, 3, 6), (4, 0, 4)])
    def test_a_ring_holds_window_and_deepest_crop(self, capacity: int, depth: int, slots: int) -> None:
        ring = kind(sliding=Keep.RING)
        assert ring.slots(SLIDING, fed=9, layout=layout(capacity=capacity, depth=depth)) == slots

    @pytest.mark.parametrize(("capacity", "depth", "slots"), [(20, 0, 5), (20, 3, 5), (4, 0, 4)])
    def test_a_window_holds_no_more_for_a_crop(self, capacity: int, depth: int, slots: int) -> None:
        window = kind(sliding=Keep.WINDOW)
        assert window.slots(SLIDING, fed=9, layout=layout(capacity=capacity, depth=depth)) == slots

    @pytest.mark.parametrize(("fed", "depth", "slots"), [(3, 0, 3), (4, 0, 4), (5, 0, 4), (9, 0, 4), (9, 1, 9)])
    def test_a_tail_lacks_the_query_and_keeps_all_while_recording(self, fed: int, depth: int, slots: int) -> None:
        assert kind(sliding=Keep.TAIL).slots(SLIDING, fed=fed, layout=layout(depth=depth)) == slots

    def test_layers_with_and_without_a_window_keep_by_their_own_rule(self) -> None:
        mixed = kind(full=Keep.CAPACITY, sliding=Keep.TAIL)
        assert [mixed.slots(layer, fed=9, layout=layout()) for layer in (WIDE, SLIDING)] == [20, 4]


class TestSeen:
    @pytest.mark.parametrize(("here", "seen"), [(3, []), (4, [3]), (6, [3, 4, 5]), (7, []), (10, [7, 8, 9])])
    def test_a_chunk_is_counted_from_the_first_token_and_sees_nothing_before_it(
        self, here: int, seen: list[int]
    ) -> None:
        chunked = Layer(kv_heads=2, head_dim=4, window=4, chunked=True)
        assert [place for place in range(3, here) if chunked.sees(place, here=here, first=3)] == seen

    def test_a_state_alone_keeps_and_shows_no_slot(self) -> None:
        state = Layer(kv_heads=0, head_dim=0, recurrent=True)
        assert not state.sees(3, here=4, first=0)
        assert kind(full=Keep.CAPACITY).slots(state, fed=9, layout=layout()) == 0


class TestGeometry:
    @staticmethod
    def of(*windows: int | None, counts: WindowCounts = WindowCounts.POSITIONS) -> Geometry:
        return decoder(*windows, counts=counts).geometry

    def test_the_number_word_window_is_the_smallest(self) -> None:
        assert (self.of(None, 8, 5).window, self.of(None, None).window) == (5, None)

    @pytest.mark.parametrize(
        ("windows", "counts", "matter"),
        [
            ((None, 5), WindowCounts.SLOTS, True),
            ((None, 5), WindowCounts.POSITIONS, False),
            ((None, None), WindowCounts.SLOTS, False),
        ],
    )
    def test_gaps_matter_where_a_window_counts_slots(
        self, windows: tuple[int | None, ...], counts: WindowCounts, *, matter: bool
    ) -> None:
        assert self.of(*windows, counts=counts).gaps_matter is matter

    def test_windows_count_a_rows_own_tokens_unless_told_otherwise(self) -> None:
        plain = Geometry(layers=(SLIDING,), vocab=64, position_rule=PositionRule.MASK)
        assert not plain.gaps_matter


class TestNumbers:
    @pytest.mark.parametrize(
        ("dtype", "epsilon", "itemsize"),
        [
            (Dtype.FLOAT64, 2.220446049250313e-16, 8),
            (Dtype.FLOAT32, 1.1920928955078125e-07, 4),
            (Dtype.BFLOAT16, 0.0078125, 2),
            (Dtype.FLOAT16, 0.0009765625, 2),
        ],
    )
    def test_a_dtype_knows_its_epsilon_and_size(self, dtype: Dtype, epsilon: float, itemsize: int) -> None:
        assert (dtype.epsilon, dtype.itemsize) == (epsilon, itemsize)

    def test_truth_is_double_unless_there_is_none(self) -> None:
        assert [deciding.dtype for deciding in Deciding] == [Dtype.FLOAT64, Dtype.FLOAT64, Dtype.FLOAT32]


def test_a_cache_kind_is_found_by_its_name() -> None:
    assert [FULL.cache(name) for name in ("growing", "ring", "paged")] == [GROWING, RING, None]
