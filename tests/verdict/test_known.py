from __future__ import annotations

from pathlib import Path

import pytest

from evseq import pipeline
from evseq.check import Check
from evseq.errors import ScriptError, UsageError
from evseq.pipeline import Settings, read_scripts
from evseq.report.weakened import known
from evseq.verdict.known import KEYS, read_known
from evseq.verdict.result import Exit, Known, Outcome, Result
from playing import lines

FAULT = "planted.faults:positions_after_crop"

SCRIPT = """\
evseq: 1
name: cropped
about: A test.
rows:
  a: {random: {length: 9, seed: 41}}
arms: {dtype: [float64, float32]}
events:
  - prefill: {rows: {a: 6}}
  - crop: {by: 2}
  - append: {next: 2}
"""

PARITY = """\
- script: cropped
  target: "planted.faults:*"
  check: parity
  link: https://example.org/issues/12
  reason: Positions are one too high.
"""

ACCOUNTING = PARITY.replace("parity", "accounting").replace("12", "13")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cropped.evseq.yaml").write_text(SCRIPT)
    return tmp_path


def ran(folder: Path, *targets: str, beside: str | None = None, **settings: object) -> Result:
    """Run the script on the faulty engine, or others, with known failures beside it."""
    if beside is not None:
        (folder / "known.yaml").write_text(beside)
    held = Settings(**settings)  # type: ignore[arg-type]  # as a caller writes them
    return pipeline.run(read_scripts([folder / "cropped.evseq.yaml"]), targets or (FAULT,), settings=held)


def told(result: Result, folder: Path) -> list[str]:
    return [line.replace(f"{folder}/", "") for line in lines(result)]


def refused(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "known.yaml"
    file.write_text(text)
    with pytest.raises(ScriptError) as error:
        read_known(file)
    return [f"{one.place.line}:{one.place.column} {one.message} | {one.help}" for one in error.value.problems]


class TestMarked:
    def test_a_case_that_fails_in_just_those_checks_is_known_and_fails_no_run(self, folder: Path) -> None:
        result = ran(folder, beside=PARITY + ACCOUNTING)
        assert [case.outcome for case in result.cases] == [Outcome.KNOWN] * 2
        assert result.exit is Exit.PASSED
        assert result.cases[0].known[0] == Known(
            place=f"{folder}/known.yaml:1:3",
            check=Check.PARITY,
            link="https://example.org/issues/12",
            reason="Positions are one too high.",
        )
        assert result.cases[0].findings

    def test_a_case_that_fails_in_another_check_too_fails(self, folder: Path) -> None:
        result = ran(folder, beside=PARITY)
        assert [case.outcome for case in result.cases] == [Outcome.FAILED] * 2
        assert told(result, folder)[0].startswith("cropped.evseq.yaml:10:5: append: row 'a' index 4: parity: ")

    def test_a_case_that_passes_fails_strictly(self, folder: Path) -> None:
        result = ran(folder, "reference:full", beside=PARITY.replace("planted.faults:*", "reference:*"))
        assert result.exit is Exit.FAILED
        (line,) = set(told(result, folder))
        assert line == (
            "known.yaml:1:3: known: parity: known to fail (https://example.org/issues/12), and nothing is wrong: "
            "take this entry out"
        )

    def test_one_of_two_entries_that_finds_nothing_fails(self, folder: Path) -> None:
        result = ran(folder, beside=PARITY + ACCOUNTING + PARITY.replace("parity", "continuity"))
        assert result.cases[0].outcome is Outcome.FAILED
        assert told(result, folder)[0].startswith("known.yaml:11:3: known: continuity: known to fail ")

    def test_other_targets_are_not_meant(self, folder: Path) -> None:
        result = ran(folder, "reference:full", FAULT, beside=PARITY + ACCOUNTING)
        assert [case.outcome for case in result.cases] == [Outcome.PASSED] * 2 + [Outcome.KNOWN] * 2

    @pytest.mark.parametrize(
        ("arm", "outcomes"),
        [
            ("{dtype: float64}", [Outcome.KNOWN, Outcome.FAILED]),
            ("{dtype: [float64, float32]}", [Outcome.KNOWN, Outcome.KNOWN]),
            ("{dtype: bfloat16}", [Outcome.FAILED, Outcome.FAILED]),
            ("{padding: left}", [Outcome.FAILED, Outcome.FAILED]),
            ("null", [Outcome.KNOWN, Outcome.KNOWN]),
        ],
    )
    def test_arms_say_which_cases(self, arm: str, outcomes: list[Outcome], folder: Path) -> None:
        text = (PARITY + ACCOUNTING).replace("  target", f"  arm: {arm}\n  target")
        assert [case.outcome for case in ran(folder, beside=text).cases] == outcomes

    def test_what_is_unsupported_stays_so(self, folder: Path) -> None:
        (folder / "cropped.evseq.yaml").write_text(SCRIPT.replace("arms:", "needs: [window]\narms:"))
        assert [case.outcome for case in ran(folder, beside=PARITY).cases] == [Outcome.UNSUPPORTED] * 2

    def test_a_file_that_is_named_is_read_in_place_of_the_one_beside(self, folder: Path) -> None:
        (folder / "mine.yaml").write_text(PARITY + ACCOUNTING)
        assert ran(folder, beside="- broken", known=folder / "mine.yaml").exit is Exit.PASSED

    def test_a_recording_is_judged_with_it_too(self, folder: Path, tmp_path: Path) -> None:
        ran(folder, record=tmp_path / "kept")
        (file,) = (tmp_path / "kept").iterdir()
        assert pipeline.judge(file).exit is Exit.FAILED
        (folder / "known.yaml").write_text(PARITY + ACCOUNTING)
        assert pipeline.judge(file).exit is Exit.PASSED


class TestUnmatched:
    def test_an_entry_that_means_no_case_is_told_and_fails_nothing(self, folder: Path) -> None:
        result = ran(folder, "reference:full", beside=PARITY)
        assert (result.unmatched, result.exit) == ((f"{folder}/known.yaml:1:3",), Exit.PASSED)
        assert known(result, verbose=False) == [f"known: no case here is meant by 1 line: {folder}/known.yaml:1:3"]

    def test_few_of_many_are_named(self, folder: Path) -> None:
        result = ran(folder, "reference:full", beside=PARITY * 5)
        assert known(result, verbose=False)[0].endswith(f"by 5 lines: {', '.join(result.unmatched[:3])}, ...")
        assert known(result, verbose=True)[0].endswith(f"by 5 lines: {', '.join(result.unmatched)}")


class TestReport:
    def test_known_failures_are_listed_with_reason_and_link(self, folder: Path) -> None:
        result = ran(folder, beside=PARITY + ACCOUNTING)
        assert known(result, verbose=True) == [
            "known: 2 cases",
            "  parity: 2 cases, https://example.org/issues/12: Positions are one too high.",
            *(f"    {case.id}" for case in result.cases),
            "  accounting: 2 cases, https://example.org/issues/13: Positions are one too high.",
            *(f"    {case.id}" for case in result.cases),
        ]


class TestRead:
    def test_a_file_that_is_not_there_is_a_wrong_call(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError) as error:
            read_known(tmp_path / "mine.yaml")
        assert str(error.value) == (
            f"{tmp_path}/mine.yaml: no such file\n  help: name a file of known failures, or leave --known out"
        )

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("{}", "1:1 known failures are a list, not {} | begin with `- script: NAME`"),
            ("", "1:1 known failures are a list, not nothing | begin with `- script: NAME`"),
            ("- 3", "1:3 3 is no known failure | write a mapping of script, arm, target, check, link, reason"),
            (
                PARITY.replace("check", "chekc"),
                f"3:3 known: unknown key 'chekc' | did you mean 'check'? known: {', '.join(KEYS)}",
            ),
            (
                PARITY.replace("  reason: Positions are one too high.\n", ""),
                "1:3 known: reason is missing | add `reason:`",
            ),
            (
                PARITY.replace("parity", "pairty"),
                "3:10 known: no check 'pairty' | did you mean 'parity'? checks: " + ", ".join(Check),
            ),
            (PARITY.replace("cropped", "3"), "1:11 known: script is 3, not a text | write `script: ` and a text"),
            (
                PARITY + "  arm: float64\n",
                "6:8 known: arm is 'float64', not values of arms | write {name: value}, or leave it out",
            ),
            (
                PARITY + "  arm: {dtype: null}\n",
                "6:16 known: arm 'dtype' is nothing, not a value | write a value, or a list",
            ),
        ],
    )
    def test_what_is_wrong_is_told_with_its_place(self, text: str, expected: str, tmp_path: Path) -> None:
        assert refused(tmp_path, text) == [expected]

    def test_everything_wrong_is_told_at_once(self, tmp_path: Path) -> None:
        assert len(refused(tmp_path, PARITY.replace("parity", "pairty").replace("link: https", "lnik: https") * 2)) == 4
