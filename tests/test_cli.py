from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from evseq.cli import main
from evseq.golden.terms import FormWord, Terms
from evseq.verdict.result import Exit, Forwards, Result
from fronts import ENGINES, GREEN, RED

pytestmark = pytest.mark.usefixtures("here")


class TestHelp:
    @pytest.mark.parametrize(
        "command",
        ["run", "qualify", "check", "fmt", "new", "events", "schema", "inspect", "judge", "config"],
    )
    def test_every_command_shows_an_example_and_the_exit_codes(
        self, command: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main([command, "--help"]) == Exit.PASSED
        told = capsys.readouterr().out
        assert re.search(rf"^  Examples:\n    .*evseq {command}", told, re.MULTILINE)
        assert "    5  nothing to do, or nothing supported on a target that was named\n" in told

    def test_no_line_of_the_summary_is_cut(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["-h"]) == Exit.PASSED
        assert re.findall(r"^  [a-z]+  .*\.\.\.$", capsys.readouterr().out, re.MULTILINE) == []

    def test_without_a_command_there_is_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        main([])
        assert "Begin with:" in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "command",
    ["--help", "check --suite", "fmt --suite --check", "new x", "events", "schema", "config", "inspect", "run --help"],
)
def test_commands_that_run_nothing_load_no_torch(command: str) -> None:
    asked = f"import sys, evseq.cli; code = evseq.cli.main({command.split()!r}); print('torch' in sys.modules, code)"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1].startswith("False ")


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


class TestCheck:
    def test_fine_scripts_are_counted(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["check", "."]) == Exit.PASSED
        assert capsys.readouterr().out == "1 script is fine\n"

    def test_the_target_is_named(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (here / "other.evseq.yaml").write_text(GREEN.replace("green", "other"))
        assert main(["check", ".", "--target", "reference:full", "--target", "reference:alibi"]) == Exit.PASSED
        assert capsys.readouterr().out == "2 scripts are fine on reference:full, reference:alibi\n"

    def test_it_stays_symbolic_without_a_target(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (here / "green.evseq.yaml").write_text(GREEN.replace("rows:", "targets: ['nowhere:none']\nrows:", 1))
        monkeypatch.setenv("EVSEQ_TARGET", "nowhere:none")
        assert main(["check", "."]) == Exit.PASSED
        assert capsys.readouterr().out == "1 script is fine\n"

    def test_the_problems_of_all_files_are_told(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (here / "red.evseq.yaml").write_text(RED)
        (here / "also.evseq.yaml").write_text(RED.replace("prefil:", "apend:"))
        assert main(["check", "."]) == Exit.USAGE
        told = capsys.readouterr().err
        assert ("unknown event 'apend'" in told, "unknown event 'prefil'" in told) == (True, True)
        assert "red.evseq.yaml" in told


class TestFmt:
    LOOSE = GREEN.replace("{next: 1}", "{'next': 1}")

    def test_normal_form_is_left_alone(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["fmt", "."]) == Exit.PASSED
        assert capsys.readouterr().out == ""

    def test_scripts_are_rewritten(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (here / "green.evseq.yaml").write_text(self.LOOSE)
        assert main(["fmt", "."]) == Exit.PASSED
        assert capsys.readouterr().out == "green.evseq.yaml: rewritten\n"
        assert (here / "green.evseq.yaml").read_text() == GREEN

    def test_check_writes_nothing(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (here / "green.evseq.yaml").write_text(self.LOOSE)
        assert main(["fmt", "--check", "."]) == Exit.FAILED
        assert capsys.readouterr().out == "green.evseq.yaml: not in normal form\n"
        assert (here / "green.evseq.yaml").read_text() == self.LOOSE

    def test_diff_writes_nothing(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (here / "green.evseq.yaml").write_text(self.LOOSE)
        assert main(["fmt", "--diff", "."]) == Exit.FAILED
        assert "-  - append: {'next': 1}\n+  - append: {next: 1}\n" in capsys.readouterr().out
        assert (here / "green.evseq.yaml").read_text() == self.LOOSE


class TestNew:
    def test_a_new_script_passes_on_the_default_target(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["new", "first", "--dir", "scripts"]) == Exit.PASSED
        assert capsys.readouterr().out == (
            "scripts/first.evseq.yaml: written\n  help: evseq run scripts/first.evseq.yaml\n"
        )
        assert main(["run", "scripts", "-q"]) == Exit.PASSED
        assert main(["fmt", "scripts", "--check"]) == Exit.PASSED

    def test_one_may_start_from_a_kind_of_bug(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["new", "first", "--dir", "scripts", "--bug", "caller"]) == Exit.PASSED
        assert main(["new", "other", "--dir", "scripts", "--bug", "zzz"]) == Exit.USAGE
        assert capsys.readouterr().err == (
            "new: no kind of bug 'zzz'\n  help: use beam, reuse, window, caller or lossy\n"
        )
        assert main(["run", "scripts", "-q", "--target", "reference:full"]) == Exit.PASSED


class TestLanguage:
    def test_events_tells_the_language(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["events"]) == Exit.PASSED
        assert capsys.readouterr().out.startswith("prefill\n  Open a session and feed rows;")

    def test_events_tells_one(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["events", "drop"]) == Exit.PASSED
        assert capsys.readouterr().out.startswith("drop\n  Free a session.\n")

    def test_the_schema_is_json(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["schema"]) == Exit.PASSED
        told = capsys.readouterr().out
        assert json.loads(told)["title"] == "evseq script"
        assert main(["schema", "--write", "evseq.schema.json"]) == Exit.PASSED
        assert (here / "evseq.schema.json").read_text() == told

    def test_a_schema_that_cannot_be_written_is_told(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["schema", "--write", "none/x.json"]) == Exit.USAGE
        assert capsys.readouterr().err == (
            "none/x.json: cannot be written: No such file or directory\n  help: name another file\n"
        )


class TestInspect:
    def test_a_recording_is_told(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        main(["run", ".", "-q", "--target", "reference:full", "--record", "kept"])
        capsys.readouterr()
        (kept,) = (here / "kept").iterdir()
        assert main(["inspect", str(kept)]) == Exit.PASSED
        assert capsys.readouterr().out.startswith("kind         recording\nversion      1\n")

    def test_a_file_that_is_not_there_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["inspect", "none.safetensors"]) == Exit.USAGE
        assert capsys.readouterr().err == (
            "none.safetensors: no such file\n  help: check the path, or write the file first\n"
        )


class TestConfig:
    def test_every_setting_is_told_with_its_origin(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (here / "pyproject.toml").write_text(
            "[tool.evseq]\narms = 'all'\n\n[tool.evseq.targets.small]\ntarget = 'transformers:models/small'\n"
            "revision = 'v1'\n"
        )
        monkeypatch.setenv("EVSEQ_THREADS", "2")
        assert main(["config"]) == Exit.PASSED
        assert capsys.readouterr().out.splitlines() == [
            "target                  reference                  default",
            f"arms                    all                        {here}/pyproject.toml:2",
            "arm                     -                          default",
            "threads                 2                          EVSEQ_THREADS",
            "workers                 1                          default",
            "scheduler               -                          default",
            "jsonl                   -                          default",
            "record                  -                          default",
            "known                   -                          default",
            "goldens                 -                          default",
            "revision                -                          default",
            "require-goldens         false                      default",
            "golden-form             auto                       default",
            "golden-timeout          30.0                       default",
            "cache                   -                          default",
            f"targets.small           transformers:models/small  {here}/pyproject.toml:4",
            f"targets.small.revision  v1                         {here}/pyproject.toml:6",
            "targets.small.golden    optional                   default",
        ]
