from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evseq.errors import UsageError
from evseq.part import ScriptResult
from evseq.report.jsonl import JsonLines
from evseq.verdict.result import Case, ErrorRatio, Finding, Forwards, Latency, Margin, Result, Witnessed


def opened(path: Path) -> JsonLines:
    return JsonLines(path, targets=("reference",), scripts=("suite",), settings={"arms": "pairwise", "threads": "1"})


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]


class TestJsonLines:
    def test_a_run_opens_with_what_was_asked(self, tmp_path: Path) -> None:
        opened(tmp_path / "run.jsonl").close()
        (run,) = lines(tmp_path / "run.jsonl")
        assert list(run) == ["type", "version", "evseq", "started", "targets", "scripts", "settings", "libraries"]
        assert (run["type"], run["version"]) == ("run", 1)
        assert (run["targets"], run["scripts"]) == (["reference"], ["suite"])
        assert run["settings"] == {"arms": "pairwise", "threads": "1"}
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", run["started"])
        assert list(run["libraries"]) == ["python", "torch", "safetensors", "transformers"]

    def test_a_case_is_read_back(self, tmp_path: Path, failed: Case) -> None:
        file = opened(tmp_path / "run.jsonl")
        file.finished(failed)
        file.close()
        assert lines(tmp_path / "run.jsonl")[1] == {
            "type": "case",
            "id": "crop-twice[right-float64][reference:full]",
            "script": "crop-twice",
            "file": failed.file,
            "target": "reference:full",
            "arms": {"padding": "right", "dtype": "float64"},
            "outcome": "failed",
            "reason": None,
            "promise": "exact",
            "dtype": "float64",
            "observations": 6,
            "findings": [
                {
                    "check": "parity",
                    "place": failed.findings[0].place,
                    "event": "append",
                    "step": 3,
                    "row": "a",
                    "index": 2,
                    "message": "logit 17 is 1.5, expected 2.5: off by 1, allowed 4.1e-13 in float64",
                    "actual": "1.5",
                    "expected": "2.5",
                    "cause": None,
                    "round": None,
                    "share": None,
                }
            ],
            "allowed": [],
            "known": [],
            "notes": [],
            "margin": {"deviation": 1.0, "err": 0.0, "allowed": 4.1e-13, "fraction": 1.0 / 4.1e-13},
            "envelope": None,
            "golden": None,
            "golden_share": None,
            "errors": {"cached": 1.0, "uncached": 0.0, "ratio": None},
            "witnessed": None,
            "peak_cache_bytes": 12800,
            "replay_forwards": 3,
            "seconds": 0.5,
            "replay": failed.replay,
            "first_token_seconds": 0.00123,
            "later_token_seconds": 0.0004,
        }

    def test_the_summary_closes(self, tmp_path: Path, result: Result, passed: Case, failed: Case) -> None:
        file = opened(tmp_path / "run.jsonl")
        file.report(replace(result, cases=(passed, failed)))
        file.close()
        assert lines(tmp_path / "run.jsonl")[1] == {
            "type": "summary",
            "passed": 1,
            "failed": 1,
            "known": 0,
            "unsupported": 0,
            "allowed": 0,
            "unmatched": [],
            "findings": [],
            "judged": [
                {"target": "reference:full", "judged": ["float64"], "not_judged": ["float32", "bfloat16"]},
            ],
            "leaves": 2,
            "oracle_forwards": 4,
            "reference_forwards": 5,
            "replay_forwards": 6,
            "seconds": 1.25,
            "unjudged": [],
            "candidates": [],
            "unwritten": [],
            "interrupted": False,
            "cancelled": [],
            "lost": [],
            "exit": 1,
        }

    def test_candidates_and_targets_that_were_not_judged_are_named(self, tmp_path: Path, result: Result) -> None:
        file = opened(tmp_path / "run.jsonl")
        file.report(replace(result, asked=("mine:a",), candidates=("goldens/a.candidate.safetensors",)))
        file.close()
        told = lines(tmp_path / "run.jsonl")[1]
        assert (told["unjudged"], told["candidates"]) == (["mine:a"], ["goldens/a.candidate.safetensors"])

    def test_what_belongs_to_no_case_is_in_the_summary(self, tmp_path: Path, result: Result, finding: Finding) -> None:
        file = opened(tmp_path / "run.jsonl")
        file.report(replace(result, findings=(finding,)))
        file.close()
        assert lines(tmp_path / "run.jsonl")[1]["findings"][0]["message"] == finding.message

    def test_numbers_json_has_not_are_texts(self, tmp_path: Path, passed: Case) -> None:
        nan, inf = float("nan"), float("inf")
        odd = replace(
            passed, margin=Margin(deviation=nan, err=-inf, allowed=0.0), latency=Latency(first=inf, later=None)
        )
        file = opened(tmp_path / "run.jsonl")
        file.finished(odd)
        file.close()
        told = lines(tmp_path / "run.jsonl")[1]
        assert told["margin"] == {"deviation": "NaN", "err": "-Infinity", "allowed": 0.0, "fraction": "Infinity"}
        assert (told["first_token_seconds"], told["later_token_seconds"]) == ("Infinity", None)

    def test_a_case_tells_of_its_rounding_and_its_witness(self, tmp_path: Path, passed: Case) -> None:
        told = replace(
            passed,
            errors=ErrorRatio(cached=3e-6, uncached=2e-6),
            witnessed=Witnessed(file="goldens/m/r/witness/cpu.json", drift=0.25),
        )
        file = opened(tmp_path / "run.jsonl")
        file.finished(told)
        file.close()
        line = lines(tmp_path / "run.jsonl")[1]
        assert line["errors"] == {"cached": 3e-6, "uncached": 2e-6, "ratio": 1.5}
        assert line["witnessed"] == {"file": "goldens/m/r/witness/cpu.json", "drift": 0.25, "written": False}

    def test_a_run_that_is_killed_leaves_whole_lines(self, tmp_path: Path, passed: Case) -> None:
        file = opened(tmp_path / "run.jsonl")
        file.planned(2)
        file.started("crop-twice", "reference:full")
        file.finished(passed)
        assert [line["type"] for line in lines(tmp_path / "run.jsonl")] == ["run", "case"]
        assert (tmp_path / "run.jsonl").read_text().endswith("}\n")
        file.close()

    def test_an_older_file_is_written_over(self, tmp_path: Path) -> None:
        (tmp_path / "run.jsonl").write_text("older\n" * 100)
        opened(tmp_path / "run.jsonl").close()
        assert len(lines(tmp_path / "run.jsonl")) == 1

    @pytest.mark.parametrize("resumes", [False, True])
    def test_a_file_that_cannot_be_written_is_refused_at_once(self, tmp_path: Path, *, resumes: bool) -> None:
        with pytest.raises(UsageError) as refused:
            JsonLines(tmp_path / "missing" / "run.jsonl", targets=(), scripts=(), settings={}, resumes=resumes)
        assert str(refused.value) == (
            f"{tmp_path}/missing/run.jsonl: cannot be written: No such file or directory\n"
            "  help: name a file in a folder you may write to"
        )

    def test_a_link_to_the_file_of_a_resumed_run_stays_one(self, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        opened(tmp_path / "elsewhere" / "run.jsonl").close()
        (tmp_path / "run.jsonl").symlink_to("elsewhere/run.jsonl")

        file = JsonLines(tmp_path / "run.jsonl", targets=("other",), scripts=(), settings={}, resumes=True)
        file.kept(())
        file.close()

        assert (tmp_path / "run.jsonl").is_symlink()
        assert lines(tmp_path / "elsewhere" / "run.jsonl")[0]["targets"] == ["other"]

    def test_a_script_that_could_not_be_judged_has_no_line(self, tmp_path: Path) -> None:
        file = opened(tmp_path / "run.jsonl")
        file.ended(ScriptResult(cases=(), forwards=Forwards(), unwritten=("one was not judged",)))
        file.close()
        assert [line["type"] for line in lines(tmp_path / "run.jsonl")] == ["run"]

    def test_a_disk_that_is_full_is_told(self) -> None:
        with pytest.raises(UsageError, match=r"^/dev/full: cannot be written: No space left on device\n"):
            opened(Path("/dev/full"))
