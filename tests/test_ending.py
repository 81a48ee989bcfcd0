from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evseq.cli import main
from evseq.verdict.result import Exit
from fronts import GREEN, RED

pytestmark = pytest.mark.usefixtures("here")

UNTOLD = """\
standard output: cannot be written: No space left on device
  help: make room on its disk, or send it elsewhere"""


class TestExitCodes:
    def test_passed(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "green.evseq.yaml", "--target", "reference:full"]) == Exit.PASSED
        assert re.search(r"^PASSED: 2 cases, .* on 1 thread$", capsys.readouterr().out, re.MULTILINE)

    def test_nothing_supported(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", ".", "--target", "reference:full", "--arm", "dtype=float16"]) == Exit.NOTHING
        assert "NOTHING SUPPORTED: no case was judged, 2 unsupported" in capsys.readouterr().out

    def test_a_target_asked_for_that_no_script_is_about(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (here / "green.evseq.yaml").write_text(GREEN.replace("rows:", "targets: ['reference:alibi']\nrows:", 1))
        assert main(["run", "."]) == Exit.PASSED
        assert main(["run", ".", "-q", "--target", "reference:full"]) == Exit.NOTHING
        told = capsys.readouterr().out.splitlines()
        assert "  reference:full: no cases" in told
        assert told[-1].startswith("NOT JUDGED: no case on reference:full; 2 cases passed elsewhere, ")

    def test_an_error_in_a_script(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (here / "red.evseq.yaml").write_text(RED)
        assert main(["run", "red.evseq.yaml"]) == Exit.USAGE
        assert capsys.readouterr().err.startswith("red.evseq.yaml:7:5: unknown event 'prefil'\n  6 | events:\n> 7 |")

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
            (
                ["run", ".", "--arm", "cache=paged"],
                (
                    "--arm: no target and no script has cache=paged\n"
                    "  help: targets offer growing, fixed, ring, quantised, streaming, blocks\n"
                ),
            ),
            (["judge", "none"], "none: no such file\n  help: check the path, or write the file first\n"),
            (
                ["run", ".", "--record", "green.evseq.yaml"],
                (
                    "green.evseq.yaml: recordings cannot be written: File exists\n"
                    "  help: name a folder you may write to\n"
                ),
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

    def test_a_full_disk_behind_standard_output_is_told_and_ends_no_run(self, here: Path) -> None:
        with Path("/dev/full").open("w") as disk:
            done = subprocess.run(
                [sys.executable, "-m", "evseq", "run", ".", "--target", "reference:full", "--jsonl", "run.jsonl"],
                stdout=disk,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert (done.returncode, done.stderr) == (Exit.USAGE, f"{UNTOLD}\n")
        lines = [json.loads(line) for line in (here / "run.jsonl").read_text().splitlines()]
        assert [line["type"] for line in lines] == ["run", "case", "case", "script", "summary"]

    def test_a_full_disk_behind_standard_output_is_told_by_every_command(self) -> None:
        with Path("/dev/full").open("w") as disk:
            done = subprocess.run(
                [sys.executable, "-m", "evseq", "events"], stdout=disk, stderr=subprocess.PIPE, text=True, check=False
            )
        assert (done.returncode, done.stderr) == (Exit.USAGE, f"{UNTOLD}\n")

    @pytest.mark.parametrize("arguments", [["events", "zzz"], ["--zzz"]])
    def test_whom_nobody_can_tell_the_exit_code_tells(self, arguments: list[str]) -> None:
        with Path("/dev/full").open("w") as disk:
            done = subprocess.run([sys.executable, "-m", "evseq", *arguments], stderr=disk, check=False)
        assert done.returncode == Exit.USAGE

    def test_the_module_exits_as_the_command_does(self) -> None:
        done = subprocess.run([sys.executable, "-m", "evseq", "events", "zzz"], capture_output=True, check=False)
        assert done.returncode == Exit.USAGE


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_reports_what_it_has(here: Path, sent: signal.Signals) -> None:
    running = subprocess.Popen(
        [sys.executable, "-m", "evseq", "run", "--suite", "--target", "reference:full", "--jsonl", "run.jsonl"],
        cwd=here,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline().startswith("outcome")
    assert running.stdout.readline().endswith("[reference:full]\n")
    running.send_signal(sent)
    told, _ = running.communicate(timeout=60)
    assert running.returncode == Exit.INTERRUPTED
    assert told.splitlines()[-1].startswith("INTERRUPTED: ")
    lines = [json.loads(line) for line in (here / "run.jsonl").read_text().splitlines()]
    assert (lines[0]["type"], lines[-1]["type"], lines[-1]["interrupted"]) == ("run", "summary", True)


def test_what_a_signal_does_is_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    main(["events", "drop"])
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_thread_may_run_a_command() -> None:
    with ThreadPoolExecutor() as pool:
        assert pool.submit(main, ["events", "drop"]).result() == Exit.PASSED


def raising(error: BaseException) -> object:
    """Return what raises `error` however it is called."""

    def raises(*given: object, **named: object) -> object:
        del given, named
        raise error

    return raises
