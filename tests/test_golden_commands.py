from __future__ import annotations

import re
from pathlib import Path

import pytest

from candidates import adopt, propose
from evseq.cli import main
from evseq.golden.candidate import Change
from evseq.golden.ledger import Ledger
from evseq.golden.root import Root
from evseq.golden.terms import Limits, Relation
from evseq.verdict.result import Exit

MOVED = (1, 1, 1.5)
SCRIPT = "evseq: 1\nname: crop\nabout: x\nrows: {a: [4, 2]}\nevents:\n  - prefill: [a]\n"
TRAVEL = "and nothing else: golden changes travel alone"
Told = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Root:
    """Work in a project with one script."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crop.evseq.yaml").write_text(SCRIPT)
    return Root(folder=Path("goldens"))


class TestHelp:
    @pytest.mark.parametrize("command", ["status", "diff", "review", "accept", "reject", "prune", "compare"])
    def test_every_command_shows_an_example_and_the_exit_codes(self, command: str, capsys: Told) -> None:
        assert main(["golden", command, "--help"]) == Exit.PASSED
        told = capsys.readouterr().out
        assert re.search(rf"^  Examples:\n    evseq golden {command}", told, re.MULTILINE)
        assert "    4  wrong usage, or an error in a script\n" in told

    def test_no_line_of_the_summary_is_cut(self, capsys: Told) -> None:
        assert main(["golden", "--help"]) == Exit.PASSED
        assert re.findall(r"^  [a-z]+  .*\.\.\.$", capsys.readouterr().out, re.MULTILINE) == []


class TestStatus:
    def test_all_in_order(self, root: Root, capsys: Told) -> None:
        adopt(root)
        assert main(["golden", "status"]) == Exit.PASSED
        assert capsys.readouterr().out == (
            "model  revision  accepted  new  changed  format only  witnesses\n"
            "small  v1               1    0        0            0          0\n"
            f"{root.folder}: all in order\n"
        )

    def test_a_candidate_is_a_problem(self, root: Root, capsys: Told) -> None:
        adopt(root)
        propose(root, MOVED, change=Change.CHANGED)
        assert main(["golden", "status"]) == Exit.FAILED
        assert capsys.readouterr().out.splitlines()[1:] == [
            "small  v1               1    0        1            0          0",
            (
                f"{root.folder}/small/v1/crop.candidate.safetensors: a candidate (changed) waits: review it, then "
                "`evseq golden accept` or `reject`"
            ),
            "1 problem",
        ]

    def test_scripts_of_the_shipped_suite_are_used(self, root: Root) -> None:
        adopt(root, at="small/v1/reload-continues")
        assert main(["golden", "status"]) == Exit.PASSED

    def test_another_folder_is_named(self, root: Root, tmp_path: Path, capsys: Told) -> None:
        adopt(root, at="small/v1/gone")
        (tmp_path / "other").mkdir()
        assert main(["golden", "status", "--goldens", "other"]) == Exit.PASSED
        assert capsys.readouterr().out == "other: all in order\n"

    def test_a_folder_that_is_not_there_is_not_in_order(self, root: Root, capsys: Told) -> None:
        adopt(root)
        assert main(["golden", "status", "--goldens", "other"]) == Exit.NOTHING
        assert capsys.readouterr().out == (
            "other: no such folder, so no goldens\n  help: evseq qualify --update-goldens, or --goldens\n"
        )


class TestDiff:
    def test_candidates_are_told_in_brief(self, root: Root, capsys: Told) -> None:
        adopt(root)
        propose(root, MOVED, change=Change.CHANGED)
        propose(root, at="small/v1/fork")
        assert main(["golden", "diff"]) == Exit.FAILED
        assert capsys.readouterr().out == (
            "small/v1/crop: changed: 1 of 3 histories moved, at most 500 allowances; KL 0.031\n"
            "  crop.evseq.yaml:8:5: prefill: 1 of 2 histories moved, at most 500 allowances: "
            "row 'a' index 1: logit 1 is 1.5, accepted 2: off by 0.5, allowed 0.001\n"
            "small/v1/fork: new: 3 histories\n"
            "2 candidates\n"
            "  help: evseq golden review\n"
        )

    def test_no_candidates(self, root: Root, capsys: Told) -> None:
        assert main(["golden", "diff"]) == Exit.PASSED
        assert capsys.readouterr().out == f"{root.folder}: no candidates\n  help: evseq qualify --update-goldens\n"

    def test_patterns_choose(self, root: Root, capsys: Told) -> None:
        propose(root)
        propose(root, at="small/v2/fork")
        assert main(["golden", "diff", "f*", "--model", "small", "--revision", "v2"]) == Exit.FAILED
        assert capsys.readouterr().out.startswith("small/v2/fork: new: 3 histories\n1 candidate\n")

    def test_a_pattern_that_chooses_nothing_is_refused(self, root: Root, capsys: Told) -> None:
        propose(root)
        assert main(["golden", "diff", "corp"]) == Exit.USAGE
        assert capsys.readouterr() == ("", "no candidate of script 'corp'\n  help: did you mean 'crop'?\n")

    def test_a_parent_is_compared_with(self, root: Root, capsys: Told) -> None:
        adopt(root)
        propose(root, MOVED, at="small/v2/crop")
        assert main(["golden", "diff", "--parent", "v1"]) == Exit.FAILED
        assert capsys.readouterr().out.startswith("small/v2/crop: new: 1 of 3 histories moved, ")

    @pytest.mark.parametrize("command", ["diff", "review"])
    def test_a_parent_that_was_never_accepted_is_refused_before_anything_is_told(
        self, root: Root, command: str, capsys: Told
    ) -> None:
        adopt(root)
        propose(root, MOVED, at="small/v2/crop")
        propose(root, MOVED, at="tiny/v2/crop")
        assert main(["golden", command, "--parent", "v1"]) == Exit.USAGE
        assert capsys.readouterr() == (
            "",
            f"{root.ledger('tiny')}: no revision 'v1' was accepted\n  help: there are no revisions\n",
        )


class TestReview:
    def test_without_a_terminal_all_are_told(self, root: Root, capsys: Told) -> None:
        propose(root)
        propose(root, at="small/v1/fork")
        assert main(["golden", "review"]) == Exit.PASSED
        told = capsys.readouterr().out
        assert told.startswith("small/v1/crop: new\n  made 2026-03-01 09:30 UTC")
        assert "\n\nsmall/v1/fork: new\n" in told
        assert told.endswith("\n\n2 candidates\n  help: evseq golden accept --reason TEXT, or reject\n")
        assert len(list(root.candidates())) == 2

    def test_one_that_cannot_be_read_does_not_hide_the_others(self, root: Root, capsys: Told) -> None:
        root.sidecar(propose(root)).unlink()
        propose(root, at="small/v1/fork")
        assert main(["golden", "review"]) == Exit.FAILED
        told = capsys.readouterr().out
        assert told.startswith(f"small/v1/crop: cannot be reviewed\n{root.folder}/small/v1/crop.candidate.json: ")
        assert "\n\nsmall/v1/fork: new\n" in told

    def test_no_candidates(self, root: Root, capsys: Told) -> None:
        assert main(["golden", "review"]) == Exit.PASSED
        assert capsys.readouterr().out.startswith(f"{root.folder}: no candidates\n")


class TestAccept:
    def test_candidates_become_goldens(self, root: Root, capsys: Told) -> None:
        place = propose(root)
        assert main(["golden", "accept", "--reason", "weights of June"]) == Exit.PASSED
        assert capsys.readouterr().out == f"small/v1/crop: accepted\n  help: commit {root.folder} {TRAVEL}\n"
        assert (list(root.goldens()), list(root.candidates())) == ([place], [])

    def test_only_what_is_chosen(self, root: Root) -> None:
        propose(root)
        fork = propose(root, at="small/v1/fork")
        assert main(["golden", "accept", "cr*", "--reason", "x"]) == Exit.PASSED
        assert list(root.candidates()) == [fork]

    def test_a_name_that_was_accepted_by_a_call_that_was_killed_is_passed_over(self, root: Root, capsys: Told) -> None:
        adopt(root)
        fork = propose(root, at="small/v1/fork")
        assert main(["golden", "accept", "crop", "fork", "--reason", "x"]) == Exit.PASSED
        assert capsys.readouterr().out.startswith("crop: accepted already\nsmall/v1/fork: accepted\n")
        assert fork in root.goldens()

    def test_where_all_that_is_named_was_accepted_nothing_else_is(self, root: Root, capsys: Told) -> None:
        adopt(root)
        fork = propose(root, at="small/v1/fork")
        assert main(["golden", "accept", "crop", "--reason", "x"]) == Exit.PASSED
        assert capsys.readouterr().out == "crop: accepted already\n"
        assert list(root.candidates()) == [fork]

    def test_no_reason_is_refused(self, root: Root, capsys: Told) -> None:
        propose(root)
        assert main(["golden", "accept"]) == Exit.USAGE
        assert capsys.readouterr().err == (
            'no reason given\n  help: tell the ledger why these logits are right now: --reason "..."\n'
        )

    def test_ci_is_refused(self, root: Root, monkeypatch: pytest.MonkeyPatch, capsys: Told) -> None:
        monkeypatch.setenv("CI", "true")
        propose(root)
        assert main(["golden", "accept", "--reason", "x"]) == Exit.USAGE
        assert capsys.readouterr().err.startswith("CI is 'true' here: goldens are accepted by a person\n")

    def test_a_relation_is_written_down(self, root: Root) -> None:
        adopt(root)
        propose(root, MOVED, at="small/v2/crop")
        limits = ["--max-kl", "0.1", "--max-flips", "0", "--flip-margin", "0.5"]
        arguments = ["--reason", "8 bits", "--parent", "v1", "--relation", "approximated", *limits]
        assert main(["golden", "accept", *arguments]) == Exit.PASSED
        entry = Ledger.read(root.ledger("small")).entries[-1]
        assert (entry.parent, entry.relation) == ("v1", Relation.APPROXIMATED)
        assert entry.limits == Limits(max_kl=0.1, max_flips=0, margin=0.5)

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (
                ["--max-kl", "1"],
                "limits, but of no approximation\n  help: leave them out, or say --relation approximated\n",
            ),
            (
                ["--relation", "approximated", "--max-kl", "1"],
                "--relation approximated: no --max-flips, --flip-margin\n  help: say all three limits\n",
            ),
            (
                ["--relation", "approximated", "--max-kl", "inf", "--max-flips", "0", "--flip-margin", "0"],
                "--max-kl inf: is no limit\n  help: write a finite number from 0\n",
            ),
            (
                ["--relation", "approximated", "--max-kl", "1", "--max-flips", "0", "--flip-margin", "nan"],
                "--flip-margin nan: is no limit\n  help: write a finite number from 0\n",
            ),
            (
                ["--relation", "approximated", "--max-kl", "1", "--max-flips", "-1", "--flip-margin", "0"],
                "--max-flips -1: is no limit\n  help: write a finite number from 0\n",
            ),
        ],
    )
    def test_limits_are_those_of_an_approximation(
        self, root: Root, arguments: list[str], told: str, capsys: Told
    ) -> None:
        propose(root)
        assert main(["golden", "accept", "--reason", "x", "--parent", "v0", *arguments]) == Exit.USAGE
        assert capsys.readouterr() == ("", told)

    def test_a_candidate_of_few_cases_says_so(self, root: Root, capsys: Told) -> None:
        propose(root, of=6)
        main(["golden", "diff"])
        assert main(["golden", "accept", "--reason", "x"]) == Exit.PASSED
        assert capsys.readouterr().out.splitlines()[::3] == [
            "small/v1/crop: new: 3 histories; judged in 2 of 6 cases",
            "small/v1/crop: accepted, judged in 2 of 6 cases",
        ]


class TestReject:
    def test_candidates_are_removed(self, root: Root, capsys: Told) -> None:
        propose(root)
        fork = propose(root, at="small/v1/fork")
        assert main(["golden", "reject", "crop"]) == Exit.PASSED
        assert capsys.readouterr().out == "small/v1/crop: rejected\n"
        assert list(root.candidates()) == [fork]


class TestPrune:
    def test_nothing_is_unused(self, root: Root, capsys: Told) -> None:
        adopt(root)
        assert main(["golden", "prune"]) == Exit.PASSED
        assert capsys.readouterr().out == f"{root.folder}: no golden is unused\n"

    def test_it_deletes_nothing_unasked(self, root: Root, capsys: Told) -> None:
        place = adopt(root, at="small/v1/gone")
        assert main(["golden", "prune"]) == Exit.PASSED
        assert capsys.readouterr().out == (
            "small/v1/gone: would be deleted\n  help: evseq golden prune --delete --reason TEXT\n"
        )
        assert list(root.goldens()) == [place]

    def test_it_deletes_for_a_reason(self, root: Root, capsys: Told) -> None:
        adopt(root, at="small/v1/gone")
        assert main(["golden", "prune", "--delete", "--reason", "now in crop"]) == Exit.PASSED
        assert capsys.readouterr().out == f"small/v1/gone: deleted\n  help: commit {root.folder} {TRAVEL}\n"
        assert list(root.goldens()) == []

    def test_no_reason_is_refused(self, root: Root, capsys: Told) -> None:
        adopt(root, at="small/v1/gone")
        assert main(["golden", "prune", "--delete"]) == Exit.USAGE
        assert capsys.readouterr().err.startswith("no reason given\n")


class TestCompare:
    def test_revisions_are_compared(self, root: Root, capsys: Told) -> None:
        adopt(root)
        adopt(root, MOVED, at="small/v2/crop")
        assert main(["golden", "compare", "v2", "--parent", "v1"]) == Exit.PASSED
        assert capsys.readouterr().out == (
            "small: v2 against v1\n"
            "  crop: 1 of 3 histories moved, at most 500 allowances; KL 0.031\n"
            "  worst of all: crop: 500 allowances: logit 1 is 1.5, accepted 2: off by 0.5, allowed 0.001\n"
            "  largest KL: crop: 0.031\n"
            "  next tokens changed: 0\n"
        )

    def test_a_relation_that_holds(self, root: Root, capsys: Told) -> None:
        adopt(root)
        adopt(root, at="small/v2/crop")
        assert main(["golden", "compare", "v2", "--parent", "v1", "--relation", "same"]) == Exit.PASSED
        assert capsys.readouterr().out.endswith("\nsmall: v2 is same\n")

    def test_a_relation_that_does_not(self, root: Root, capsys: Told) -> None:
        adopt(root)
        adopt(root, MOVED, at="small/v2/crop")
        assert main(["golden", "compare", "v2", "--parent", "v1", "--relation", "same"]) == Exit.FAILED
        assert capsys.readouterr().out.splitlines()[-3:] == [
            "small: v2 is not same",
            "  crop: row 1: logit 1 is 1.5, was 2: off by 0.5, allowed 0.001",
            "  help: mend how it was made, or name the --relation that it has",
        ]

    def test_nothing_in_common(self, root: Root, capsys: Told) -> None:
        adopt(root)
        adopt(root, at="small/v2/fork")
        assert main(["golden", "compare", "v2", "--parent", "v1"]) == Exit.FAILED
        assert capsys.readouterr().out.endswith("\n  no script has a golden at both\n")

    def test_a_revision_nobody_has(self, root: Root, capsys: Told) -> None:
        adopt(root, at="small/june/crop")
        assert main(["golden", "compare", "july", "--parent", "june"]) == Exit.USAGE
        assert capsys.readouterr().err.startswith(f"{root.folder}: no model has goldens of both 'july' and 'june'\n")
