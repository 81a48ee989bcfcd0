from __future__ import annotations

import time
from typing import cast

import pytest
import torch

from evseq.engines.protocol import Engine
from evseq.geometry import Deciding, Dtype
from evseq.history import MASKED, ROOT, Tree
from evseq.replay.oracle import PADS, Oracle
from planted.sums import (
    VOCAB,
    Bench,
    Sums,
    a_bit_more,
    by_length,
    by_length_and_pads,
    by_next,
    by_pads,
    masked_by_length,
    masked_not_a_number,
    not_a_number,
    out_of_memory,
)
from playing import played


class TestCounting:
    def test_every_leaf_runs_once_in_every_dtype(self) -> None:
        bench = Bench()

        bench.oracle.references([Dtype.FLOAT32, Dtype.BFLOAT16], bench.nodes)

        assert len(bench.oracle.leaves) == 2
        assert bench.oracle.forwards == 2 * 3
        assert bench.oracle.forwards + bench.oracle.reference_forwards == bench.asked()

    def test_the_deciding_dtype_is_always_among_them(self) -> None:
        bench = Bench()

        bench.oracle.references([Dtype.FLOAT32], bench.nodes)

        assert [path.tokens for path in bench.engines[Dtype.FLOAT64].asked[:2]] == [(3, 1, 4, 2), (3, 1, 0)]
        assert [path.tokens for path in bench.engines[Dtype.FLOAT32].asked[:2]] == [(3, 1, 4, 2), (3, 1, 0)]

    def test_only_the_ends_of_what_was_observed_are_run(self) -> None:
        bench = Bench()

        bench.oracle.references([Dtype.FLOAT64], bench.nodes[:2])

        assert [path.tokens for path in bench.engines[Dtype.FLOAT64].asked][:1] == [(3, 1, 4)]
        assert bench.oracle.forwards == 1

    def test_what_checks_the_reference_is_counted_apart(self) -> None:
        bench = Bench()
        bench.oracle.references([Dtype.FLOAT32], bench.nodes)
        assert bench.oracle.reference_forwards == 1 + 2  # half the longest, and both leaves in float32 behind pads

        bench.oracle.changed()

        assert bench.oracle.reference_forwards == 1 + 2 + 2
        assert bench.oracle.forwards == 4

    def test_five_hundred_appended_tokens_are_one_leaf_a_row(self) -> None:
        started = time.perf_counter()

        result = played(
            """
            rows:
              a: {random: {length: 520, seed: 1}}
              b: {random: {length: 505, seed: 2}}
            arms:
              dtype: [float32]
            events:
              - prefill: {rows: {a: 20, b: 5}}
              - append: {next: 500}
            """,
            "reference:full",
            only={},
        )

        assert result.passed
        assert (result.forwards.leaves, result.forwards.oracle) == (2, 2 * 2)
        assert [case.observations for case in result.cases] == [1025]
        assert result.replay_forwards == 501
        assert time.perf_counter() - started < 60


class TestReferences:
    def test_every_node_gets_the_logits_of_its_own_history(self) -> None:
        bench = Bench()

        found = bench.oracle.references([Dtype.FLOAT64], bench.nodes)

        sums = torch.tensor([4.0, 8.0, 10.0, 4.0])[:, None] + torch.arange(VOCAB)
        assert found.nodes == tuple(bench.nodes)
        assert torch.equal(found.truth, sums.double().sin())
        assert torch.equal(found.scale, found.truth.abs().amax(-1))

    def test_err_is_the_largest_distance_of_a_dtype_from_truth(self) -> None:
        bench = Bench()

        found = bench.oracle.references([Dtype.FLOAT32], bench.nodes)

        sums = torch.tensor([4.0, 8.0, 10.0, 4.0])[:, None] + torch.arange(VOCAB)
        assert torch.equal(found.err[Dtype.FLOAT32], (sums.sin().double() - found.truth).abs().amax(-1))
        assert found.err[Dtype.FLOAT64].tolist() == [0.0] * 4

    def test_err_is_the_larger_one_of_a_forward_alone_and_behind_pads(self) -> None:
        bench = Bench(bend=by_pads)

        found = bench.oracle.references([Dtype.FLOAT32], bench.nodes)

        assert found.err[Dtype.FLOAT32].tolist() == pytest.approx([0.25 * PADS] * 4)
        assert found.err[Dtype.FLOAT64].tolist() == [0.0] * 4

    def test_an_engine_without_pads_is_asked_for_none(self) -> None:
        bench = Bench()
        bench.oracle.pads = False

        bench.oracle.references([Dtype.FLOAT32], bench.nodes)

        assert all(MASKED not in path.tokens for engine in bench.engines.values() for path in engine.asked)
        assert bench.oracle.reference_forwards == 1

    def test_nothing_is_wrong_with_a_sound_uncached_side(self) -> None:
        bench = Bench()

        found = bench.oracle.references([Dtype.FLOAT32], bench.nodes)

        assert (found.causal_gap, found.dependent, bench.oracle.changed()) == (0.0, False, {})

    def test_a_side_that_sees_later_tokens_is_noticed(self) -> None:
        bench = Bench(bend=by_next)

        found = bench.oracle.references([], bench.nodes)

        assert found.dependent is False
        assert found.causal_gap > 1e-3

    def test_a_history_of_one_token_is_taken_as_it_is(self) -> None:
        tree = Tree()
        node = tree.extend(ROOT, 3, 0)
        oracle = Oracle(
            tree=tree,
            engine=lambda dtype: cast("Engine", Sums(dtype=dtype, bend=by_length)),
            deciding=Deciding.PURE,
            layers=1,
            vocab=VOCAB,
        )

        found = oracle.references([], [node])

        assert (found.causal_gap, found.dependent) == (0.0, False)

    def test_a_number_that_is_none_is_told_and_taken_for_nothing_else(self) -> None:
        bench = Bench(bend=not_a_number)

        found = bench.oracle.references([], bench.nodes)

        assert (found.causal_gap, found.dependent, bench.oracle.changed()) == (0.0, False, {})

    def test_logits_of_masked_slots_mean_nothing(self) -> None:
        bench = Bench(bend=masked_not_a_number, gap=True)

        found = bench.oracle.references([], bench.nodes)

        assert (found.causal_gap, found.dependent, bench.oracle.changed()) == (0.0, False, {})
        assert bool(found.finite[Dtype.FLOAT64].all())

    def test_not_even_where_they_depend_on_what_follows(self) -> None:
        bench = Bench(bend=masked_by_length, gap=True)

        found = bench.oracle.references([], bench.nodes)

        assert (found.causal_gap, found.dependent) == (0.0, False)

    def test_an_engine_that_writes_all_logits_into_one_buffer_is_read_in_time(self) -> None:
        buffer = torch.empty(9, VOCAB, dtype=torch.float64)
        bench = Bench(bend=lambda logits, _: buffer[: len(logits)].copy_(logits))

        found = bench.oracle.references([], bench.nodes)

        assert torch.equal(found.truth, Bench().oracle.references([], bench.nodes).truth)


class TestLengthDependent:
    def test_one_forward_per_history_on_top(self) -> None:
        bench = Bench(bend=by_length)

        found = bench.oracle.references([Dtype.FLOAT32], bench.nodes)

        assert (found.dependent, found.causal_gap) == (True, 0.0)
        assert bench.oracle.forwards == 2 * 2
        assert bench.oracle.reference_forwards == 2 + 2 * len(bench.nodes) + len(bench.nodes)  # the last behind pads

    def test_every_history_is_what_it_is_without_what_follows(self) -> None:
        bench = Bench(bend=by_length)

        found = bench.oracle.references([], bench.nodes)

        sums = torch.tensor([4.0, 8.0, 10.0, 4.0])[:, None] + torch.arange(VOCAB)
        assert torch.equal(found.truth, sums.double().sin() / torch.tensor([2.0, 3.0, 4.0, 3.0])[:, None])

    def test_such_an_engine_passes_where_its_steps_agree(self) -> None:
        result = played(
            """
            rows:
              a: {random: {length: 10, seed: 1}}
            events:
              - prefill: {rows: {a: 4}}
              - append: {next: 6}
            """,
            "planted.engines:length_dependent",
        )

        assert result.passed
        assert (result.forwards.leaves, result.forwards.oracle) == (1, 1)
        # Two that notice, ten histories, one after the replay, and four steps that show whether it repeats itself.
        assert result.forwards.reference == 2 + 10 + 1 + 4


class TestWithoutDoublePrecision:
    def test_err_is_what_pads_before_a_history_move(self) -> None:
        bench = Bench(Deciding.SINGLE, bend=by_pads)

        found = bench.oracle.references([Dtype.FLOAT32], bench.nodes)

        assert found.err[Dtype.FLOAT32].tolist() == pytest.approx([0.25 * PADS] * 4)

    def test_the_padded_forwards_check_the_reference(self) -> None:
        bench = Bench(Deciding.SINGLE)

        bench.oracle.references([Dtype.FLOAT32], bench.nodes)

        assert (bench.oracle.forwards, bench.oracle.reference_forwards) == (2, 1 + 2)
        assert [path.tokens for path in bench.engines[Dtype.FLOAT32].asked[-2:]] == [
            (*[MASKED] * PADS, 3, 1, 4, 2),
            (*[MASKED] * PADS, 3, 1, 0),
        ]

    def test_a_lower_dtype_is_measured_from_float32(self) -> None:
        bench = Bench(Deciding.SINGLE)

        found = bench.oracle.references([Dtype.FLOAT32, Dtype.BFLOAT16], bench.nodes)

        halves = bench.engines[Dtype.BFLOAT16].uncached(bench.tree.path(bench.nodes[2])).double()
        assert float(found.err[Dtype.BFLOAT16][2]) == float((halves[-1] - found.truth[2]).abs().max())

    def test_where_the_length_matters_too_every_history_is_padded_by_itself(self) -> None:
        bench = Bench(Deciding.SINGLE, bend=by_length_and_pads)

        found = bench.oracle.references([Dtype.FLOAT32], bench.nodes)

        assert found.dependent is True
        assert found.err[Dtype.FLOAT32].tolist() == pytest.approx([0.25 * PADS] * 4)

    def test_such_an_engine_is_judged(self) -> None:
        result = played(
            """
            rows:
              a: {random: {length: 10, seed: 1}}
            arms:
              dtype: [float32, bfloat16]
            events:
              - prefill: {rows: {a: 4}}
              - append: {next: 2}
            """,
            "planted.engines:only_single",
            only={},
        )

        assert result.passed
        assert [(case.dtype, case.margin is not None) for case in result.cases] == [
            ("float32", True),
            ("bfloat16", True),
        ]


class TestChanged:
    def test_other_bits_are_told_by_dtype(self) -> None:
        bench = Bench()
        bench.oracle.references([Dtype.FLOAT32], bench.nodes)

        bench.engines[Dtype.FLOAT32].bend = a_bit_more

        assert bench.oracle.changed() == {
            Dtype.FLOAT32: "the uncached float32 forward gives other bits after the replay than before it"
        }

    def test_a_forward_that_fails_by_now_is_told(self) -> None:
        bench = Bench()
        bench.oracle.references([], bench.nodes)

        bench.engines[Dtype.FLOAT64].bend = out_of_memory

        assert bench.oracle.changed() == {
            Dtype.FLOAT64: "after the replay, not before it, the uncached forward raised MemoryError: full"
        }


def test_truth_of_a_history_is_not_taken_from_a_path_that_goes_on_at_its_own_position() -> None:
    bench = Bench()
    (stem, *_) = bench.nodes
    again, later = bench.tree.extend(stem, 2, 1), bench.tree.extend(stem, 2, 2)

    bench.oracle.references((), [stem, again, later])
    assert bench.oracle.leaves == (later, again)

    bench.oracle.references((), [stem, again])
    assert bench.oracle.leaves == (stem, again)
