"""A run that was interrupted or killed goes on where it was; what changed since is run again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from evseq import versions
from evseq.cli import main
from evseq.geometry import Dtype
from evseq.golden.terms import Need, TargetTerms, Terms
from evseq.part import Part
from evseq.pipeline import Run, Settings, read_scripts
from evseq.report.kept import kept
from evseq.verdict.result import Exit
from fronts import GREEN, SLOW
from planted.second import Second
from timeless import timeless_lines

pytestmark = pytest.mark.usefixtures("here")

FULL = "reference:full"


def run(*arguments: str) -> int:
    return main(["run", ".", "--target", FULL, *arguments])


def types(file: str) -> list[str]:
    return [json.loads(line)["type"] for line in Path(file).read_text().splitlines()]


@pytest.fixture
def three(here: Path) -> Path:
    """Stand in a folder with three scripts."""
    for name in ("blue", "red"):
        (here / f"{name}.evseq.yaml").write_text(GREEN.replace("name: green", f"name: {name}"))
    return here


class TestResume:
    def test_the_rest_is_run_and_the_file_is_that_of_one_run(self, three: Path) -> None:
        assert run("--jsonl", "whole.jsonl") == Exit.PASSED
        whole = (three / "whole.jsonl").read_text().splitlines()
        (three / "run.jsonl").write_text("\n".join([*whole[:7], '{"type": "ca']))  # killed in the third script

        assert run("--resume", "run.jsonl") == Exit.PASSED

        assert timeless_lines(three / "run.jsonl") == timeless_lines(three / "whole.jsonl")
        assert (three / "run.jsonl").read_text().splitlines()[1:7] == whole[1:7]  # with the times of then

    def test_another_file_may_be_written(self, three: Path, capsys: pytest.CaptureFixture[str]) -> None:
        run("--jsonl", "whole.jsonl")
        capsys.readouterr()

        assert run("--resume", "whole.jsonl", "--jsonl", "other.jsonl", "-n", "2") == Exit.PASSED

        assert (three / "other.jsonl").read_text().splitlines()[1:-1] == (
            (three / "whole.jsonl").read_text().splitlines()[1:-1]
        )
        told = capsys.readouterr().out.splitlines()
        assert told[0] == "kept from before: 6 cases of 3 scripts on their targets"
        assert told[-1].startswith("PASSED: 6 cases, ")

    def test_a_script_that_changed_is_run_again(self, three: Path) -> None:
        run("--jsonl", "run.jsonl")
        before = (three / "run.jsonl").read_text().splitlines()
        (three / "red.evseq.yaml").write_text(GREEN.replace("name: green", "name: red").replace("17", "18"))

        assert run("--resume", "run.jsonl") == Exit.PASSED

        after = (three / "run.jsonl").read_text().splitlines()
        assert (types("run.jsonl"), after[1:7]) == ([json.loads(line)["type"] for line in before], before[1:7])
        assert json.loads(after[9])["stamp"] != json.loads(before[9])["stamp"]

    def test_candidates_thrown_away_since_are_made_again(self, three: Path) -> None:
        assert run("--update-goldens", "--jsonl", "run.jsonl") == Exit.FAILED
        (gone, *_) = json.loads((three / "run.jsonl").read_text().splitlines()[3])["candidates"]
        Path(gone).unlink()

        assert run("--update-goldens", "--resume", "run.jsonl") == Exit.FAILED

        assert Path(gone).exists()
        assert len(json.loads((three / "run.jsonl").read_text().splitlines()[-1])["candidates"]) == 3

    def test_recordings_and_witnesses_thrown_away_since_are_made_again(self, three: Path) -> None:
        run("--update-goldens")
        main(["golden", "accept", "--reason", "A test."])
        flags = ("--record", "kept", "--update-witness")
        assert run(*flags, "--jsonl", "run.jsonl") == Exit.PASSED
        (witness,) = three.rglob("witness/*.json")
        (recording, *_) = sorted((three / "kept").iterdir())
        recording.unlink()
        assert run(*flags, "--resume", "run.jsonl") == Exit.PASSED
        assert recording.exists()
        witness.unlink()

        assert run(*flags, "--resume", "run.jsonl") == Exit.PASSED

        assert list(json.loads(witness.read_text())["scripts"]) == ["blue", "green", "red"]

    def test_a_case_that_is_there_twice_stands_for_no_other(
        self, three: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run("--jsonl", "run.jsonl")
        lines = (three / "run.jsonl").read_text().splitlines(keepends=True)
        (three / "run.jsonl").write_text("".join([lines[0], lines[1], lines[1], *lines[3:]]))
        capsys.readouterr()

        assert run("--resume", "run.jsonl") == Exit.PASSED

        assert capsys.readouterr().out.startswith("kept from before: 4 cases of 2 scripts ")
        cases = [json.loads(line).get("id") for line in (three / "run.jsonl").read_text().splitlines()]
        assert {f"blue[{padding}][{FULL}]" for padding in ("left", "right")} <= set(cases)

    def test_a_file_that_is_no_run_is_wrong_usage_and_stays(
        self, three: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run("--resume", "green.evseq.yaml") == Exit.USAGE

        assert capsys.readouterr() == (
            "",
            "green.evseq.yaml:1: no JSON\n  help: run without --resume, which begins anew\n",
        )
        assert (three / "green.evseq.yaml").read_text() == GREEN


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupt_keeps_what_ended_and_the_rest_can_be_resumed(workers: str, three: Path) -> None:
    (three / "engines.py").write_text(SLOW)
    command = [sys.executable, "-m", "evseq", "run", ".", "--target", FULL, "--target", "engines:Slow"]
    running = subprocess.Popen(
        [*command, "-n", workers, "--jsonl", "run.jsonl"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert running.stdout is not None
    table = [running.stdout.readline() for _ in range(7)]
    time.sleep(0.2)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: every process hears it
    told, _ = running.communicate(timeout=60)
    (three / "quick").touch()
    done = kept(three / "run.jsonl")
    resumed = subprocess.run(
        [*command, "-n", workers, "--resume", "run.jsonl"], capture_output=True, text=True, check=False
    )

    assert table[6].endswith(f"[right][{FULL}]\n")
    assert running.returncode == Exit.INTERRUPTED
    assert "cancelled: 6 cases\n  blue on engines:Slow: 2 cases\n" in told
    assert told.splitlines()[-1].startswith("INTERRUPTED: 6 cases judged, 0 failed, 6 cancelled, ")
    assert len(done) == 3
    assert (resumed.returncode, resumed.stderr) == (Exit.PASSED, "")
    assert types("run.jsonl") == ["run", *["case", "case", "script"] * 6, "summary"]
    cases = [json.loads(line) for line in (three / "run.jsonl").read_text().splitlines()]
    assert [case["id"] for case in cases if case["type"] == "case"] == [
        f"{name}[{padding}][{target}]"
        for target in (FULL, "engines:Slow")
        for name in ("blue", "green", "red")
        for padding in ("left", "right")
    ]


class Other(Second):
    """Has other weights once they are changed."""

    changed = False

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Second:
        made = super().load(dtype, options)
        made.source = made.source[:-1] + "0" if self.changed else made.source
        return made


def stamp(settings: Settings, *, target: str | object = FULL, arms: int = 2) -> str:
    (script,) = read_scripts(["green.evseq.yaml"])
    with Run(settings) as running:
        text = running.target(target).text
        return running.stamp(Part(script=script, target=text, chosen=running.selected(script, text)[:arms]))


class TestStamp:
    def test_it_is_that_of_the_result(self) -> None:
        (script,) = read_scripts(["green.evseq.yaml"])
        with Run(Settings()) as running:
            part = Part(script=script, target=FULL, chosen=running.selected(script, FULL))

            assert running.play(part).stamp == stamp(Settings()) == running.stamp(part)

    @pytest.mark.parametrize(
        "settings",
        [
            Settings(threads=2),
            Settings(record=Path("kept")),
            Settings(goldens=Terms(revision="v2")),
            Settings(goldens=Terms(require=True)),
            Settings(goldens=Terms(root=Path("goldens"))),
            Settings(goldens=Terms(targets={FULL: TargetTerms(model="mine", need=Need.REQUIRED)})),
        ],
    )
    def test_other_settings_give_another(self, settings: Settings) -> None:
        assert stamp(settings) != stamp(Settings())

    @pytest.mark.parametrize("settings", [Settings(workers=2), Settings(mode="all")])
    def test_what_changes_no_outcome_does_not(self, settings: Settings) -> None:
        assert stamp(settings) == stamp(Settings())

    def test_so_does_another_target_and_another_choice_of_arms(self) -> None:
        assert len({stamp(Settings()), stamp(Settings(), target="reference:window"), stamp(Settings(), arms=1)}) == 3

    def test_so_do_other_weights(self) -> None:
        loader = Other()
        before = stamp(Settings(), target=loader)
        loader.changed = True

        assert stamp(Settings(), target=loader) != before

    def test_so_do_other_libraries(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = stamp(Settings())
        monkeypatch.setattr(versions, "libraries", lambda: {"torch": "0.1"})

        assert stamp(Settings()) != before

    @pytest.mark.parametrize(
        "change",
        [
            lambda here: (here / "green.evseq.yaml").write_text(GREEN.replace("17", "18")),
            lambda here: (here / "known.yaml").write_text(
                "- {script: green, target: '*', check: parity, link: 'https://example.org', reason: soon}\n"
            ),
        ],
    )
    def test_so_do_another_script_and_other_known_failures(self, change: Callable[[Path], object], here: Path) -> None:
        before = stamp(Settings())
        change(here)

        assert stamp(Settings()) != before

    def test_so_does_another_text_beside_the_script(self, here: Path) -> None:
        (here / "green.evseq.yaml").write_text(GREEN.replace("[8, 21, 40]", "{each: lines.txt}"))
        (here / "lines.txt").write_text("[8, 21, 40]\n")
        before = stamp(Settings())
        (here / "lines.txt").write_text("[8, 21, 41]\n")

        assert stamp(Settings()) != before

    def test_so_does_a_golden_accepted_since(self) -> None:
        held = Settings(goldens=Terms(root=Path("goldens"), project=Path()))
        before = stamp(held)
        assert run("--update-goldens") == Exit.FAILED
        assert main(["golden", "accept", "--reason", "A test."]) == Exit.PASSED

        assert stamp(held) != before
        assert replace(held, goldens=Terms()) == Settings()
