from __future__ import annotations

import json
import re
from pathlib import Path
from unittest.mock import Mock

import pytest

from evseq.cli import main
from evseq.golden.terms import FormWord, Terms
from evseq.verdict.result import Exit, Forwards, Result
from fronts import ENGINES, GREEN

pytestmark = pytest.mark.usefixtures("here")


class TestRun:
    def test_a_failure_is_red_and_leads_with_the_line(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (here / "broken_engine.py").write_text(ENGINES)
        monkeypatch.syspath_prepend(here)
        assert main(["run", "green.evseq.yaml", "-q", "--target", "broken_engine:Broken"]) == Exit.FAILED
        told = capsys.readouterr().out.splitlines()
        assert told[1].startswith("green.evseq.yaml:11:5: append: row 'a' index 3: parity: logit ")
        assert told[2:4] == ["  10 |   - prefill: {rows: {a: 3, b: 2}}", "> 11 |   - append: {next: 1}"]
        assert told[-1].startswith("FAILED: 2 of 2 cases, ")

    def test_folders_are_walked(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (here / "deep" / "er").mkdir(parents=True)
        (here / "green.evseq.yaml").rename(here / "deep" / "er" / "green.evseq.yaml")
        assert main(["run", "deep", "--target", "reference:full", "--arm", "padding=left"]) == Exit.PASSED
        assert "PASSED: 1 case" in capsys.readouterr().out

    def test_json_lines_agree_with_the_exit_code(self, here: Path) -> None:
        assert main(["run", ".", "-q", "--target", "reference:full", "--jsonl", "run.jsonl"]) == Exit.PASSED
        lines = [json.loads(line) for line in (here / "run.jsonl").read_text().splitlines()]
        assert [line["type"] for line in lines] == ["run", "case", "case", "script", "summary"]
        assert (lines[-1]["passed"], lines[-1]["exit"]) == (2, 0)
        assert lines[0]["settings"] == {
            "arms": "pairwise",
            "arm": "-",
            "threads": "1",
            "record": "-",
            "known": "-",
            "goldens": "-",
            "revision": "-",
            "require-goldens": "false",
            "golden-form": "auto",
        }

    def test_known_failures_are_told_and_fail_no_run(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (here / "mine.yaml").write_text(
            "- {script: green, target: 'planted.*', check: accounting, link: 'https://example.org/12', reason: Twice}"
        )
        assert main(["run", ".", "--target", "planted.faults:forwards_twice", "--known", "mine.yaml"]) == Exit.PASSED
        told = capsys.readouterr().out
        assert "\nknown: 2 cases\n  accounting: 2 cases, https://example.org/12: Twice\n" in told
        assert re.search(r"^PASSED: 0 cases, 2 known, .* on 1 thread$", told, re.MULTILINE)
        assert main(["run", ".", "--target", "planted.faults:forwards_twice"]) == Exit.FAILED

    def test_all_arms_are_a_product(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        wide = GREEN.replace("[left, right]", "[left, right]\n  chunk: [whole, 1, 2]\n  dtype: [float64, float32]")
        (here / "green.evseq.yaml").write_text(wide)
        assert main(["run", ".", "--target", "reference:full", "--arms", "all"]) == Exit.PASSED
        assert "PASSED: 12 cases" in capsys.readouterr().out

    def test_one_line_of_a_file_is_chosen_by_its_number(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (here / "lines.txt").write_text("[1, 2, 3, 4]\n[5, 6, 7, 8]\n")
        (here / "green.evseq.yaml").write_text(GREEN.replace("[17, 4, 59, 3]", "{each: lines.txt}"))
        assert main(["run", ".", "--target", "reference:full", "--arm", "a=2", "--arm", "padding=left"]) == Exit.PASSED
        assert "green[left-2][reference:full]\n" in capsys.readouterr().out

    def test_the_project_names_targets(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (here / "pyproject.toml").write_text("[tool.evseq.targets.small]\ntarget = 'reference:alibi'\n")
        assert main(["run", ".", "--target", "small"]) == Exit.PASSED
        assert "green[left][reference:alibi]\n" in capsys.readouterr().out

    def test_a_recording_is_judged_again_without_the_model(
        self, here: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["run", ".", "-q", "--target", "reference:full", "--record", "kept"]) == Exit.PASSED
        capsys.readouterr()
        (kept,) = (here / "kept").iterdir()
        assert main(["judge", str(kept)]) == Exit.PASSED
        told = capsys.readouterr().out
        assert told.startswith(f"{kept}:\noutcome ")
        assert "PASSED: 2 cases" in told

    def test_what_is_no_recording_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["judge", "green.evseq.yaml"]) == Exit.USAGE
        assert capsys.readouterr().err.startswith("green.evseq.yaml: ")


class TestGoldens:
    RUN = ("run", ".", "-q", "--target", "reference:full")

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> Mock:
        """Return what the pipeline is called with instead of running; it ends with two candidates."""
        two = Result(cases=(), targets=(), forwards=Forwards(), seconds=0.0, candidates=("a", "b"))
        asked = Mock(return_value=two)
        monkeypatch.setattr("evseq.pipeline.run", asked)
        return asked

    def test_a_plain_run_only_reads(self, here: Path, asked: Mock) -> None:
        main(self.RUN)
        assert asked.call_args.kwargs["settings"].goldens == Terms(root=here / "goldens", project=here)

    def test_flags_are_terms(self, here: Path, asked: Mock) -> None:
        said = ("--goldens", "g", "--revision", "v2", "--require-goldens", "--golden-form", "full", "--update-goldens")
        main([*self.RUN, *said])
        assert asked.call_args.kwargs["settings"].goldens == Terms(
            root=Path("g"), project=here, revision="v2", require=True, update=True, form=FormWord.FULL
        )

    @pytest.mark.parametrize("command", [RUN, ("qualify", "-q")])
    def test_what_writes_is_said_by_flag(self, command: tuple[str, ...], here: Path, asked: Mock) -> None:
        main([*command, "--update-goldens", "--update-witness"])
        terms = asked.call_args.kwargs["settings"].goldens
        assert terms == Terms(root=here / "goldens", project=here, update=True, witness=True)

    def test_a_run_that_wrote_candidates_fails(self, asked: Mock, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([*self.RUN, "--update-goldens"]) == Exit.FAILED
        assert capsys.readouterr().out.endswith(", 2 candidates written: `evseq golden review`\n")
        asked.assert_called_once()

    def test_targets_of_the_project_stand_and_those_of_a_flag_are_asked_for(self, here: Path, asked: Mock) -> None:
        (here / "pyproject.toml").write_text("[tool.evseq]\ntarget = 'reference:full'\n")
        main(["run", "."])
        main(["run", ".", "--target", "reference:alibi"])
        assert [call.kwargs["standing"] for call in asked.call_args_list] == [True, False]


class TestQualify:
    def test_the_suite_is_run_on_the_target(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["qualify", "--target", "reference:full", "--arm", "dtype=float16", "-q"]) == Exit.NOTHING
        assert "NOTHING SUPPORTED" in capsys.readouterr().out
