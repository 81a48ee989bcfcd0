from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evseq.cli import main
from evseq.verdict.result import Exit
from fronts import GREEN, RED

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
            "none/x.json: cannot be written: No such file or directory\n"
            "  help: name a file in a folder you may write to\n"
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
