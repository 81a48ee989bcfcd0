from __future__ import annotations

import pytest

from evseq.verdict.rounding import rounding
from playing import observed, played

SINGLE = {"dtype": ("float32",)}

FORK = """\
rows:
  a: {random: {length: 10, seed: 1}}
arms:
  dtype: [float64, float32]
events:
  - prefill: {rows: {a: 7}}
  - fork: {as: twin}
  - append: {next: 2}
  - append: {next: 1, on: twin}
"""


class TestRounding:
    def test_each_history_stands_once_however_often_it_was_observed(self) -> None:
        evidence = observed(FORK, "reference:full", only=SINGLE)
        found = rounding(evidence.recording, evidence.references)
        assert found.nodes == evidence.references.nodes
        assert sum(len(fed.nodes) for fed in evidence.recording.fed) == len(found.nodes) + 1

    def test_the_largest_observation_of_a_history_counts(self) -> None:
        evidence = observed(FORK, "planted.engines:noisy_cached", only=SINGLE)
        evidence.recording.fed[-1].logits[0, 5] += 1.0
        found = rounding(evidence.recording, evidence.references)
        assert float(found.cached[7]) == pytest.approx(1.0, abs=1e-4)
        assert float(found.cached[8]) < 1e-4

    def test_in_float64_only_the_cached_side_has_an_error(self) -> None:
        evidence = observed(FORK, "reference:full")
        found = rounding(evidence.recording, evidence.references)
        assert float(found.uncached.max()) == 0.0
        assert 0.0 < float(found.cached.max()) < 1e-12


class TestRatio:
    def test_a_healthy_engine_rounds_about_as_much_on_both_sides(self) -> None:
        (case,) = played(FORK, "reference:full", only=SINGLE).cases
        assert case.errors is not None
        assert case.errors.ratio is not None
        assert 0.1 < case.errors.ratio < 2.5

    def test_a_noisier_cached_side_passes_and_shows(self) -> None:
        (healthy,) = played(FORK, "reference:full", only=SINGLE).cases
        (noisy,) = played(FORK, "planted.engines:noisy_cached", only=SINGLE).cases
        assert noisy.findings == ()
        assert healthy.errors is not None
        assert noisy.errors is not None
        assert noisy.errors.uncached == healthy.errors.uncached
        assert noisy.errors.cached > healthy.errors.cached + 1e-6

    def test_where_the_uncached_side_is_truth_there_is_none(self) -> None:
        (case,) = played(FORK, "reference:full").cases
        assert case.errors is not None
        assert case.errors.ratio is None

    def test_a_side_that_is_no_number_is_infinitely_off(self) -> None:
        (case,) = played(FORK, "planted.engines:uncached_infinite", only=SINGLE).cases
        assert case.errors is not None
        assert case.errors.uncached == float("inf")

    def test_nothing_observed_has_none(self) -> None:
        evidence = observed(FORK, "reference:full")
        evidence.recording.fed.clear()
        assert rounding(evidence.recording, evidence.references).ratio is None
