from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evseq.part import ScriptResult
from evseq.report.jsonl import JsonLines
from evseq.report.kept import KeptError, kept
from evseq.verdict.result import (
    Allowed,
    Case,
    Check,
    ErrorRatio,
    Forwards,
    Known,
    Latency,
    Margin,
    Note,
    Outcome,
    Witnessed,
)

HELP = "\n  help: run without --resume, which begins anew"


@pytest.fixture
def full(failed: Case) -> Case:
    """Return a case of which everything is told that can be."""
    return replace(
        failed,
        arms={"padding": "left", "chunk": 2, "digits": "3"},
        reason="why",
        golden="v1",
        golden_share=0.1,
        allowed=(Allowed(check=Check.PARITY, place="a:1:1", because="so", within=2.0, findings=1, share=1.5),),
        known=(Known(place="k:1:1", check=Check.PARITY, link="https://example.org/1", reason="mended soon"),),
        notes=(Note(kind="not judged", message="no kernel"),),
        margin=Margin(deviation=1 / 3, err=0.1, allowed=float("inf")),
        errors=ErrorRatio(cached=0.2, uncached=0.1),
        witnessed=Witnessed(file="w.json", drift=0.25, written=True),
        latency=Latency(first=0.001, later=None),
    )


@pytest.fixture
def done(full: Case, passed: Case) -> ScriptResult:
    return ScriptResult(
        cases=(full, passed),
        forwards=Forwards(leaves=1, oracle=2, reference=3, once={"greedy 1f": 1}),
        candidates=("g/a.candidate.safetensors",),
        stamp="5eed",
    )


def file(path: Path, *results: ScriptResult) -> JsonLines:
    """Write a run of these results; nothing closes it."""
    lines = JsonLines(path, targets=(), scripts=(), settings={})
    for result in results:
        for case in result.cases:
            lines.finished(case)
        lines.ended(result)
    return lines


class TestKept:
    def test_what_was_written_is_read_back(self, tmp_path: Path, done: ScriptResult) -> None:
        file(tmp_path / "run.jsonl", done, replace(done, stamp="07he4")).close()

        assert kept(tmp_path / "run.jsonl") == (done, replace(done, stamp="07he4"))

    @pytest.mark.parametrize("outcome", list(Outcome))
    def test_every_outcome_is_read_back(self, outcome: Outcome, tmp_path: Path, done: ScriptResult) -> None:
        result = replace(done, cases=(replace(done.cases[0], outcome=outcome),))
        file(tmp_path / "run.jsonl", result).close()

        assert kept(tmp_path / "run.jsonl") == (result,)

    def test_a_script_that_was_not_done_whole_is_passed_over(
        self, tmp_path: Path, done: ScriptResult, passed: Case
    ) -> None:
        lines = file(tmp_path / "run.jsonl", done)
        lines.finished(passed)
        lines.close()

        assert kept(tmp_path / "run.jsonl") == (done,)

    def test_the_end_of_a_line_that_a_killed_writer_left_out_is_no_damage(
        self, tmp_path: Path, done: ScriptResult
    ) -> None:
        file(tmp_path / "run.jsonl", done, done).close()
        (tmp_path / "run.jsonl").write_bytes((tmp_path / "run.jsonl").read_bytes()[:-30])

        assert kept(tmp_path / "run.jsonl") == (done,)

    def test_a_run_killed_before_its_first_case_has_nothing(self, tmp_path: Path) -> None:
        file(tmp_path / "run.jsonl").close()

        assert kept(tmp_path / "run.jsonl") == ()

    @pytest.mark.parametrize("size", [0, 1, 13, 14, 100])
    def test_a_run_killed_within_its_first_line_has_nothing(self, size: int, tmp_path: Path) -> None:
        file(tmp_path / "run.jsonl").close()
        (tmp_path / "run.jsonl").write_bytes((tmp_path / "run.jsonl").read_bytes()[:size])

        assert kept(tmp_path / "run.jsonl") == ()

    def test_what_a_crash_left_behind_the_last_line_is_not_read(self, tmp_path: Path, done: ScriptResult) -> None:
        file(tmp_path / "run.jsonl", done).close()
        (tmp_path / "run.jsonl").write_bytes((tmp_path / "run.jsonl").read_bytes() + b"\0\xff")

        assert kept(tmp_path / "run.jsonl") == (done,)


class TestRefused:
    @pytest.mark.parametrize(
        ("line", "text", "told"),
        [
            (1, "", "1: no JSON"),
            (1, "evseq: 1", "1: no JSON"),
            (1, "[" * 100_000, "1: no JSON"),
            (2, "17", "2: no JSON object"),
            (2, '{"type": "cases"}', "2: no line of a run has the type 'cases'"),
            (2, '{"type": "case"}', "2: no 'first_token_seconds'"),
            (
                2,
                '{"type": "case", "first_token_seconds": "soon", "later_token_seconds": null}',
                "2: first: Input should be a valid number, unable to parse string as a number",
            ),
            (
                4,
                '{"type": "script", "cases": 2, "script": "x", "file": "x.evseq.yaml", "target": "t"}',
                "4: it closes 2 cases of 'x', not those before it",
            ),
            (4, '{"type": "script"}', "4: no 'cases'"),
        ],
    )
    def test_a_damaged_file_is_told_with_its_line(
        self, line: int, text: str, told: str, tmp_path: Path, done: ScriptResult
    ) -> None:
        file(tmp_path / "run.jsonl", done).close()
        lines = (tmp_path / "run.jsonl").read_text().splitlines()
        lines[line - 1] = text
        (tmp_path / "run.jsonl").write_text("\n".join([*lines, ""]))

        with pytest.raises(KeptError) as refused:
            kept(tmp_path / "run.jsonl")

        assert str(refused.value) == f"{tmp_path}/run.jsonl:{told}{HELP}"

    @pytest.mark.parametrize("text", ["\n", '{"type": "case"}\n', "{}\n", "text", '{"type": "case"'])
    def test_a_foreign_file_is_told(self, text: str, tmp_path: Path) -> None:
        (tmp_path / "other.jsonl").write_text(text)

        with pytest.raises(KeptError) as refused:
            kept(tmp_path / "other.jsonl")

        assert str(refused.value) == (
            f"{tmp_path}/other.jsonl:1: it does not begin with the line of a run\n"
            "  help: name a file that --jsonl wrote"
        )

    def test_another_version_of_the_format_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "run.jsonl").write_text('{"type": "run", "version": 2}\n')

        with pytest.raises(KeptError) as refused:
            kept(tmp_path / "run.jsonl")

        assert str(refused.value) == (f"{tmp_path}/run.jsonl:1: version 2 of the format, this evseq reads 1{HELP}")

    def test_a_file_that_cannot_be_read_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(KeptError) as refused:
            kept(tmp_path / "none.jsonl")
        assert str(refused.value) == (
            f"{tmp_path}/none.jsonl: cannot be read: No such file or directory\n  help: name the file of a run"
        )

        (tmp_path / "bytes.jsonl").write_bytes(b'{"type": "\xff"}\n')
        with pytest.raises(KeptError) as refused:
            kept(tmp_path / "bytes.jsonl")
        assert str(refused.value) == f"{tmp_path}/bytes.jsonl: byte 10 is not UTF-8{HELP}"


class TestResumed:
    def test_the_file_of_a_resumed_run_stays_whole_until_what_is_kept_is_in_the_new_one(
        self, tmp_path: Path, done: ScriptResult
    ) -> None:
        path = tmp_path / "run.jsonl"
        file(path, done, replace(done, stamp="07he4")).close()
        before = path.read_text()

        lines = JsonLines(path, targets=(), scripts=(), settings={}, resumes=True)
        untouched = path.read_text()
        lines.kept((done,))
        resumed = kept(path)
        lines.ended(replace(done, cases=done.cases[:1]))
        lines.close()

        assert untouched == before
        assert resumed == (done,)
        assert path.read_text().splitlines()[:4] == before.splitlines()[:4]
        assert len(path.read_text().splitlines()) == 5

    def test_another_file_gets_what_is_kept_too(self, tmp_path: Path, done: ScriptResult) -> None:
        lines = file(tmp_path / "other.jsonl")
        lines.kept((done, done))
        lines.close()

        assert kept(tmp_path / "other.jsonl") == (done, done)

    def test_a_run_that_begins_nothing_leaves_the_file_alone(self, tmp_path: Path, done: ScriptResult) -> None:
        file(tmp_path / "run.jsonl", done).close()

        JsonLines(tmp_path / "run.jsonl", targets=(), scripts=(), settings={}, resumes=True).close()

        assert kept(tmp_path / "run.jsonl") == (done,)
