from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest
import torch
from torch import Tensor

from evseq.engines.protocol import Engine
from evseq.geometry import Deciding, Dtype
from evseq.history import MASKED, ROOT, Path, Tree
from evseq.replay.opening import UnusableError
from evseq.replay.oracle import PADS, Oracle
from playing import played

VOCAB = 5


@dataclass
class Sums:
    """An uncached side whose logits are made of the sum of the tokens so far, and what it was asked."""

    dtype: Dtype = Dtype.FLOAT64
    bend: Callable[[Tensor, Path], Tensor] = lambda logits, _: logits
    asked: list[Path] = field(default_factory=list)

    def uncached(self, path: Path) -> Tensor:
        self.asked.append(path)
        sums = torch.tensor(path.tokens).clamp_min(0).cumsum(0)[:, None] + torch.arange(VOCAB)
        return self.bend(sums.to(getattr(torch, self.dtype)).sin(), path)


@dataclass
class Bench:
    """Two histories, one of four and one of three tokens, with the first two in common."""

    deciding: Deciding = Deciding.PURE
    bend: Callable[[Tensor, Path], Tensor] = lambda logits, _: logits
    gap: bool = False

    def __post_init__(self) -> None:
        self.engines = {dtype: Sums(dtype=dtype, bend=self.bend) for dtype in Dtype}
        self.tree = Tree()
        stem = self.tree.extend(self.tree.extend(ROOT, 3, 0), 1, 1)
        inner = self.tree.extend(stem, MASKED, 0) if self.gap else stem
        self.nodes = [stem, inner + 1, inner + 2, inner + 3]
        self.tree.extend(self.tree.extend(inner, 4, 2), 2, 3)
        self.tree.extend(stem, 0, 2)
        self.oracle = Oracle(tree=self.tree, engine=self.engine, deciding=self.deciding, layers=1, vocab=VOCAB)

    def engine(self, dtype: Dtype) -> Engine:
        return cast("Engine", self.engines[dtype])

    def asked(self) -> int:
        return sum(len(engine.asked) for engine in self.engines.values())


def by_length(logits: Tensor, path: Path) -> Tensor:
    return logits / len(path)


def by_next(logits: Tensor, _: Path) -> Tensor:
    return logits + 0.1 * logits.roll(-1, dims=0)


def by_pads(logits: Tensor, path: Path) -> Tensor:
    return logits + 0.25 * path.tokens.count(MASKED)


def by_length_and_pads(logits: Tensor, path: Path) -> Tensor:
    return by_pads(logits / sum(token != MASKED for token in path.tokens), path)


def not_a_number(logits: Tensor, _: Path) -> Tensor:
    return logits.index_fill(0, torch.tensor(0), torch.nan)


def masked_not_a_number(logits: Tensor, path: Path) -> Tensor:
    return logits.masked_fill((torch.tensor(path.tokens) == MASKED)[:, None], torch.nan)


def masked_by_length(logits: Tensor, path: Path) -> Tensor:
    return logits.masked_fill((torch.tensor(path.tokens) == MASKED)[:, None], len(path))


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


class TestUnusable:
    def test_whatever_the_engine_raises(self) -> None:
        bench = Bench(bend=out_of_memory)

        with pytest.raises(UnusableError) as raised:
            bench.oracle.references([], bench.nodes)

        assert str(raised.value) == "the uncached forward raised MemoryError: full"

    @pytest.mark.parametrize(
        ("bend", "told"),
        [
            (lambda logits, _: logits[-1:], "[1, 5]"),
            (lambda logits, _: logits[:, :4], "[4, 4]"),
            (lambda logits, _: logits[None], "[1, 4, 5]"),
            (lambda logits, _: logits.tolist(), "list"),
            (lambda *_: None, "NoneType"),
        ],
    )
    def test_anything_but_a_table_of_logits(self, bend: Callable[[Tensor, Path], Tensor], told: str) -> None:
        bench = Bench(bend=bend)

        with pytest.raises(UnusableError) as raised:
            bench.oracle.references([], bench.nodes)

        assert str(raised.value) == f"the uncached forward returned {told}, expected logits of shape [4, 5]"

    def test_token_ids_are_no_logits(self) -> None:
        bench = Bench(bend=lambda logits, _: logits.long())

        with pytest.raises(UnusableError, match="returned"):
            bench.oracle.references([], bench.nodes)


def a_bit_more(logits: Tensor, _: Path) -> Tensor:
    return logits.nextafter(torch.tensor(2.0))


def out_of_memory(*_: object) -> Tensor:
    raise MemoryError("full")


def test_truth_of_a_history_is_not_taken_from_a_path_that_goes_on_at_its_own_position() -> None:
    bench = Bench()
    (stem, *_) = bench.nodes
    again, later = bench.tree.extend(stem, 2, 1), bench.tree.extend(stem, 2, 2)

    bench.oracle.references((), [stem, again, later])
    assert bench.oracle.leaves == (later, again)

    bench.oracle.references((), [stem, again])
    assert bench.oracle.leaves == (stem, again)
