"""However many workers play it, a run says and writes the same; what happens to them is told."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from evseq.errors import UsageError
from evseq.golden.terms import Terms
from evseq.part import Part
from evseq.pipeline import Run, Settings, run
from evseq.playing import play
from evseq.report.jsonl import JsonLines
from evseq.report.summary import lost
from evseq.report.terminal import Terminal
from evseq.report.watchers import Watchers
from evseq.verdict.result import Case, Check, Exit, Outcome
from planted.second import Second
from sharing import FULL, SCRIPTS, replace_file, written
from timeless import timeless, timeless_lines, timeless_recordings


class TestTheSame:
    def test_results_and_files_are_those_of_one_process(self, here: Path) -> None:
        alone, shared = written(here / "alone", workers=1), written(here / "shared", workers=2)

        assert timeless(shared) == timeless(alone)
        assert (alone.exit, shared.forwards.reference > 0) == (Exit.FAILED, True)
        assert timeless_lines(here / "shared/run.jsonl") == timeless_lines(here / "alone/run.jsonl")
        recordings = timeless_recordings(here / "alone/recordings")
        assert len(recordings) == 12
        assert timeless_recordings(here / "shared/recordings") == recordings

    def test_candidates_are_those_of_one_process(self, here: Path) -> None:
        scripts = [replace_file(one, here) for one in SCRIPTS[:2]]

        alone, shared = (
            run(scripts, [FULL], settings=Settings(goldens=Terms(root=Path(name), update=True), workers=workers))
            for name, workers in (("alone", 1), ("shared", 2))
        )

        assert (alone.exit, len(alone.candidates)) == (Exit.FAILED, 2)
        assert [name.removeprefix("shared/") for name in shared.candidates] == [
            name.removeprefix("alone/") for name in alone.candidates
        ]
        assert [Path(name).read_bytes() for name in shared.candidates] == [
            Path(name).read_bytes() for name in alone.candidates
        ]

    def test_what_a_script_took_does_not_depend_on_those_before_it(self, tmp_path: Path) -> None:
        _, greedy, again = (
            run(scripts, [FULL], settings=Settings(record=tmp_path / name)).forwards
            for name, scripts in (("step", SCRIPTS[:1]), ("greedy", SCRIPTS[1:2]), ("again", SCRIPTS[1:3]))
        )

        first, both = (timeless_recordings(tmp_path / name) for name in ("greedy", "again"))
        assert both.items() >= first.items()
        assert again.reference < 2 * greedy.reference  # what was chosen and measured once is counted once


class TestErrors:
    def test_a_model_in_memory_is_for_one_process(self) -> None:
        with pytest.raises(UsageError) as refused:
            run(SCRIPTS, [Second()], settings=Settings(workers=2))

        assert str(refused.value) == (
            "other processes cannot open a model in memory\n  help: leave the number of workers at 1"
        )
        with pytest.raises(UsageError) as refused:
            run(SCRIPTS, [Second()], settings=Settings(scheduler="tcp://127.0.0.1:1"))

        assert str(refused.value) == "other processes cannot open a model in memory\n  help: name no scheduler"

    def test_an_error_comes_in_its_turn(self, tmp_path: Path) -> None:
        file = JsonLines(tmp_path / "run.jsonl", targets=(), scripts=(), settings={})

        with pytest.raises(UsageError, match=r"^no weights here$"):
            run(SCRIPTS[:2], [FULL, "planted.dying:empty"], settings=Settings(workers=2), watch=file)
        file.close()

        assert [line.split('"')[3] for line in timeless_lines(tmp_path / "run.jsonl")] == [
            *("run", "case", "script"),
            *("case", "case", "case", "case", "script"),
        ]


@pytest.mark.usefixtures("here")
class TestLost:
    def test_a_worker_that_is_killed_is_replaced_and_told(self, here: Path) -> None:
        result = run(SCRIPTS[:2], [FULL, "planted.dying:once"], settings=Settings(workers=2))

        assert result.exit is Exit.PASSED
        assert [case.script for case in result.cases] == ["step", *["greedy"] * 4, "step", *["greedy"] * 4]
        told = re.sub("^  (step|greedy)", "  whichever", "\n".join(lost(result)), flags=re.MULTILINE)
        assert told == (
            "lost: 1 worker\n  whichever on planted.dying:once: a worker ended by SIGKILL; another played it again"
        )
        assert os.getpid() not in {int(line) for line in (here / "killed").read_text().splitlines()}

    def test_one_that_is_killed_again_is_a_finding_and_the_others_are_judged(self) -> None:
        result = run(SCRIPTS[:2], ["planted.dying:always", FULL], settings=Settings(workers=2))

        assert (result.exit, result.interrupted, result.cancelled) == (Exit.FAILED, False, ())
        assert [(case.target, case.outcome) for case in result.cases] == [(FULL, Outcome.PASSED)] * 5
        assert [(finding.check, str(finding), finding.cause) for finding in result.findings] == [
            (
                Check.COMPLETED,
                (
                    f"{name}.evseq.yaml: completed: {name} on planted.dying:always: its {cases} cases were not judged: "
                    "two workers, one after the other, ended by SIGKILL"
                ),
                "mostly want of memory: let fewer run at once, with -n 1",
            )
            for name, cases in (("step", 1), ("greedy", 4))
        ]
        assert len(result.lost) == 2


class TestInterrupted:
    def test_what_ended_out_of_turn_is_kept_and_told_last(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Run(Settings()) as running:
            parts = [Part(script=one, target=FULL, chosen=running.selected(one, FULL)) for one in SCRIPTS[:3]]
            results = [running.play(part) for part in parts]
            monkeypatch.setattr("evseq.playing._made", lambda *_: stopped(results))
            file = JsonLines(tmp_path / "run.jsonl", targets=(), scripts=(), settings={})

            played = play(parts, running, watch=file)
            file.close()

        assert (played.interrupted, sorted(played.ended)) == (True, [0, 2])
        told = [line.split('"')[3] for line in timeless_lines(tmp_path / "run.jsonl")]
        assert told == ["run", "case", "script", *["case"] * 4, "script"]

    def test_one_that_comes_while_all_are_told_of_a_case_is_heard_behind_it(self, tmp_path: Path) -> None:
        file = JsonLines(tmp_path / "run.jsonl", targets=(), scripts=(), settings={})

        with Run(Settings()) as running:
            parts = [Part(script=one, target=FULL, chosen=running.selected(one, FULL)) for one in SCRIPTS[1:3]]
            played = play(parts, running, watch=Watchers(Pressing(), file))
        file.close()

        assert (played.interrupted, sorted(played.ended)) == (True, [0])
        told = [line.split('"')[3] for line in timeless_lines(tmp_path / "run.jsonl")]
        assert told == ["run", *["case"] * 4, "script"]


class Pressing(Terminal):
    """Presses Ctrl-C as soon as it is told of a case, once."""

    keys = iter([signal.SIGINT])

    def finished(self, case: Case) -> None:
        for key in self.keys:
            os.kill(os.getpid(), key)


def stopped(results: Sequence[object]) -> Iterator[tuple[int, object]]:
    """Give the first and the last, then somebody presses Ctrl-C."""
    yield 0, results[0]
    yield 2, results[2]
    raise KeyboardInterrupt
