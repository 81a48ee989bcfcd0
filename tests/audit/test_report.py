"""What an audit tells, from results written down here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from evseq.audit import report
from evseq.audit.audit import Audit
from evseq.audit.healthy import Alarm, Sound
from evseq.audit.report import as_data, lines, write
from evseq.audit.trial import Red, Tried
from evseq.errors import UsageError
from evseq.script.picks import Pick
from evseq.verdict.checks import CHECKS
from evseq.verdict.result import Check, Exit


def red(script: str, event: str, check: Check, *, ratio: float | None = None) -> Red:
    return Red(
        script=script,
        place=f"{script}.evseq.yaml:12:5",
        event=event,
        check=check,
        checks=(check,),
        ratio=ratio,
        case=f"{script}[left]",
        red=1,
        played=1,
        pick=script,
        meant=1,
    )


def tried(fault: str, *reds: Red, beside: Red | None = None, target: str = "reference:full", arm: str = "") -> Tried:
    return Tried(
        fault=fault,
        target=target,
        arms={"padding": arm} if arm else {},
        dtype="float64",
        reds=reds,
        beside={"float32": beside},
        cases=4,
    )


CAUGHT = tried(
    "pads-seen",
    red("chunk-splits", "append", Check.PARITY, ratio=3e5),
    red("unequal-rows", "prefill", Check.PARITY, ratio=7e6),
    beside=red("unequal-rows", "prefill", Check.PARITY, ratio=120.0),
    arm="left",
)
REFUSED = tried("guard-runs-first", red("refused-prefix-token", "reload", Check.REFUSAL))
ASTRAY = tried("slow-drift", red("unequal-rows", "append", Check.PARITY, ratio=float("inf")))
ELSEWHERE = tried("dropped-bytes-stay", red("unequal-rows", "append", Check.ACCOUNTING))
SURVIVOR = tried("tile-edge-unseen")

SOUND = Sound(
    target="reference:full",
    cases=1200,
    alarms=(),
    largest={"float64": (0.02, "text-prompts[float64]"), "float32": (0.5, "tile-edges[float32]")},
    forwards={},
)
ALARM = Alarm(case="tile-edges[left]", finding="tile-edges.evseq.yaml:9:5: append: row 'a' index 3: parity: off")

SCRIPTS = ("chunk-splits", "refused-prefix-token", "text-prompts", "unequal-rows")


def audited(
    *tried: Tried,
    sound: tuple[Sound, ...] = (SOUND,),
    whole: bool = False,
    shipped: bool = False,
    interrupted: bool = False,
) -> Audit:
    return Audit(
        targets=("reference",),
        scripts=SCRIPTS,
        tried=tried,
        sound=sound,
        apart={"base-by-length": "this decoder has no rotary positions"},
        whole=whole,
        shipped=shipped,
        seconds=75.0,
        interrupted=interrupted,
    )


def alarmed() -> Sound:
    return Sound(
        target="reference:window", cases=3, alarms=(ALARM,), largest={"float32": (1.5, ALARM.case)}, forwards={}
    )


class TestAudit:
    def test_all_killed_and_no_alarm_is_passed(self) -> None:
        assert audited(CAUGHT, REFUSED).exit is Exit.PASSED

    def test_a_survivor_is_a_failure(self) -> None:
        assert audited(CAUGHT, SURVIVOR).exit is Exit.FAILED
        assert audited(CAUGHT, SURVIVOR).survivors == ("tile-edge-unseen",)

    def test_a_false_alarm_is_a_failure(self) -> None:
        assert audited(CAUGHT, sound=(SOUND, alarmed())).exit is Exit.FAILED

    def test_nothing_tried_is_nothing(self) -> None:
        assert audited().exit is Exit.NOTHING

    def test_an_interrupted_audit_keeps_what_it_has(self) -> None:
        audit = audited(CAUGHT, SURVIVOR, interrupted=True)

        assert audit.exit is Exit.INTERRUPTED
        assert (audit.killed, audit.survivors, audit.idle_scripts) == (1, ("tile-edge-unseen",), ())

    def test_what_is_idle_is_a_failure_in_a_whole_audit_only(self) -> None:
        assert audited(CAUGHT, REFUSED).idle_scripts == ("text-prompts",)
        assert audited(CAUGHT, REFUSED).idle_checks == tuple(
            check for check in CHECKS if check not in (Check.PARITY, Check.REFUSAL)
        )
        assert audited(CAUGHT, REFUSED, whole=True).exit is Exit.FAILED

    def test_a_fault_caught_by_something_else_is_told_of(self) -> None:
        assert audited(CAUGHT, REFUSED, ASTRAY).astray == ("slow-drift",)
        assert audited(ELSEWHERE).astray == ()

    def test_a_shipped_quick_set_that_is_out_of_date_is_a_failure_in_a_whole_audit_only(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("evseq.audit.picking.quick", lambda: (Pick(script="unequal-rows"),))

        assert audited(CAUGHT, REFUSED, whole=True).stale == "it misses guard-runs-first"
        assert audited(CAUGHT, REFUSED).stale is None

    def test_where_only_the_quick_set_was_played_nothing_is_idle_or_astray(self) -> None:
        audit = audited(CAUGHT, ASTRAY, shipped=True)

        assert (audit.idle_scripts, audit.idle_checks, audit.astray) == ((), (), ())
        assert audit.exit is Exit.PASSED
        assert audited(CAUGHT, SURVIVOR, shipped=True).exit is Exit.FAILED

    def test_margins_are_told_by_dtype(self) -> None:
        margins = audited(CAUGHT, REFUSED, ASTRAY, SURVIVOR, sound=(SOUND, alarmed())).margins()

        assert list(margins) == ["float64", "float32"]
        assert (margins["float64"].healthy, margins["float64"].fault) == (0.02, 7e6)
        assert margins["float64"].unseen == ("tile-edge-unseen",)
        assert (margins["float32"].healthy, margins["float32"].healthy_case) == (1.5, "tile-edges[left]")
        assert (margins["float32"].fault, margins["float32"].fault_name) == (120.0, "pads-seen")
        assert margins["float32"].unseen == ("guard-runs-first", "slow-drift", "tile-edge-unseen")


class TestLines:
    def test_a_fault_is_told_by_the_script_it_names(self) -> None:
        assert "\n".join(lines(audited(CAUGHT, REFUSED))).startswith(
            "fault                             by     ratio  script                       event        check       on\n"
            "pads-seen                          2     7e+06  unequal-rows                 prefill      parity      "
            "reference:full padding=left\n"
            "guard-runs-first                   1         -  refused-prefix-token         reload       refusal     "
            "reference:full\n"
        )

    def test_margins_quick_set_and_verdict_follow(self) -> None:
        told = "\n".join(lines(audited(CAUGHT, REFUSED)))

        assert (
            "float32: the largest healthy share of an allowance is 0.5, the smallest fault's is 1.2e+02 (pads-seen); "
            "1 of 2 faults caught\n"
            "quick set: 2 lines: chunk-splits, refused-prefix-token\n"
        ) in told
        assert told.endswith("\npassed: 2 of 2 faults killed, 0 false alarms in 1,200 healthy cases, 1 min 15 s")

    def test_where_only_the_quick_set_was_played_no_other_is_told(self) -> None:
        assert "quick set" not in "\n".join(lines(audited(CAUGHT, shipped=True)))

    def test_a_survivor_is_told_with_a_next_step(self) -> None:
        told = "\n".join(lines(audited(SURVIVOR)))

        assert "tile-edge-unseen                   0         -  -" in told
        assert "\nsurvived: tile-edge-unseen\n  help: write a script that catches them\n" in told

    def test_faults_left_out_are_told_with_the_reason(self) -> None:
        told = "\n".join(lines(audited(CAUGHT)))

        assert "\n1 fault left out: base-by-length\n  this decoder has no rotary positions\n" in told

    def test_a_false_alarm_is_told_with_its_finding(self) -> None:
        told = "\n".join(lines(audited(CAUGHT, sound=(alarmed(),))))

        assert f"\nfalse alarm: tile-edges[left]\n  {ALARM.finding}\n" in told
        assert told.splitlines()[-1].startswith("failed: 1 of 1 fault killed, 1 false alarm in 3 healthy cases")

    def test_what_is_idle_is_told_as_a_failure_or_not(self) -> None:
        assert "\nidle here, which is no failure: scripts text-prompts" in lines(audited(CAUGHT, REFUSED))
        assert "\nidle: scripts text-prompts" in lines(audited(CAUGHT, REFUSED, whole=True))

    def test_a_fault_caught_otherwise_is_told(self) -> None:
        assert "\ncaught, but not as the catalogue names it: slow-drift" in lines(audited(ASTRAY))

    def test_an_interrupted_audit_says_so(self) -> None:
        *_, last = lines(audited(CAUGHT, interrupted=True))

        assert last.startswith("\ninterrupted: 1 of 1 fault killed")

    def test_nothing_tried_says_so(self) -> None:
        *_, last = lines(audited())

        assert last.startswith("\nnothing to try: 0 of 0 faults killed")


class TestJson:
    def test_every_documented_key_is_there_and_no_other(self) -> None:
        documented = re.findall(r"^  (\w+(?:, \w+)*)(?:  |$)", str(report.__doc__), re.MULTILINE)

        assert ", ".join(documented).split(", ") == list(as_data(audited(CAUGHT)))

    def test_counts_and_names(self, tmp_path: Path) -> None:
        write(audited(CAUGHT, REFUSED, SURVIVOR, sound=(SOUND, alarmed())), tmp_path / "audit.json")

        read = json.loads((tmp_path / "audit.json").read_text())
        assert (read["faults"], read["killed"], read["survivors"]) == (3, 2, ["tile-edge-unseen"])
        assert (read["healthy_cases"], read["false_alarms"]) == (1203, [{"case": ALARM.case, "finding": ALARM.finding}])
        assert read["idle_scripts"] == ["text-prompts"]
        assert read["margins"]["float32"]["fault_name"] == "pads-seen"
        assert read["exit"] == 1

    def test_the_table_says_who_caught_it_and_where_it_is_from(self) -> None:
        (row,) = as_data(audited(CAUGHT))["table"]

        assert (row["area"], row["side"]) == ("padding mask", "cached")
        assert row["report"].startswith("https://github.com/")
        assert row["named"] == {"script": "unequal-rows", "event": "prefill", "check": "parity"}
        assert [found["script"] for found in row["reds"]] == ["chunk-splits", "unequal-rows"]
        assert row["beside"]["float32"]["ratio"] == 120.0

    def test_the_cheapest_cases_are_told_where_all_were_played_that_could_catch_something(self) -> None:
        assert as_data(audited(CAUGHT))["quick"] == ["chunk-splits"]
        assert as_data(audited(CAUGHT, shipped=True))["quick"] == []

    def test_a_number_that_is_none_is_null(self) -> None:
        (row,) = as_data(audited(ASTRAY))["table"]

        assert row["reds"][0]["ratio"] is None

    def test_a_file_that_cannot_be_written_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError) as error:
            write(audited(CAUGHT), tmp_path / "absent" / "audit.json")

        assert str(error.value) == (
            f"{tmp_path / 'absent' / 'audit.json'}: cannot be written: No such file or directory\n"
            "  help: name a file in a folder you may write to"
        )
