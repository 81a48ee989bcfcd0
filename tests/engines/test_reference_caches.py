"""Caches of the reference engine: where tokens go, what is refused, and that copies are copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from evseq.cache.state import CacheState
from evseq.engines.protocol import Batch
from evseq.engines.reference import loader
from evseq.engines.reference.caches import Fixed, Ring
from evseq.engines.reference.engine import ReferenceEngine
from evseq.engines.reference.session import ReferenceSession
from evseq.errors import EngineError
from evseq.geometry import Dtype, Layout

CACHES = ("growing", "fixed", "ring")
FLOAT64 = Dtype.FLOAT64


@pytest.fixture(scope="module")
def full() -> ReferenceEngine:
    return loader("full").load(FLOAT64, {})


@pytest.fixture(scope="module")
def window() -> ReferenceEngine:
    return loader("window").load(FLOAT64, {})


@pytest.fixture(scope="module")
def narrow() -> ReferenceEngine:
    return loader("narrow").load(FLOAT64, {})


def batch(*rows: list[int]) -> Batch:
    """Return rows of tokens; -1 is a masked slot."""
    tokens = torch.tensor(rows)
    mask = tokens >= 0
    return Batch(tokens=tokens.where(mask, 0), mask=mask, positions=None)


def opened(
    engine: ReferenceEngine, cache: str, *rows: list[int], capacity: int = 20, depth: int = 3
) -> ReferenceSession:
    session = engine.open(Layout(rows=len(rows), capacity=capacity, depth=depth, cache=cache))
    session.prefill(batch(*rows))
    return session


def opened_logits(engine: ReferenceEngine, cache: str, *rows: list[int]) -> Tensor:
    return engine.open(Layout(rows=len(rows), capacity=20, depth=3, cache=cache)).prefill(batch(*rows))


def storages(session: ReferenceSession) -> set[int]:
    """Return the address of every buffer."""
    return {tensor.untyped_storage().data_ptr() for held in session.storages for tensor in held.parts().values()}


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(EngineError) as error:
        act()
    return str(error.value)


class TestFeeding:
    @pytest.mark.parametrize("cache", CACHES)
    def test_a_row_of_masked_slots_alone_is_finite(self, full: ReferenceEngine, cache: str) -> None:
        session = opened(full, cache, [-1, -1], [4, 9])
        logits = session.append(batch([5], [6]))
        assert bool(logits.isfinite().all())
        assert session.probe().lengths == (1, 3)

    def test_nothing_fed_yet_is_refused(self, full: ReferenceEngine) -> None:
        session = full.open(Layout(rows=1, capacity=4, depth=0, cache="growing"))
        assert refused(lambda: session.append(batch([1]))) == (
            "append: nothing was fed to this session\n  help: prefill or restore it first"
        )

    def test_another_number_of_rows_is_refused(self, full: ReferenceEngine) -> None:
        session = opened(full, "growing", [1], [2])
        assert refused(lambda: session.append(batch([1]))) == (
            "append: 1 rows fed, the session has 2\n  help: feed every row"
        )

    @pytest.mark.parametrize("cache", ["fixed", "ring"])
    def test_more_columns_than_the_layout_has_are_refused(self, full: ReferenceEngine, cache: str) -> None:
        session = opened(full, cache, [1, 2, 3], capacity=4)
        assert refused(lambda: session.append(batch([4, 5]))) == (
            "append: 5 columns do not fit, the layout has room for 4\n  help: open the session with a larger capacity"
        )
        assert session.probe().lengths == (3,)

    def test_a_ring_of_the_whole_capacity_is_never_overrun(self, narrow: ReferenceEngine) -> None:
        session = opened(narrow, "ring", [1, 2, 3], capacity=4)
        assert refused(lambda: session.append(batch([4, 5]))).startswith("append: 5 columns do not fit")

    def test_a_position_beyond_the_table_is_refused(self) -> None:
        session = opened(loader("learned").load(FLOAT64, {}), "growing", [1] * 640)
        assert refused(lambda: session.append(batch([1]))) == (
            "position 640: this decoder has learned 640\n  help: keep rows to 640 tokens"
        )


class TestSlots:
    def test_growing_keeps_the_columns_fed(self, full: ReferenceEngine) -> None:
        session = opened(full, "growing", [1, 2, 3], [-1, 4, 5])
        assert [tuple(held.keys.shape) for held in session.storages] == [(2, 2, 3, 8)] * 3

    def test_fixed_keeps_the_capacity(self, full: ReferenceEngine) -> None:
        session = opened(full, "fixed", [1, 2, 3], [-1, 4, 5])
        assert [tuple(held.keys.shape) for held in session.storages] == [(2, 2, 20, 8)] * 3

    def test_a_ring_keeps_window_and_depth(self, window: ReferenceEngine) -> None:
        session = opened(window, "ring", [1, 2, 3], depth=2)
        assert [held.keys.shape[2] for held in session.storages] == [8, 20, 8, 20]
        assert [type(held) for held in session.storages] == [Ring, Fixed, Ring, Fixed]

    def test_a_ring_is_never_larger_than_the_capacity(self, window: ReferenceEngine) -> None:
        session = opened(window, "ring", [1, 2, 3], capacity=4, depth=2)
        assert [held.keys.shape[2] for held in session.storages] == [4, 4, 4, 4]

    def test_a_masked_column_takes_no_ring_slot(self, narrow: ReferenceEngine) -> None:
        session = opened(narrow, "ring", [7, -1, 8, -1, -1, 9], depth=0)
        assert session.storages[0].positions.tolist() == [[0, 1, 2, -1, -1]]

    def test_a_ring_overwrites_its_oldest_token(self, narrow: ReferenceEngine) -> None:
        session = opened(narrow, "ring", [7, 8, 9, 1, 2, 3, 4], depth=0)
        assert session.storages[0].positions.tolist() == [[5, 6, 2, 3, 4]]


class TestProbe:
    def test_lengths_are_read_from_the_slots(self, full: ReferenceEngine) -> None:
        session = opened(full, "fixed", [1, 2, 3])
        session.storages[0].positions[0, 2] = -1
        assert (session.probe().lengths, session.probe().next_positions) == ((2,), (2,))

    def test_visible_counts_stop_at_the_window(self, window: ReferenceEngine) -> None:
        session = opened(window, "growing", [1, 2, 3, 4, 5, 6, 7], [-1, -1, -1, -1, 5, 6, 7])
        assert session.probe().visible == ((5, 3), (7, 3), (5, 3), (7, 3))

    def test_bytes_are_those_of_keys_and_values(self, full: ReferenceEngine) -> None:
        session = opened(full, "growing", [1, 2, 3], [4, 5, 6])
        assert session.probe().cache_bytes == 2 * 2 * 3 * 2 * 8 * 8 * 3

    def test_a_ring_remembers_what_it_overwrote(self, narrow: ReferenceEngine) -> None:
        session = opened(narrow, "ring", [1, 2, 3, 4, 5, 6, 7, 8, 9], depth=0)
        assert (session.probe().lengths, session.probe().next_positions) == ((9,), (9,))


class TestCrop:
    def test_columns_behind_the_longest_row_are_cut_off(self, full: ReferenceEngine) -> None:
        session = opened(full, "growing", [1, 2, 3, 4], [-1, -1, 5, 6])
        session.crop([1, 1])
        assert session.storages[0].positions.tolist() == [[0, -1, -1], [-1, -1, 0]]

    def test_fixed_slots_are_written_again(self, full: ReferenceEngine) -> None:
        session = opened(full, "fixed", [1, 2, 3, 4], capacity=4)
        session.crop([2])
        session.append(batch([5, 6]))
        assert session.storages[0].positions.tolist() == [[0, 1, 2, 3]]

    def test_to_nothing_starts_over(self, full: ReferenceEngine) -> None:
        session = opened(full, "growing", [1, 2, 3])
        session.crop([0])
        assert torch.equal(session.append(batch([8, 9])), full.open(session.layout).prefill(batch([8, 9])))

    @pytest.mark.parametrize("lengths", [[4, 1], [-1, 1], [1]])
    def test_impossible_lengths_are_refused(self, full: ReferenceEngine, lengths: list[int]) -> None:
        session = opened(full, "growing", [1, 2, 3], [-1, 4, 5])
        assert refused(lambda: session.crop(lengths)) == (
            f"crop: to {lengths}, the rows hold [3, 2]\n  help: keep 0 tokens or more, per row"
        )

    def test_a_ring_goes_back_as_far_as_its_depth(self, narrow: ReferenceEngine) -> None:
        tokens = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
        session = opened(narrow, "ring", tokens, depth=3)
        session.crop([7])
        expected = opened(narrow, "growing", tokens[:7]).append(batch([20]))
        assert float((session.append(batch([20])) - expected).abs().max()) < 1e-13

    def test_a_ring_refuses_to_go_back_further(self, window: ReferenceEngine) -> None:
        session = opened(window, "ring", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [-1, 2, 3, 4, 5, 6, 7, 8, 9, 10], depth=1)
        before = session.probe()
        assert refused(lambda: session.crop([9, 6])) == (
            "crop: row 1 cannot go back from 9 to 6 tokens: a ring of 7 slots has overwritten them\n"
            "  help: open the session with a depth above 1"
        )
        assert session.probe() == before

    def test_two_crops_reach_no_further_than_one(self, narrow: ReferenceEngine) -> None:
        session = opened(narrow, "ring", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], depth=3)
        session.crop([7])
        assert refused(lambda: session.crop([5])).startswith("crop: row 0 cannot go back from 7 to 5 tokens")

    @pytest.mark.parametrize("cache", [*CACHES, "quantised", "streaming"])
    def test_a_windowed_row_cropped_to_nothing_sees_nothing_and_is_fed_anew(
        self, window: ReferenceEngine, cache: str
    ) -> None:
        session = opened(window, cache, [1, 2, 3])
        session.crop([0])
        assert session.probe().visible == ((0,),) * len(window.decoder.config.layers)
        assert torch.equal(session.append(batch([4])), opened_logits(window, cache, [4]))


class TestSelect:
    @pytest.mark.parametrize("cache", CACHES)
    def test_a_repeated_parent_is_copied(self, window: ReferenceEngine, cache: str) -> None:
        session = opened(window, cache, [1, 2, 3], [4, 5, 6])
        session.select([1, 1])
        session.storages[0].keys[0] = 0.0
        assert bool((session.storages[0].keys[1, :, :3] != 0.0).all())

    @pytest.mark.parametrize("parents", [[2], [-1], []])
    def test_an_impossible_parent_is_refused(self, full: ReferenceEngine, parents: list[int]) -> None:
        session = opened(full, "growing", [1], [2])
        assert refused(lambda: session.select(parents)) == (
            f"select: parents {parents} of 2 rows\n  help: name rows 0 to 1"
        )


class TestFork:
    @pytest.mark.parametrize("cache", CACHES)
    def test_no_buffer_is_shared(self, window: ReferenceEngine, cache: str) -> None:
        session = opened(window, cache, [1, 2, 3])
        assert not storages(session) & storages(session.fork())

    @pytest.mark.parametrize("cache", CACHES)
    def test_both_continue_to_the_bit(self, window: ReferenceEngine, cache: str) -> None:
        session = opened(window, cache, [1, 2, 3, 4, 5, 6, 7])
        twin = session.fork()
        assert torch.equal(session.append(batch([8])), twin.append(batch([8])))


class TestReset:
    @pytest.mark.parametrize("cache", ["fixed", "ring"])
    def test_buffers_and_what_they_held_stay(self, window: ReferenceEngine, cache: str) -> None:
        session = opened(window, cache, [1, 2, 3, 4, 5, 6, 7])
        held, kept = storages(session), session.storages[1].keys.clone()
        session.reset()
        assert storages(session) == held
        assert torch.equal(session.storages[1].keys, kept)
        assert session.probe().lengths == ()

    @pytest.mark.parametrize("cache", CACHES)
    def test_what_they_held_is_never_seen(self, window: ReferenceEngine, cache: str) -> None:
        session = opened(window, cache, [1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14])
        session.reset()
        logits = session.prefill(batch([20, 21], [22, 23]))
        fresh = window.open(session.layout)
        assert torch.equal(logits, fresh.prefill(batch([20, 21], [22, 23])))
        assert session.probe() == fresh.probe()

    @pytest.mark.parametrize("rows", [1, 3])
    @pytest.mark.parametrize("cache", CACHES)
    def test_another_number_of_rows_may_follow(self, window: ReferenceEngine, cache: str, rows: int) -> None:
        session = opened(window, cache, [1, 2, 3], [4, 5, 6])
        session.reset()
        session.prefill(batch(*[[20, 21]] * rows))
        assert session.probe().lengths == (2,) * rows


class TestExport:
    @pytest.mark.parametrize("cache", CACHES)
    def test_no_dropped_token_leaves_the_session(self, window: ReferenceEngine, cache: str) -> None:
        session = opened(window, cache, [1, 2, 3, 4], [-1, 5, 6, 7])
        session.crop([2, 3])
        state = session.export()
        unseen = state.tensors["layer.0.positions"] < 0
        assert float(state.tensors["layer.0.keys"].transpose(1, 2)[unseen].abs().sum()) == 0.0

    def test_reused_buffers_export_as_fresh_ones(self, window: ReferenceEngine) -> None:
        session = opened(window, "fixed", [1, 2, 3, 4, 5])
        session.reset()
        session.prefill(batch([6, 7]))
        again, fresh = session.export(), opened(window, "fixed", [6, 7]).export()
        assert all(torch.equal(again.tensors[name], fresh.tensors[name]) for name in fresh.tensors)
        assert again.scalars == fresh.scalars

    def test_names_are_by_layer(self, narrow: ReferenceEngine) -> None:
        names = opened(narrow, "ring", [1, 2]).export().tensors.keys()
        assert sorted(name for name in names if name.startswith("layer.0.")) == [
            "layer.0.counts",
            "layer.0.keys",
            "layer.0.positions",
            "layer.0.values",
        ]


class TestRestore:
    @pytest.mark.parametrize("cache", CACHES)
    def test_a_cropped_selected_cache_continues_to_the_bit(self, window: ReferenceEngine, cache: str) -> None:
        session = opened(window, cache, [1, 2, 3, 4, 5, 6, 7, 8, 9], [-1, -1, 5, 6, 7, 8, 9, 10, 11])
        session.select([1, 0, 1])
        session.crop([6, 7, 4])
        again = window.open(session.layout)
        again.restore(session.export())
        assert again.probe() == session.probe()
        assert torch.equal(again.append(batch([3], [4], [5])), session.append(batch([3], [4], [5])))

    def test_a_session_in_use_is_refused(self, full: ReferenceEngine) -> None:
        session = opened(full, "growing", [1, 2])
        assert refused(lambda: session.restore(session.export())) == (
            "restore: the session holds rows already\n  help: restore into a newly opened session"
        )

    def test_another_kind_is_refused(self, full: ReferenceEngine) -> None:
        state = opened(full, "growing", [1, 2]).export()
        assert misfit(full, "fixed", state) == (
            "restore: a 'growing' cache does not fit a 'fixed' one\n  help: open the session with cache 'growing'"
        )

    def test_a_missing_tensor_is_named(self, full: ReferenceEngine) -> None:
        state = opened(full, "growing", [1, 2]).export()
        lacking = {name: tensor for name, tensor in state.tensors.items() if name != "layer.2.values"}
        assert misfit(full, "growing", replace(state, tensors=lacking)) == (
            "restore: layer.2.values is missing\n  help: restore an export of the same model and cache kind"
        )

    def test_an_unknown_scalar_is_named(self, full: ReferenceEngine) -> None:
        state = opened(full, "growing", [1, 2]).export()
        assert misfit(full, "growing", replace(state, scalars={"layer.0.age": 3})) == (
            "restore: layer.0.age is unknown\n  help: restore an export of the same model and cache kind"
        )

    def test_another_dtype_is_named(self, full: ReferenceEngine) -> None:
        state = with_tensor(opened(full, "growing", [1, 2]).export(), "layer.1.keys", lambda keys: keys.float())
        assert misfit(full, "growing", state) == (
            "restore: layer.1.keys is torch.float32 (1, 2, 2, 8), this session holds torch.float64 (1, 2, 2, 8)\n"
            "  help: open the session with the layout and dtype of the exported one"
        )

    def test_another_capacity_is_named(self, full: ReferenceEngine) -> None:
        state = opened(full, "fixed", [1, 2], capacity=6).export()
        assert misfit(full, "fixed", state) == (
            "restore: layer.0.keys is torch.float64 (1, 2, 6, 8), this session holds torch.float64 (1, 2, 20, 8)\n"
            "  help: open the session with the layout and dtype of the exported one"
        )

    def test_a_tensor_without_axes_is_named(self, full: ReferenceEngine) -> None:
        state = with_tensor(opened(full, "growing", [1, 2]).export(), "layer.0.positions", lambda held: held[0, 0])
        assert misfit(full, "growing", state).startswith("restore: layer.0.keys is torch.float64 (1, 2, 2, 8), ")

    def test_layers_of_unequal_rows_are_refused(self, full: ReferenceEngine) -> None:
        one, two = opened(full, "growing", [1, 2]).export(), opened(full, "growing", [1, 2], [3, 4]).export()
        mixed = {name: (two if name.startswith("layer.2") else one).tensors[name] for name in one.tensors}
        assert misfit(full, "growing", replace(one, tensors=mixed)) == (
            "restore: layers of [1, 2] rows\n  help: restore an export as it was made"
        )

    @pytest.mark.parametrize("columns", [1, 21, True, "3", None])
    def test_impossible_columns_are_refused(self, full: ReferenceEngine, columns: int | str | None) -> None:
        state = opened(full, "fixed", [1, 2]).export()
        wrong = replace(state, scalars={**state.scalars, "layer.1.columns": columns})
        assert misfit(full, "fixed", wrong) == (
            f"restore: layer.1.columns is {columns!r}, its tensors need 2 to 20\n"
            "  help: restore an export as it was made"
        )


def with_tensor(state: CacheState, name: str, change: Callable[[Tensor], Tensor]) -> CacheState:
    return replace(state, tensors={**state.tensors, name: change(state.tensors[name])})


def misfit(engine: ReferenceEngine, cache: str, state: CacheState) -> str:
    """Return the message of a refused restore, and see that the session is as empty as before."""
    session = engine.open(Layout(rows=1, capacity=20, depth=3, cache=cache))
    message = refused(lambda: session.restore(state))
    assert torch.equal(session.prefill(batch([1, 2])), engine.open(session.layout).prefill(batch([1, 2])))
    return message
