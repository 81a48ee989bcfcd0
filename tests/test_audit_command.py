from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evseq.audit import audit as audits
from evseq.audit.audit import Audit, Settings
from evseq.cli import main
from evseq.verdict.result import Exit

pytestmark = pytest.mark.usefixtures("here")

Told = pytest.CaptureFixture[str]

ONE = ["guard-names-next-place", "--script", "refused-prefix-token", "--target", "reference:full", "--beside", "none"]

QUICK_ALONE = (
    "--quick plays each case of the quick set as it is, and finds no other\n"
    "  help: leave out --beside, --full, --quick-file and --quick-keep\n"
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[str, ...], Settings]]:
    """Ask for audits of which nothing is tried; what each was to do is noted."""
    notes: list[tuple[tuple[str, ...], Settings]] = []

    def noted(named: Any, settings: Settings, *, suite: Any, watch: Any) -> Audit:
        notes.append((tuple(named), settings))
        watch.planned(0)
        return Audit(
            targets=tuple(named),
            scripts=tuple(suite),
            tried=(),
            sound=(),
            apart={},
            whole=False,
            seconds=0.0,
        )

    monkeypatch.setattr(audits, "audit", noted)
    return notes


def test_help_shows_an_example_and_the_exit_codes(capsys: Told) -> None:
    assert main(["audit", "--help"]) == Exit.PASSED
    told = capsys.readouterr().out
    assert re.search(r"^  Examples:\n    evseq audit -n 2", told, re.MULTILINE)
    assert "    1  failed\n" in told


def test_help_loads_no_torch() -> None:
    asked = "import sys, evseq.cli; evseq.cli.main(['audit', '--help']); print('torch' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == "False"


def test_a_killed_fault_passes_and_is_written_down(here: Path, capsys: Told) -> None:
    assert main(["audit", *ONE, "--json", "audit.json", "--quick-file", "quick.txt"]) == Exit.PASSED

    told = capsys.readouterr().out.splitlines()
    assert told[1] == (
        "guard-names-next-place             1         -  refused-prefix-token         reload       refusal     "
        "reference:full"
    )
    assert re.fullmatch(r"passed: 1 of 1 fault killed, 0 false alarms in \d+ healthy cases, .*", told[-1])
    assert (here / "quick.txt").read_text() == "refused-prefix-token\n"
    read = json.loads((here / "audit.json").read_text())
    assert (read["faults"], read["killed"], read["survivors"], read["false_alarms"]) == (1, 1, [], [])


def test_left_alone_it_asks_for_everything(asked: list[tuple[tuple[str, ...], Settings]]) -> None:
    assert main(["audit"]) == Exit.NOTHING

    ((named, settings),) = asked
    assert named == ("reference",)
    assert (settings.faults, settings.scripts, settings.beside) == ((), (), ("float32", "bfloat16"))
    assert (settings.full, settings.quick, settings.workers, settings.threads) == (False, False, 1, 1)


def test_flags_say_what_is_left_and_how(asked: list[tuple[tuple[str, ...], Settings]]) -> None:
    main(["audit", "guard-*", "pads-seen", "--script", "window-j*", "--beside", "bfloat16", "--full", "-n", "2"])

    ((_, settings),) = asked
    assert settings.faults[0] == "pads-seen"
    assert {name.partition("-")[0] for name in settings.faults[1:]} == {"guard"}
    assert settings.scripts == ("window-joined", "window-jumped")
    assert (settings.beside, settings.full, settings.workers) == (("bfloat16",), True, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pads-sen"], "pads-sen: no fault has this name\n  help: did you mean 'pads-seen'?\n"),
        (["zzz*"], "zzz*: no fault has this name\n  help: name one, or leave it out for all\n"),
        (
            ["--script", "window-crosed"],
            "window-crosed: no script of the suite has this name\n  help: did you mean 'window-crossed'?\n",
        ),
        (
            ["--beside", "half"],
            "--beside: 'half' is no dtype\n  help: name float64, float32, bfloat16, float16, or none\n",
        ),
        (["--quick", "--full"], QUICK_ALONE),
        (["--quick", "--beside", "bfloat16"], QUICK_ALONE),
        (["--beside", ""], "--beside: '' is no dtype\n  help: name float64, float32, bfloat16, float16, or none\n"),
        (["--quick", "--quick-keep"], QUICK_ALONE),
        (["--quick-keep"], "--quick-keep: of what file?\n  help: name one with --quick-file\n"),
        (
            ["--quick-keep", "--quick-file", "absent/quick.txt"],
            (
                "absent/quick.txt: cannot be read: No such file or directory\n"
                "  help: `evseq audit --quick-file absent/quick.txt` writes one\n"
            ),
        ),
    ],
)
def test_what_cannot_be_done_is_answered(arguments: list[str], message: str, capsys: Told) -> None:
    assert main(["audit", *arguments]) == Exit.USAGE
    assert capsys.readouterr().err == message


def test_what_a_quick_file_has_is_kept_if_asked(here: Path) -> None:
    (here / "quick.txt").write_text("fork-chain cache=all\n")

    assert main(["audit", *ONE, "--quick-file", "quick.txt", "--quick-keep"]) == Exit.PASSED

    assert (here / "quick.txt").read_text() == "fork-chain cache=all\nrefused-prefix-token\n"


def test_a_quick_file_that_is_none_is_refused_before_anything_is_tried(here: Path, capsys: Told) -> None:
    (here / "quick.txt").write_text("fork-chian cache=all\n")

    assert main(["audit", "--quick-file", "quick.txt", "--quick-keep"]) == Exit.USAGE

    assert capsys.readouterr().err.startswith(
        "quick.txt:1:1: no script of the suite has the name 'fork-chian'\n"
        "> 1 | fork-chian cache=all\n"
        "  help: did you mean 'fork-chain'? known: "
    )


def test_the_environment_says_how_many_processes_share_the_work(
    asked: list[tuple[tuple[str, ...], Settings]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVSEQ_WORKERS", "2")

    main(["audit"])

    assert asked[0][1].workers == 2


@pytest.mark.parametrize("arguments", [["--quick"], ["--quick", "--beside", "none"]])
def test_the_quick_set_is_asked_for_in_no_other_dtype(
    arguments: list[str], asked: list[tuple[tuple[str, ...], Settings]]
) -> None:
    main(["audit", *arguments])

    assert asked[0][1].quick


def test_the_quick_set_alone_is_asked_for(asked: list[tuple[tuple[str, ...], Settings]]) -> None:
    main(["audit", "--quick", "--script", "fork-chain"])

    ((_, settings),) = asked
    assert settings.quick
    assert settings.scripts == ("fork-chain",)


@pytest.mark.parametrize("flag", ["--quick-file", "--json"])
def test_a_file_that_cannot_be_written_is_told_before_anything_is_played(
    flag: str, asked: list[tuple[tuple[str, ...], Settings]], capsys: Told
) -> None:
    assert main(["audit", flag, "absent/quick.txt"]) == Exit.USAGE
    assert asked == []
    assert capsys.readouterr().err == (
        "absent/quick.txt: cannot be written: No such file or directory\n"
        "  help: name a file in a folder you may write to\n"
    )


@pytest.mark.usefixtures("asked")
def test_progress_is_shown_where_somebody_looks_on(monkeypatch: pytest.MonkeyPatch, capsys: Told) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    main(["audit"])

    assert "\r\x1b[K" in capsys.readouterr().err
