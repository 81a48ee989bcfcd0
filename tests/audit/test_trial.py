"""A trial says who turned red by what, and where a fault is tried at all."""

from __future__ import annotations

import pytest

from evseq.audit.bench import bench
from evseq.audit.healthy import Healthy, Sound
from evseq.audit.trial import Trial, Tried, planted
from evseq.errors import TargetError
from evseq.faults.catalogue import FAULTS
from evseq.golden.terms import Terms
from evseq.pipeline import read_scripts
from evseq.script.library import SUITE
from evseq.verdict.result import Check

FULL = "reference:full"


def attempt(work: Trial | Healthy) -> Tried | Sound:
    with bench(threads=1, goldens=Terms()) as attempts:
        return attempts(work)


def tried(fault: str, *scripts: str, arms: dict[str, str] | None = None, full: bool = False, beside: str = "") -> Tried:
    ended = attempt(
        Trial(
            fault=fault,
            target=FULL,
            arms=arms or {},
            scripts=scripts,
            beside=tuple(beside.split()),
            full=full,
        )
    )
    assert isinstance(ended, Tried)
    return ended


class TestWhere:
    def test_an_engine_stands_for_where_the_fault_is_quickest_seen(self) -> None:
        assert planted(FAULTS["pads-counted"], ["reference"]) == ("reference:learned", {"padding": "left"})
        assert planted(FAULTS["pads-counted"], ["transformers"]) == ("transformers:new/gpt2", {"padding": "left"})

    def test_a_single_target_is_taken_as_it_is(self) -> None:
        assert planted(FAULTS["pads-seen"], ["reference:window"]) == ("reference:window", {"padding": "left"})
        assert planted(FAULTS["values-not-selected"], [FULL]) == (FULL, {"cache": "fixed"})

    def test_an_engine_that_no_fault_names_shows_it_in_any_arm(self) -> None:
        assert planted(FAULTS["pads-seen"], ["planted.second:Second"]) == ("planted.second:Second", {})

    def test_the_first_target_that_takes_it_is_chosen(self) -> None:
        assert planted(FAULTS["rolled-too-early"], [FULL, "reference:window"]) == ("reference:window", {})

    def test_where_it_cannot_show_the_reason_is_told(self) -> None:
        assert planted(FAULTS["rolled-too-early"], [FULL]) == "no layer of this target has a window"
        assert planted(FAULTS["window-inclusive"], ["transformers"]) == "it shows in no configuration of transformers"

    def test_a_target_that_is_none_is_refused(self) -> None:
        with pytest.raises(TargetError, match=r"^reference:fill: no configuration 'fill'"):
            attempt(Healthy(target="reference:fill", scripts=("half-precision",)))


class TestFault:
    def test_who_caught_it_is_told_with_what_led(self) -> None:
        ended = tried("later-layers-not-selected", "greedy-continuation", "half-precision")

        (red,) = ended.reds
        assert (red.script, red.event, red.check) == ("half-precision", "append", Check.PARITY)
        assert red.place.endswith("half-precision.evseq.yaml:19:5")
        assert red.ratio is not None
        assert red.ratio > 1e6
        assert ended.ratio("float64") == red.ratio

    def test_the_first_red_case_is_enough(self) -> None:
        (red,) = tried("values-rounded", "half-precision").reds

        assert (red.red, red.played) == (1, 1)

    def test_a_quick_set_may_say_which_case_it_was(self) -> None:
        (first,) = tried("values-rounded", "half-precision").reds
        (fixed,) = tried("whole-buffer-counts", "half-precision", arms={"cache": "fixed"}).reds

        assert (first.pick, first.meant) == ("half-precision", 1)
        assert (fixed.pick, fixed.meant) == ("half-precision cache=all", 3)

    def test_in_full_every_case_is_played(self) -> None:
        (red,) = tried("values-rounded", "half-precision", full=True).reds

        assert red.red == red.played > 1

    def test_cases_that_show_it_are_played_first(self) -> None:
        (red,) = tried("state-decays-over-pads", "unequal-rows", arms={"padding": "right"}).reds

        assert "right" in red.case
        assert (red.red, red.played) == (1, 1)

    def test_a_script_that_does_not_see_it_is_not_among_those(self) -> None:
        ended = tried("tile-edge-unseen", "greedy-continuation", "half-precision")

        assert ended.reds == ()
        assert not ended.killed
        assert ended.cases > 2

    def test_nothing_is_played_that_does_not_come_upon_what_is_broken(self) -> None:
        ended = tried("later-layers-not-selected", "greedy-continuation", "tile-edges")

        assert (ended.reds, ended.cases) == ((), 0)

    def test_one_case_is_enough_where_another_script_catches_it(self) -> None:
        ended = tried("slow-drift", "half-precision", "refused-salt")

        assert [red.script for red in ended.reds] == ["half-precision", "refused-salt"]
        assert ended.cases == 2

    def test_a_script_is_played_in_a_dtype_that_it_has(self) -> None:
        ended = tried("half-beams-rolled", "half-precision", "refused-salt", arms={"dtype": "bfloat16"})

        assert [red.pick for red in ended.reds] == ["half-precision dtype=bfloat16"]
        assert ended.cases == 1

    def test_values_that_are_impossible_together_are_passed_over(self) -> None:
        ended = tried("guard-without-cache-kind", "refused-buffers")

        assert ended.as_named

    def test_every_value_of_each_arm_is_met_and_in_full_every_pair(self) -> None:
        few = tried("tile-edge-unseen", "chunk-splits-padded")
        whole = tried("tile-edge-unseen", "chunk-splits-padded", full=True)

        assert len(read_scripts([SUITE / "chunk-splits-padded.evseq.yaml"])[0].arms["chunk"].values) <= few.cases
        assert few.cases < whole.cases

    def test_no_ratio_is_told_where_no_logit_led(self) -> None:
        ended = tried("guard-names-next-place", "refused-prefix-token")

        assert [(red.check, red.ratio) for red in ended.reds] == [(Check.REFUSAL, None)]
        assert ended.ratio("float64") is None

    def test_what_the_catalogue_names_is_compared_with_what_led(self) -> None:
        assert tried("guard-names-next-place", "refused-prefix-token").as_named
        assert not tried("later-layers-not-selected", "half-precision").as_named

    def test_other_dtypes_are_asked_whether_they_would_have_caught_it(self) -> None:
        ended = tried("slow-drift", "half-precision", beside="float32 float64")

        assert ended.beside == {"float32": None}
        assert ended.killed

    def test_a_gross_fault_is_caught_in_half_precision_too(self) -> None:
        beside = tried("later-layers-not-selected", "half-precision", beside="bfloat16").beside["bfloat16"]

        assert beside is not None
        assert (beside.script, beside.event) == ("half-precision", "append")

    def test_a_fault_on_both_sides_is_seen_by_a_golden(self) -> None:
        (red,) = tried("both-attention-scale", "half-precision").reds

        assert red.check is Check.GOLDEN


class TestBench:
    def test_what_one_fault_made_known_changes_nothing_for_the_next(self) -> None:
        drift = Trial(fault="slow-drift", target=FULL, arms={}, scripts=("half-precision", "tile-edges"))
        other = Trial(fault="cached-calls-move-uncached", target=FULL, arms={}, scripts=("half-precision",))
        with bench(threads=1, goldens=Terms()) as attempts:
            first, moved, again = attempts(drift), attempts(other), attempts(drift)

        assert first == again
        assert isinstance(moved, Tried)
        assert [red.check for red in moved.reds] == [Check.REFERENCE]


class TestHealthy:
    def test_a_healthy_target_is_silent_and_its_largest_share_is_told(self) -> None:
        ended = attempt(Healthy(target=FULL, scripts=("half-precision",)))

        assert isinstance(ended, Sound)
        assert ended.alarms == ()
        assert ended.cases > 4
        assert set(ended.largest) == {"float64", "bfloat16"}
        assert 0 < ended.largest["bfloat16"][0] < 1
        assert ended.largest["bfloat16"][1].startswith("half-precision[bfloat16-")
        assert 6 < ended.forwards["half-precision"] < 12  # six of a case, and its share of what references took

    def test_other_rows_have_no_golden_and_are_silent_too(self) -> None:
        ended = attempt(Healthy(target=FULL, scripts=("refused-prefix-token", "half-precision"), seed=1))

        assert isinstance(ended, Sound)
        assert ended.alarms == ()
        assert ended.largest["bfloat16"][1].startswith("half-precision@1[bfloat16-")

    def test_a_case_that_fails_there_is_an_alarm(self) -> None:
        ended = attempt(Healthy(target=f"{FULL}+guard-names-next-place", scripts=("refused-prefix-token",)))

        assert isinstance(ended, Sound)
        assert ended.alarms[0].case.startswith("refused-prefix-token[")
        assert ": reload: row 'a' index " in ended.alarms[0].finding
