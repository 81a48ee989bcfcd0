"""Caches that promise less than `exact`: what each is held to, red on a fault and silent on a healthy engine."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import torch

from evseq.geometry import Dtype
from evseq.pipeline import judge
from evseq.verdict.allowance import allowance
from evseq.verdict.lossy import envelope, envelope_share, solo
from evseq.verdict.result import Case, Outcome
from playing import first, lines, observed, played

ROWS = """\
rows:
  a: {random: {length: 18, seed: 1}}
  b: {random: {length: 14, seed: 2}}
arms:
  dtype: [float64, float32]
"""

FED = f"""{ROWS}\
  cache: [blocks]
events:
  - prefill: {{rows: {{a: 11, b: 7}}}}
  - append: {{next: 3}}
"""

BEAMS = f"""{FED}\
  - beam-select: {{x: b, y: a}}
  - append: {{ids: {{x: [5, 6], y: [7, 8]}}}}
"""

COARSE = {"dtype": ("float32",)}


def only_case(text: str, target: str) -> Case:
    (case,) = played(text, target).cases
    return case


class TestSolo:
    def test_a_healthy_cache_gives_each_row_what_it_gives_it_alone(self) -> None:
        result = played(BEAMS, "reference:full", only={})

        assert lines(result) == []
        assert {case.outcome for case in result.cases} == {Outcome.PASSED}

    def test_packed_parts_left_behind_are_told_where_they_are_first_seen(self) -> None:
        result = played(BEAMS, "reference:full+packed-not-selected")

        told = r"case\.evseq\.yaml:14:5: append: row 'y' index 14: solo: logit \d+ is [-.\d]+, "
        assert re.match(
            told + r"with its row alone [-.\d]+: off by [.\d]+, allowed [.\de-]+ in float64$", first(result)
        )

    def test_the_cause_says_that_the_row_alone_goes_on_otherwise(self) -> None:
        (finding, *_) = only_case(BEAMS, "reference:full+packed-not-selected").findings

        assert finding.cause == (
            "the row alone, fed in the same pieces, goes on otherwise: what stood beside it, or was done to its cache, "
            "moved what is held; the last change of this cache before it: beam-select in line 13"
        )

    def test_another_chunking_is_another_truth(self) -> None:
        whole = observed(FED, "reference:full")
        pieces = observed(FED.replace("[blocks]", "[blocks]\n  chunk: [3]"), "reference:full")

        last, other = whole.recording.fed[-1].logits, pieces.recording.fed[-1].logits

        assert float((last - other).abs().max()) > 1e6 * float(allowance(Dtype.FLOAT64, whole.references).max())

    def test_a_row_that_cannot_be_replayed_alone_is_a_finding(self) -> None:
        evidence = observed(FED, "reference:full")
        evidence.recording.alone = "EngineError: one row alone is refused"

        assert [str(finding) for finding in solo(evidence)] == [
            "case.evseq.yaml:11:5: prefill: solo: a row replayed alone raised EngineError: one row alone is refused"
        ]

    def test_what_was_refused_out_loud_is_not_asked_of_a_row_alone(self) -> None:
        rolled = "  - fork: {as: other}\n  - crop: {by: 1, expect: loud}\n  - append: {next: 1}\n"
        result = played(f"{FED}{rolled}  - append: {{next: 2, on: other}}\n", "reference:full", only={})

        assert lines(result) == []
        assert {case.outcome for case in result.cases} == {Outcome.PASSED}

    def test_a_coarser_dtype_may_be_a_step_of_the_rounding_off(self) -> None:
        evidence = observed(FED, "reference:full", only=COARSE)
        fed = evidence.recording.fed[-1]
        truth = evidence.references.truth[evidence.references.places(fed.nodes)]
        alone = evidence.recording.solo[fed.lineage].double()
        step = (alone - truth).abs().amax(-1, keepdim=True)  # observation 1: what all rounding together costs

        evidence.recording.fed[-1] = replace(fed, logits=(alone + 0.9 * step).float())
        assert list(solo(evidence)) == []
        evidence.recording.fed[-1] = replace(fed, logits=(alone + 1.1 * step + 1e-3).float())
        assert {finding.row for finding in solo(evidence)} == {"a", "b"}


class TestEnvelope:
    def test_what_every_row_gets_wrong_alone_too_is_told(self) -> None:
        case = only_case(FED, "reference:full+zero-point-dropped")

        assert case.findings[0].check == "envelope"
        assert case.findings[0].message.endswith("0.2 of the largest logit")
        assert case.findings[0].cause == "the row alone is as far off: what is held is wrong however it is fed"

    def test_the_largest_share_is_told_and_no_parity(self) -> None:
        case = only_case(FED, "reference:full")

        assert case.promise == "lossy"
        assert case.envelope is not None
        assert 0.01 < case.envelope < 0.5
        assert (case.errors, case.golden_share) == (None, None)

    def test_a_kind_that_declares_none_is_not_judged_by_one(self) -> None:
        evidence = observed(FED, "reference:full")
        kinds = tuple(replace(kind, envelope=None) for kind in evidence.description.caches)
        free = replace(evidence, description=replace(evidence.description, caches=kinds))

        assert (list(envelope(free)), envelope_share(free)) == ([], None)


class TestMasked:
    def test_rounding_and_streaming_are_held_to_a_truth_of_their_own(self) -> None:
        text = BEAMS.replace("[blocks]", "[quantised, streaming]")

        result = played(text, "reference:full", "reference:window", only={})

        assert lines(result) == []
        assert {case.promise for case in result.cases} == {"masked"}

    def test_a_first_token_let_go_is_a_finding_of_parity(self) -> None:
        found = first(played(FED.replace("[blocks]", "[streaming]"), "reference:full+first-tokens-short"))

        assert found.startswith("case.evseq.yaml:11:5: prefill: row 'a' index 7: parity: ")

    def test_the_rounding_of_a_coarser_dtype_may_fall_on_the_next_step(self) -> None:
        group = observed(FED.replace("[blocks]", "[quantised]"), "reference:full", only=COARSE)
        lost = replace(group.references, loss=torch.full_like(group.references.scale, 2.0))

        assert float(allowance(Dtype.FLOAT32, lost).min()) >= 2.0
        assert torch.equal(allowance(Dtype.FLOAT64, lost), allowance(Dtype.FLOAT64, group.references))


def test_a_recording_keeps_what_rows_give_alone_and_is_judged_by_it_again(tmp_path: Path) -> None:
    text = BEAMS.replace("[blocks]", "[blocks, quantised]")
    once = played(text, "reference:full+packed-not-selected", only={}, record=tmp_path)

    (file,) = tmp_path.iterdir()

    assert [str(finding) for case in judge(file).cases for finding in case.findings] == lines(once) != []
