from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evseq.cli import main
from evseq.verdict.result import Exit

GREEN = """\
evseq: 1
name: green
about: A step after a prefill is as good as no cache.
rows:
  a: [17, 4, 59, 3]
  b: [8, 21, 40]
arms:
  padding: [left, right]
events:
  - prefill: {rows: {a: 3, b: 2}}
  - append: {next: 1}
"""
RED = """\
evseq: 1
name: red
about: A word is misspelt.
rows:
  a: [17, 4, 59, 3]
events:
  - prefil: {rows: {a: 3}}
"""
BROKEN_ENGINE = """\
from evseq.engines.reference import loader


class Wrapped:
    def __init__(self, healthy):
        self.healthy = healthy

    def __getattr__(self, name):
        return getattr(self.healthy, name)


class Session(Wrapped):
    def append(self, batch):
        return self.healthy.append(batch) + 1.0


class Engine(Wrapped):
    def open(self, layout):
        return Session(self.healthy.open(layout))


class Loader(Wrapped):
    def __init__(self):
        super().__init__(loader("full"))

    def load(self, dtype, options):
        return Engine(self.healthy.load(dtype, options))
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, in an environment that says nothing."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("EVSEQ_")]:
        monkeypatch.delenv(name)
    (tmp_path / "green.evseq.yaml").write_text(GREEN)
    return tmp_path


@pytest.fixture
def red(here: Path) -> Path:
    (here / "red.evseq.yaml").write_text(RED)
    return here / "red.evseq.yaml"


class TestExitCodes:
    def test_passed(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "green.evseq.yaml", "--target", "reference:full"]) == Exit.PASSED
        assert re.search(r"^PASSED: 2 cases, .* on 1 thread$", capsys.readouterr().out, re.MULTILINE)

    def test_nothing_supported(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", ".", "--target", "reference:full", "--arm", "dtype=float16"]) == Exit.NOTHING
        assert "NOTHING SUPPORTED: no case was judged, 2 unsupported" in capsys.readouterr().out

    def test_an_error_in_a_script(self, red: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", str(red)]) == Exit.USAGE
        assert capsys.readouterr().err.startswith(f"{red}:7:5: unknown event 'prefil'\n  6 | events:\n> 7 |")

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["run"], "no scripts are named\n  help: name files or folders, or say --suite\n"),
            (
                ["run", "none.evseq.yaml"],
                "none.evseq.yaml: no such file or folder\n  help: name a script, or a folder of *.evseq.yaml\n",
            ),
            (
                ["run", ".", "--threads", "x"],
                "--threads: 'x' is no number of threads\n  help: use a whole number from 1 to 1024; 1 repeats best\n",
            ),
            (
                ["run", ".", "--arm", "paddin=left"],
                "--arm: no arm 'paddin' in these scripts\n  help: did you mean 'padding'?\n",
            ),
            (
                ["run", ".", "--arm", "zzz=1"],
                (
                    "--arm: no arm 'zzz' in these scripts\n"
                    "  help: arms are cache, capacity, chunk, dtype, padding, positions\n"
                ),
            ),
            (
                ["run", ".", "--arm", "dtype=float64,float23"],
                "--arm: arm 'dtype' has no value 'float23' in these scripts\n  help: did you mean 'float32'?\n",
            ),
            (
                ["run", ".", "--arm", "tranformers.atention=eager"],
                "--arm: no engine 'tranformers' with options\n  help: did you mean 'transformers.atention'?\n",
            ),
            (["run", ".", "-v", "-q"], "-v and -q exclude each other\n  help: keep one of them\n"),
            (
                ["run", ".", "--target", "refrence:full"],
                (
                    "refrence:full: no engine or module 'refrence'\n  help: did you mean 'reference:full'? "
                    "engines are reference, transformers; your own is MODULE:ATTRIBUTE with the module's folder on "
                    "PYTHONPATH\n"
                ),
            ),
            (["events", "prefil"], "events: no event 'prefil'\n  help: did you mean 'prefill'?\n"),
            (
                ["run", ".", "--jsonl", "none/run.jsonl"],
                (
                    "none/run.jsonl: cannot be written: No such file or directory\n"
                    "  help: name a file in a folder you may write to\n"
                ),
            ),
        ],
    )
    def test_wrong_usage_is_told_without_a_traceback(
        self, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(arguments) == Exit.USAGE
        assert capsys.readouterr() == ("", told)

    def test_an_unknown_command_is_wrong_usage(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["qualfy"]) == Exit.USAGE
        assert "No such command 'qualfy'" in capsys.readouterr().err

    def test_an_unknown_flag_is_wrong_usage(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "--targte", "x"]) == Exit.USAGE
        assert "No such option" in capsys.readouterr().err

    def test_interrupted(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setattr("evseq.pipeline.read_scripts", raising(KeyboardInterrupt()))
        assert main(["run", "."]) == Exit.INTERRUPTED
        assert capsys.readouterr().err.strip() == "evseq: interrupted"

    def test_an_internal_error_is_short(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("evseq.pipeline.read_scripts", raising(KeyError("x")))
        assert main(["run", "."]) == Exit.INTERNAL
        assert capsys.readouterr().err == (
            "evseq: internal error: KeyError: 'x'\n  help: EVSEQ_TRACEBACK=1 shows where; it is a fault of evseq\n"
        )

    def test_an_internal_error_shows_where_if_asked(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("evseq.pipeline.read_scripts", raising(KeyError("x")))
        monkeypatch.setenv("EVSEQ_TRACEBACK", "1")
        assert main(["run", "."]) == Exit.INTERNAL
        assert capsys.readouterr().err.startswith("Traceback (most recent call last):\n")

    @pytest.mark.parametrize("code", [0, 1, "text"])
    def test_code_that_ends_the_process_is_an_internal_error(
        self, code: int | str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("evseq.pipeline.read_scripts", raising(SystemExit(code)))
        assert main(["run", "."]) == Exit.INTERNAL
        assert capsys.readouterr().err == (
            f"evseq: internal error: SystemExit: {code}\n"
            "  help: EVSEQ_TRACEBACK=1 shows where; it is a fault of evseq\n"
        )

    def test_a_target_that_ends_the_process_is_wrong_usage(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (here / "quits_at_import.py").write_text("import sys\nsys.exit(0)\n")
        monkeypatch.syspath_prepend(here)
        assert main(["run", ".", "--target", "quits_at_import:Loader"]) == Exit.USAGE
        assert capsys.readouterr().err == (
            "quits_at_import:Loader: importing 'quits_at_import' failed: SystemExit: 0\n"
            "  help: make 'python -c \"import quits_at_import\"' work first\n"
        )

    def test_a_shell_gets_its_completion(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("_EVSEQ_COMPLETE", "zsh_source")
        assert main([]) == Exit.PASSED

    def test_output_that_nobody_reads_is_no_failure(self) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [sys.executable, "-m", "evseq", "events"], stdout=writing, stderr=subprocess.PIPE, check=False
        )
        os.close(writing)
        assert (done.returncode, done.stderr) == (Exit.INTERRUPTED, b"")

    def test_the_module_exits_as_the_command_does(self) -> None:
        done = subprocess.run([sys.executable, "-m", "evseq", "events", "zzz"], capture_output=True, check=False)
        assert done.returncode == Exit.USAGE


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
        assert "    5  nothing to do, or nothing supported\n" in told

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
        (here / "broken_engine.py").write_text(BROKEN_ENGINE)
        monkeypatch.syspath_prepend(here)
        assert main(["run", "green.evseq.yaml", "-q", "--target", "broken_engine:Loader"]) == Exit.FAILED
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
        assert [line["type"] for line in lines] == ["run", "case", "case", "summary"]
        assert (lines[-1]["passed"], lines[-1]["exit"]) == (2, 0)
        assert lines[0]["settings"] == {"arms": "pairwise", "arm": "-", "threads": "1", "record": "-"}

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
        assert main(["judge", "green.evseq.yaml"]) == Exit.FAILED
        assert capsys.readouterr().err.startswith("green.evseq.yaml: ")


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

    def test_the_problems_of_all_files_are_told(
        self, here: Path, red: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (here / "also.evseq.yaml").write_text(RED.replace("prefil:", "apend:"))
        assert main(["check", "."]) == Exit.USAGE
        told = capsys.readouterr().err
        assert ("unknown event 'apend'" in told, "unknown event 'prefil'" in told) == (True, True)
        assert red.name in told


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


class TestLanguage:
    def test_events_tells_the_language(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["events"]) == Exit.PASSED
        assert capsys.readouterr().out.startswith("prefill\n  Open a session and feed rows;")

    def test_events_tells_one(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["events", "drop"]) == Exit.PASSED
        assert capsys.readouterr().out.startswith("drop\n  Free a session;")

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
        assert main(["inspect", "none.safetensors"]) == Exit.FAILED
        assert capsys.readouterr().err == (
            "none.safetensors: no such file\n  help: check the path, or write the file first\n"
        )


class TestConfig:
    def test_every_setting_is_told_with_its_origin(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (here / "pyproject.toml").write_text(
            "[tool.evseq]\narms = 'all'\n\n[tool.evseq.targets.small]\ntarget = 'transformers:models/small'\n"
        )
        monkeypatch.setenv("EVSEQ_THREADS", "2")
        assert main(["config"]) == Exit.PASSED
        assert capsys.readouterr().out.splitlines() == [
            "target         reference                  default",
            f"arms           all                        {here}/pyproject.toml:2",
            "arm            -                          default",
            "threads        2                          EVSEQ_THREADS",
            "jsonl          -                          default",
            "record         -                          default",
            f"targets.small  transformers:models/small  {here}/pyproject.toml:4",
        ]


def test_a_run_that_is_interrupted_reports_what_it_has(here: Path) -> None:
    running = subprocess.Popen(
        [sys.executable, "-m", "evseq", "run", "--suite", "--target", "reference:full", "--jsonl", "run.jsonl"],
        cwd=here,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline().startswith("outcome")
    assert running.stdout.readline().startswith("passed")
    running.send_signal(signal.SIGINT)
    told, _ = running.communicate(timeout=60)
    assert running.returncode == Exit.INTERRUPTED
    assert told.splitlines()[-1].startswith("INTERRUPTED: ")
    lines = [json.loads(line) for line in (here / "run.jsonl").read_text().splitlines()]
    assert (lines[0]["type"], lines[-1]["type"], lines[-1]["interrupted"]) == ("run", "summary", True)


def raising(error: BaseException) -> object:
    """Return what raises `error` however it is called."""

    def raises(*given: object, **named: object) -> object:
        del given, named
        raise error

    return raises
