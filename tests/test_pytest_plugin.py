from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from evseq.golden.terms import FormWord, Terms
from evseq.pipeline import Run, ScriptResult, Settings
from evseq.verdict.arithmetic import attend, one_head
from fronts import TWICE, run_pytest

pytest_plugins = ["pytester"]

DASHES = """\
evseq: 1
name: dashes
about: Words with dashes make two cases of one id.
rows:
  p-x: [9, 8, 7, 6]
  p: [1, 2, 3, 4]
  y: [17, 4, 59, 3]
  x-y: [5, 6, 7, 8]
arms:
  q: [p-x, p]
  r: [y, x-y]
events:
  - prefill: {rows: {q: 3, r: 2}}
  - append: {next: 1}
"""


PAGED = TWICE.replace("dtype: [float64, float32]", "cache: [growing, paged]")


@pytest.mark.usefixtures("folder")
class TestCollection:
    def test_each_case_is_an_item(self, pytester: pytest.Pytester) -> None:
        told = run_pytest(pytester, "--collect-only", "-q", "--evseq-target=reference:full").outlines
        assert told[:4] == [
            "green.evseq.yaml::green[left-float64][reference:full]",
            "green.evseq.yaml::green[left-float32][reference:full]",
            "green.evseq.yaml::green[right-float64][reference:full]",
            "green.evseq.yaml::green[right-float32][reference:full]",
        ]

    def test_the_default_target_is_every_configuration_of_the_reference(self, pytester: pytest.Pytester) -> None:
        told = run_pytest(pytester, "--collect-only", "-q").outlines
        assert [line for line in told if "left-float64" in line] == [
            "green.evseq.yaml::green[left-float64][reference:full]",
            "green.evseq.yaml::green[left-float64][reference:window]",
            "green.evseq.yaml::green[left-float64][reference:learned]",
            "green.evseq.yaml::green[left-float64][reference:alibi]",
            "green.evseq.yaml::green[left-float64][reference:narrow]",
        ]

    def test_the_project_says_the_target(self, pytester: pytest.Pytester) -> None:
        pytester.makepyprojecttoml(
            "[tool.evseq]\ntarget = 'small'\n[tool.evseq.targets.small]\ntarget='reference:alibi'"
        )
        told = run_pytest(pytester, "--collect-only", "-q").outlines
        assert told[0] == "green.evseq.yaml::green[left-float64][reference:alibi]"

    def test_a_script_may_name_its_own_target(self, folder: Path, pytester: pytest.Pytester) -> None:
        (folder / "green.evseq.yaml").write_text(TWICE.replace("rows:", "targets: [reference:alibi]\nrows:", 1))
        told = run_pytest(pytester, "--collect-only", "-q", "--evseq-target=reference:full").outlines
        assert told[0] == "green.evseq.yaml::green[left-float64][reference:alibi]"

    def test_a_target_named_twice_is_collected_once(self, pytester: pytest.Pytester) -> None:
        told = run_pytest(
            pytester, "--collect-only", "-q", "--evseq-target=reference:full", "--evseq-target=reference:full"
        )
        assert sum("left-float64" in line for line in told.outlines) == 1

    def test_arms_are_chosen_by_flags(self, pytester: pytest.Pytester) -> None:
        flags = ("--evseq-target=reference:full", "--evseq-arm=padding=left", "--evseq-arms=all")
        told = run_pytest(pytester, "--collect-only", "-q", *flags).outlines
        assert told[:2] == [
            "green.evseq.yaml::green[left-float64][reference:full]",
            "green.evseq.yaml::green[left-float32][reference:full]",
        ]

    def test_items_whose_cases_share_an_id_are_told_apart(self, folder: Path, pytester: pytest.Pytester) -> None:
        (folder / "green.evseq.yaml").write_text(DASHES)
        told = run_pytest(pytester, "--collect-only", "-q", "--evseq-target=reference:full").outlines
        assert told[:4] == [
            "green.evseq.yaml::dashes[p-x-y][reference:full]",
            "green.evseq.yaml::dashes[p-x-x-y][reference:full]",
            "green.evseq.yaml::dashes[p-y][reference:full]",
            "green.evseq.yaml::dashes[p-x-y][reference:full]#2",
        ]

    @pytest.mark.parametrize(
        ("flag", "told"),
        [
            (
                "dtype=float64,float23",
                ("--evseq-arm: arm 'dtype' has no value 'float23' in these scripts\n  help: did you mean 'float32'?"),
            ),
            (
                "cache=paged",
                ("--evseq-arm: no target and no script has cache=paged\n  help: targets offer growing, fixed, ring"),
            ),
            (
                "paddin=left",
                "--evseq-arm: no arm 'paddin' in these scripts\n  help: did you mean 'padding'?",
            ),
            (
                "tranformers.atention=eager",
                ("--evseq-arm: no engine 'tranformers' with options\n  help: did you mean 'transformers.atention'?"),
            ),
        ],
    )
    def test_a_filter_that_fits_no_script_is_wrong_usage(self, flag: str, told: str, pytester: pytest.Pytester) -> None:
        result = run_pytest(pytester, "--evseq-target=reference:full", f"--evseq-arm={flag}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert told in result.stderr.str()

    def test_a_filter_need_fit_only_one_of_the_scripts(self, folder: Path, pytester: pytest.Pytester) -> None:
        (folder / "dashes.evseq.yaml").write_text(DASHES)
        result = run_pytest(pytester, "--collect-only", "-q", "--evseq-target=reference:full", "--evseq-arm=q=p")
        assert result.ret == pytest.ExitCode.OK

    def test_folders_pytest_passes_over_are_passed_over(self, folder: Path, pytester: pytest.Pytester) -> None:
        (folder / "build").mkdir()
        (folder / "build" / "other.evseq.yaml").write_text("nonsense")
        assert run_pytest(pytester, "--collect-only", "-q", "--evseq-target=reference:full").ret == pytest.ExitCode.OK

    def test_a_broken_script_is_an_error_without_a_traceback(self, folder: Path, pytester: pytest.Pytester) -> None:
        (folder / "green.evseq.yaml").write_text(TWICE.replace("prefill:", "prefil:"))
        result = run_pytest(pytester)
        assert result.ret == pytest.ExitCode.INTERRUPTED
        told = result.stdout.str()
        assert re.search(
            r"ERROR collecting green\.evseq\.yaml _+\n"
            r"\S+green\.evseq\.yaml:11:5: unknown event 'prefil'\n"
            r"  10 \| events:\n"
            r"> 11 \|   - prefil: \{rows: \{a: 3, b: 2\}\}\n"
            r"  help: did you mean 'prefill'\?",
            told,
        )
        assert "Traceback" not in told

    def test_an_impossible_script_is_an_error_before_anything_runs(
        self, folder: Path, pytester: pytest.Pytester
    ) -> None:
        (folder / "green.evseq.yaml").write_text(TWICE.replace("next: 1", "next: 9"))
        result = run_pytest(pytester, "--evseq-target=reference:full")
        assert result.ret == pytest.ExitCode.INTERRUPTED
        assert "green.evseq.yaml:12:" in result.stdout.str()

    def test_a_target_that_does_not_exist_is_an_error(self, pytester: pytest.Pytester) -> None:
        result = run_pytest(pytester, "--evseq-target=reference:ful")
        assert result.ret == pytest.ExitCode.INTERRUPTED
        assert "help: did you mean 'reference:full'?" in result.stdout.str()


@pytest.mark.usefixtures("folder")
class TestCases:
    def test_a_healthy_engine_passes(self, pytester: pytest.Pytester) -> None:
        result = run_pytest(pytester, "--evseq-target=reference:full")
        result.assert_outcomes(passed=4)

    def test_a_case_is_chosen_by_its_name(self, pytester: pytest.Pytester) -> None:
        result = run_pytest(pytester, "--evseq-target=reference:full", "-k", "left and float64")
        result.assert_outcomes(passed=1, deselected=3)

    def test_a_case_is_chosen_by_its_id(self, pytester: pytest.Pytester) -> None:
        case = "green.evseq.yaml::green[right-float32][reference:full]"
        run_pytest(pytester, "--evseq-target=reference:full", case).assert_outcomes(passed=1)

    def test_a_failure_is_told_in_the_words_of_the_report(self, pytester: pytest.Pytester) -> None:
        result = run_pytest(pytester, "--evseq-target=engines:Broken", "-k", "left and float64")
        result.assert_outcomes(failed=1, deselected=3)
        told = result.stdout.str()
        assert re.search(
            r"_ green\[left-float64\]\[engines:Broken\] _+\n"
            r"\S+green\.evseq\.yaml:12:5: append: row 'a' index 3: parity: logit .*\n"
            r"  11 \|   - prefill: \{rows: \{a: 3, b: 2\}\}\n"
            r"> 12 \|   - append: \{next: 1\}\n",
            told,
        )
        assert re.search(r"^  replay: evseq run \S+green\.evseq\.yaml --target engines:Broken ", told, re.MULTILINE)
        assert "Traceback" not in told

    def test_an_unsupported_case_is_skipped_with_its_reason(self, folder: Path, pytester: pytest.Pytester) -> None:
        (folder / "green.evseq.yaml").write_text(PAGED)
        result = run_pytest(pytester, "--evseq-target=reference:full", "-rs")
        result.assert_outcomes(passed=2, skipped=2)
        assert "SKIPPED [2] green.evseq.yaml:1: no cache kind 'paged'" in result.outlines

    def test_a_failure_is_that_of_its_own_case(self, folder: Path, pytester: pytest.Pytester) -> None:
        (folder / "green.evseq.yaml").write_text(DASHES)
        result = run_pytest(pytester, "--evseq-target=engines:Nines", "-rA")
        result.assert_outcomes(passed=2, failed=2)
        assert [line.split(" - ")[0] for line in result.outlines if line.startswith(("FAILED", "PASSED"))] == [
            "PASSED green.evseq.yaml::dashes[p-y][engines:Nines]",
            "PASSED green.evseq.yaml::dashes[p-x-y][engines:Nines]#2",
            "FAILED green.evseq.yaml::dashes[p-x-y][engines:Nines]",
            "FAILED green.evseq.yaml::dashes[p-x-x-y][engines:Nines]",
        ]

    def test_nothing_supported_exits_as_nothing_collected_does(self, folder: Path, pytester: pytest.Pytester) -> None:
        (folder / "green.evseq.yaml").write_text(PAGED)
        result = run_pytest(pytester, "--evseq-target=reference:full", "--evseq-arm=cache=paged")
        result.assert_outcomes(skipped=2)
        assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED

    def test_a_test_of_another_kind_is_something_tested(self, folder: Path, pytester: pytest.Pytester) -> None:
        (folder / "green.evseq.yaml").write_text(PAGED)
        pytester.makepyfile("def test_other(): pass")
        result = run_pytest(pytester, "--evseq-target=reference:full", "--evseq-arm=cache=paged")
        result.assert_outcomes(passed=1, skipped=2)
        assert result.ret == pytest.ExitCode.OK
        assert re.search(r"^=+ evseq: no case was judged on reference:full =+$", result.stdout.str(), re.MULTILINE)

    def test_a_target_asked_for_that_no_script_is_about_is_nothing(
        self, folder: Path, pytester: pytest.Pytester
    ) -> None:
        (folder / "green.evseq.yaml").write_text(TWICE.replace("rows:", "targets: [reference:alibi]\nrows:", 1))
        result = run_pytest(pytester, "--evseq-target=reference:full")
        result.assert_outcomes(passed=4)
        assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
        assert re.search(r"^=+ evseq: no case was judged on reference:full =+$", result.stdout.str(), re.MULTILINE)

    def test_a_standing_target_that_no_script_is_about_is_passed_over(
        self, folder: Path, pytester: pytest.Pytester
    ) -> None:
        (folder / "green.evseq.yaml").write_text(TWICE.replace("rows:", "targets: [reference:alibi]\nrows:", 1))
        assert run_pytest(pytester).ret == pytest.ExitCode.OK

    def test_what_was_left_out_on_purpose_does_not_count(self, pytester: pytest.Pytester) -> None:
        flags = ("--evseq-target=reference:full", "--evseq-target=reference:alibi", "-k", "alibi and left")
        result = run_pytest(pytester, *flags)
        result.assert_outcomes(passed=2, deselected=6)
        assert result.ret == pytest.ExitCode.OK

    def test_wrong_arithmetic_fails_every_case_and_is_computed_once(
        self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wrong = one_head(lambda query, keys, values: attend(query, keys, values) + 1.0)[:1]
        computed = Mock(return_value=wrong)
        monkeypatch.setattr("evseq.verdict.arithmetic.one_head", computed)
        result = run_pytest(pytester, "--evseq-target=reference:full")
        result.assert_outcomes(failed=4)
        assert result.stdout.str().count("cache plus one appended position: off by 1 over 1 positions in float64") >= 4
        computed.assert_called_once_with()

    def test_the_cases_of_a_script_share_one_run(self, folder: Path, pytester: pytest.Pytester) -> None:
        run_pytest(pytester, "--evseq-target=engines:Counted").assert_outcomes(passed=4)
        assert sorted((folder / "loads").read_text().split()) == ["float32", "float64"]


@pytest.mark.usefixtures("folder")
class TestGoldens:
    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
        """Return the settings that cases run under; each script writes a candidate."""
        asked = []

        def writing(run: Run, *given: object, **named: object) -> ScriptResult:
            asked.append(run.settings)
            return replace(run_script(run, *given, **named), candidates=("goldens/x.candidate.safetensors",))

        run_script: Callable[..., ScriptResult] = Run.run_script
        monkeypatch.setattr(Run, "run_script", writing)
        return asked

    def test_flags_are_terms(self, folder: Path, pytester: pytest.Pytester, asked: list[Settings]) -> None:
        flags = ("--evseq-goldens=g", "--evseq-revision=v2", "--evseq-require-goldens", "--evseq-golden-form=full")
        run_pytest(pytester, "--evseq-target=reference:full", "--evseq-update-goldens", *flags)
        assert asked[0].goldens == Terms(
            root=Path("g"), project=folder, revision="v2", require=True, update=True, form=FormWord.FULL
        )
        run_pytest(pytester, "--evseq-target=reference:full", "--evseq-update-goldens")
        assert asked[1].goldens == Terms(root=folder / "goldens", project=folder, update=True)

    def test_a_session_that_wrote_candidates_fails_and_lists_them(
        self, pytester: pytest.Pytester, asked: list[Settings]
    ) -> None:
        result = run_pytest(pytester, "--evseq-target=reference:full")
        result.assert_outcomes(passed=4)
        assert (result.ret, len(asked)) == (pytest.ExitCode.TESTS_FAILED, 1)
        told = result.stdout.str()
        assert re.search(
            r"^=+ evseq: candidates written =+\ngoldens/x\.candidate\.safetensors\nhelp: evseq golden review$",
            told,
            re.MULTILINE,
        )


def test_importing_the_plugin_loads_nothing_heavy() -> None:
    asked = "import sys, evseq.pytest_plugin; print({'torch', 'pydantic', 'yaml', 'rich', 'click'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout == "set()\n"
