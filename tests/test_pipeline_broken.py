from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from evseq.cache.damage import NotWritable
from evseq.errors import TargetError, UsageError
from evseq.geometry import Description, Dtype
from evseq.part import ScriptResult
from evseq.pipeline import Settings, run
from evseq.report.jsonl import JsonLines
from evseq.report.watchers import Watchers
from evseq.verdict.result import Case, Exit, Outcome
from planted.second import Second
from playing import ARMS, CROP, DOUBLE, ELSEWHERE, ONE, failed, first, lines, played, script

FULL = "reference:full"

OPTIONS = """\
rows: {a: [1, 2]}
arms:
  memory.kernel: [good, bad]
events: [{prefill: [a]}]
"""


@dataclass
class Watching:
    """Writes down what it is told, and raises when told of one case."""

    stop_at: int | None = None
    told: list[str] = field(default_factory=list)
    finished_: list[Case] = field(default_factory=list)

    def kept(self, results: Sequence[ScriptResult]) -> None:
        self.told.append(f"{len(results)} kept")

    def planned(self, cases: int) -> None:
        self.told.append(f"{cases} planned")

    def started(self, script: str, target: str) -> None:
        self.told.append(f"{script} on {target}")

    def finished(self, case: Case) -> None:
        self.finished_.append(case)
        self.told.append(case.id)
        if len(self.finished_) == self.stop_at:
            raise KeyboardInterrupt

    def ended(self, result: ScriptResult) -> None:
        self.told.append(f"{len(result.cases)} ended")


class TestBroken:
    def test_an_uncached_side_that_raises_fails_every_supported_case(self) -> None:
        result = played([script(ONE, name="one"), script(ARMS, name="arms")], "planted.raising:uncached", only={})

        assert result.exit is Exit.FAILED
        assert result.counts[Outcome.FAILED] == len(result.cases) == 1 + 4
        assert lines(result)[0] == (
            "one.evseq.yaml:5:11: prefill: reference: the uncached forward raised OSError: uncached has failed"
        )

    def test_a_case_that_was_not_supported_stays_so(self) -> None:
        result = played(ARMS, "planted.engines:single_and_failing", only={})

        assert result.counts == {Outcome.PASSED: 0, Outcome.FAILED: 2, Outcome.KNOWN: 0, Outcome.UNSUPPORTED: 2}

    def test_a_target_that_cannot_be_loaded_fails_and_the_others_run(self) -> None:
        result = played(ONE, "planted.raising:load", FULL)

        assert [(case.target, case.outcome) for case in result.cases] == [
            ("planted.raising:load", Outcome.FAILED),
            (FULL, Outcome.PASSED),
        ]
        assert first(result) == (
            "case.evseq.yaml:5:11: prefill: reference: "
            "loading planted.raising:load in float64 raised OSError: load has failed"
        )

    def test_what_a_target_lacks_is_for_its_owner_to_mend(self) -> None:
        with pytest.raises(TargetError, match=r"^memory:Emptied: no weights here$"):
            played(ONE, Emptied())

    def test_options_a_target_does_not_have_are_for_their_owner_to_mend(self) -> None:
        with pytest.raises(TargetError, match=r"^kernel=bad: no such kernel$"):
            played(OPTIONS, Lacking())

    def test_it_is_loaded_once_however_many_scripts_ask(self) -> None:
        loader = Failing()

        result = played([script(ONE, name=name) for name in ("one", "two", "three")], loader)

        assert len(failed(result)) == 3
        assert loader.loaded == 1

    def test_options_that_cannot_be_loaded_fail_their_cases(self) -> None:
        result = played(OPTIONS, Optioned())

        assert [case.outcome for case in result.cases] == [Outcome.PASSED, Outcome.FAILED]
        assert first(result) == (
            "case.evseq.yaml:7:11: prefill: completed: session 'main': "
            "loading memory:Optioned in float64 with kernel=bad raised ValueError: no such kernel"
        )


class TestRecord:
    def test_a_folder_that_cannot_be_is_refused_before_anything_runs(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        watching = Watching()

        with pytest.raises(UsageError) as refused:
            run([script(ONE)], [FULL], settings=Settings(record=tmp_path / "file" / "kept"), watch=watching)

        assert str(refused.value) == (
            f"{tmp_path}/file/kept: recordings cannot be written: Not a directory\n"
            "  help: name a folder you may write to"
        )
        assert watching.told == []

    def test_a_disk_that_is_full_is_no_fault_of_the_engine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("evseq.replay.player.save", full)

        result = played([script(ELSEWHERE, name="reloads"), script(ONE, name="one")], FULL)

        assert [case.outcome for case in result.cases] == [Outcome.PASSED]
        assert (result.exit, len(result.unwritten)) == (Exit.USAGE, 1)
        assert result.unwritten[0].startswith(f"reloads on {FULL} was not judged: ")
        assert "No space left on device\n  help: check the folder's permissions and" in result.unwritten[0]

    @pytest.mark.parametrize("refuses", ["tempfile.TemporaryDirectory", "evseq.replay.group.Path.mkdir"])
    def test_nor_is_a_system_without_room_for_a_temporary_folder(
        self, refuses: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(refuses, refused)

        with Watchers(JsonLines(tmp_path / "run.jsonl", targets=(), scripts=(), settings={})) as watch:
            result = run([script(ONE, name="one")], [FULL], settings=Settings(only=DOUBLE), watch=watch)

        assert (result.cases, result.exit, len(result.unwritten)) == ((), Exit.USAGE, 1)
        assert result.unwritten[0].startswith(f"one on {FULL} was not judged: ")
        assert ": cannot be written: No space left on device\n  help: check the folder's perm" in result.unwritten[0]

    def test_a_recording_that_cannot_be_written_takes_nothing_from_the_verdict(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("evseq.replay.keep.keep", full)

        result = run([script(ONE)], [FULL], settings=Settings(only=DOUBLE, record=tmp_path))

        assert [case.outcome for case in result.cases] == [Outcome.PASSED]
        assert (result.exit, len(result.unwritten)) == (Exit.USAGE, 1)
        assert result.unwritten[0].startswith(f"{tmp_path}/case.reference_full.")

    def test_a_failed_case_stays_a_failure_where_something_cannot_be_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("evseq.replay.keep.keep", full)

        record = Settings(only=DOUBLE, record=tmp_path)
        result = run([script(ONE)], ["planted.raising:append"], settings=record)

        assert (result.exit, len(result.unwritten)) == (Exit.FAILED, 1)


class TestInterrupted:
    def test_finished_cases_are_kept_and_the_others_cancelled(self) -> None:
        watching = Watching(stop_at=3)
        scripts = [script(ONE, name="one"), script(ARMS, name="arms"), script(ONE, name="two")]

        result = played(scripts, FULL, only={}, watch=watching)

        assert (result.interrupted, result.exit) == (True, Exit.INTERRUPTED)
        assert list(result.cases) == watching.finished_
        assert [case.script for case in result.cases] == ["one", "arms", "arms", "arms", "arms"]
        assert result.cancelled == (f"two[][{FULL}]",)
        assert watching.told[-1] == "4 ended"

    def test_an_interrupt_in_an_engine_ends_the_run_too(self) -> None:
        scripts = [script(ONE, name="one"), script(ONE, name="two")]

        result = played(scripts, FULL, "planted.faults:interrupted", "reference:alibi")

        assert result.exit is Exit.INTERRUPTED
        assert [case.target for case in result.cases] == [FULL, FULL]
        assert [case.partition("[")[0] for case in result.cancelled] == ["one", "two"] * 2

    def test_a_watcher_is_told_everything_in_order(self) -> None:
        watching = Watching()

        result = played([script(ONE, name="one"), script(CROP, name="two")], FULL, watch=watching)

        assert watching.told == [
            "2 planned",
            f"one on {FULL}",
            f"one[float64][{FULL}]",
            "1 ended",
            f"two on {FULL}",
            f"two[float64][{FULL}]",
            "1 ended",
        ]
        assert tuple(watching.finished_) == result.cases


class Failing(Second):
    """A loader that counts how often it fails."""

    loaded = 0

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Second:
        self.loaded += 1
        raise OSError("the weights are gone")


class Emptied(Second):
    """A loader that finds no weights."""

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Second:
        raise TargetError("memory:Emptied: no weights here")


class Optioned(Second):
    """A loader with an option of which one value does not work."""

    def describe(self) -> Description:
        return replace(super().describe(), options={"kernel": ("good", "bad")})

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Second:
        if options.get("kernel") == "bad":
            raise ValueError("no such kernel")
        return super().load(dtype, options)


class Lacking(Optioned):
    """The same, saying so as a loader should."""

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Second:
        if options.get("kernel") == "bad":
            raise TargetError("kernel=bad: no such kernel")
        return super().load(dtype, options)


def full(path: Path, **_: object) -> None:
    """Do as `save` does where a disk is full."""
    raise NotWritable(path, "No space left on device")
