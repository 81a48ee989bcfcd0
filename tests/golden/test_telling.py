from __future__ import annotations

from pathlib import Path

import pytest

from candidates import CASES, adopt, failed, propose
from evseq.golden.candidate import Change, JudgedCase, Use
from evseq.golden.compact import BLIND, Compact
from evseq.golden.comparison import between
from evseq.golden.review import review
from evseq.golden.root import Root
from evseq.golden.status import status
from evseq.golden.telling import brief, compared, table, whole
from evseq.verdict.result import Check, Outcome

FLIPPED = (1, 1, 0.5)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(folder=tmp_path / "goldens")


class TestWhole:
    def test_a_new_one(self, root: Root) -> None:
        assert whole(review(root, propose(root))) == (
            "small/v1/crop: new\n"
            "  made 2026-03-01 09:30 UTC by reference:full, at commit c0ffeec0ffee\n"
            "  with evseq 0.1.0, torch 2.13.0; on cpu, x86_64, AVX2\n"
            "  weights 3f3f3f3f3f3f\n"
            "  nothing accepted to compare it with\n"
            "  3 histories\n"
            "\n"
            "  crop.evseq.yaml:8:5: prefill: 2 histories\n"
            "    arms: all 2 cases agree\n"
            "\n"
            "  crop.evseq.yaml:9:5: append: 1 history\n"
            "    arms: all 2 cases agree\n"
            "\n"
            "  checks: none found anything in 2 cases"
        )

    def test_a_changed_one(self, root: Root) -> None:
        adopt(root)
        place = propose(root, FLIPPED, change=Change.CHANGED, cases=(failed("left"), CASES[1]))
        assert whole(review(root, place)).splitlines()[4:] == [
            "  compared with the accepted golden of its name",
            ("  1 of 3 histories moved, at most 1.5e+03 allowances; KL 0.27; next tokens changed: 1, by margins of 1"),
            "",
            "  crop.evseq.yaml:8:5: prefill: 1 of 2 histories moved, at most 1.5e+03 allowances",
            "    worst: row 'a' index 1: logit 1 is 0.5, accepted 2: off by 1.5, allowed 0.001",
            "    next token: row 'a' index 1: 2, accepted 1 by a margin of 1",
            "    arms: 1 of 2 cases agree: crop[right][reference:full]",
            "    arms: 1 do not: crop[left][reference:full]",
            "",
            "  crop.evseq.yaml:9:5: append: 0 of 1 histories moved",
            "    arms: all 2 cases agree",
            "",
            (
                "  check parity found something in 1 of 2 cases, first crop[left][reference:full]: "
                "crop.evseq.yaml:8:5: event: parity: off"
            ),
        ]

    def test_a_new_revision_names_the_one_before(self, root: Root) -> None:
        adopt(root, at="small/v1/crop")
        told = whole(review(root, propose(root, at="small/v2/crop")))
        assert "\n  compared with revision v1\n  0 of 3 histories moved, at most 0 allowances; KL 0\n" in told

    def test_a_golden_that_is_not_the_accepted_one_is_told(self, root: Root) -> None:
        place = adopt(root)
        root.golden(place).unlink()
        told = whole(review(root, propose(root, (0, 1, 2.5), change=Change.CHANGED)))
        assert "\n  not compared: the golden of small/v1/crop is not the one that was accepted\n  3 hist" in told

    def test_a_new_form(self, root: Root) -> None:
        adopt(root)
        place = propose(root, form=Compact, change=Change.FORMAT)
        assert f"; KL at least 0; only the file's form changes\n  {BLIND}\n" in whole(review(root, place))

    def test_what_cannot_be_accepted_is_told(self, root: Root) -> None:
        files = tuple(f"{letter}.py" for letter in "abcdefgh")
        place = propose(root, commit=None, unclean=files, finite=False, repeats=False)
        told = whole(review(root, place)).splitlines()
        assert told[1] == "  made 2026-03-01 09:30 UTC by reference:full, in no repository"
        assert told[2] == "  uncommitted then: a.py, b.py, c.py, d.py, e.py, f.py and 2 more"
        assert told[5] == "  not finite: some logits are no numbers"
        assert told[6] == "  not repeated: the same truth computed twice had other bits"

    def test_arms_that_did_not_run(self, root: Root) -> None:
        place = propose(root, cases=(JudgedCase(id="crop[left]", outcome=Outcome.UNSUPPORTED),))
        assert "prefill: 2 histories\n    arms: none ran\n" in whole(review(root, place))

    def test_many_next_tokens_are_counted(self, root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("evseq.golden.telling.NAMED", 1)
        adopt(root)
        uses = (Use(event="prefill", place="crop.evseq.yaml:8:5", rows=(("a", 0, 0), ("a", 1, 1))),)
        place = propose(root, (0, 1, 9.0), FLIPPED, change=Change.CHANGED, uses=uses)
        assert "\n    next token: another in 1 history more\n" in whole(review(root, place))


class TestBrief:
    def test_each_event_that_moved_has_a_line(self, root: Root) -> None:
        adopt(root)
        place = propose(root, (1, 1, 1.5), change=Change.CHANGED)
        assert brief(review(root, place)) == (
            "small/v1/crop: changed: 1 of 3 histories moved, at most 500 allowances; KL 0.031\n"
            "  crop.evseq.yaml:8:5: prefill: 1 of 2 histories moved, at most 500 allowances: "
            "row 'a' index 1: logit 1 is 1.5, accepted 2: off by 0.5, allowed 0.001"
        )

    def test_each_check_that_found_something_has_one(self, root: Root) -> None:
        cases = (failed("left"), failed("right", check=Check.ACCOUNTING), CASES[1])
        assert brief(review(root, propose(root, cases=cases))) == (
            "small/v1/crop: new: 3 histories\n"
            "  check parity found something in 1 of 3 cases\n"
            "  check accounting found something in 1 of 3 cases"
        )

    def test_what_did_not_move_has_none(self, root: Root) -> None:
        assert brief(review(root, propose(root))) == "small/v1/crop: new: 3 histories"


class TestCompared:
    def test_scripts_then_the_worst_of_all(self, root: Root) -> None:
        adopt(root, at="small/v1/crop")
        adopt(root, at="small/v1/gone")
        adopt(root, FLIPPED, at="small/v2/crop")
        adopt(root, at="small/v2/added")
        (comparison,) = between(root, "v2", "v1")
        assert compared(comparison) == [
            "small: v2 against v1",
            (
                "  crop: 1 of 3 histories moved, at most 1.5e+03 allowances; KL 0.27; "
                "next tokens changed: 1, by margins of 1"
            ),
            "  only at v2: added",
            "  only at v1: gone",
            "  worst of all: crop: 1.5e+03 allowances: logit 1 is 0.5, accepted 2: off by 1.5, allowed 0.001",
            "  largest KL: crop: 0.27",
            "  next tokens changed: 1, at most by a margin of 1, in crop",
        ]

    def test_nothing_in_common(self, root: Root) -> None:
        adopt(root, at="small/v1/gone")
        adopt(root, at="small/v2/added")
        (comparison,) = between(root, "v2", "v1")
        assert compared(comparison)[-1] == "  no script has a golden at both"


class TestTable:
    def test_a_line_for_each_revision(self, root: Root) -> None:
        adopt(root, at="small/v1/crop")
        propose(root, FLIPPED, at="small/v1/crop", change=Change.CHANGED)
        propose(root, at="small/v2-long/crop")
        root.witness("small", "v1").mkdir()
        (root.witness("small", "v1") / "cpu-float32.json").touch()
        assert table(status(root, scripts={"crop"})) == [
            "model  revision  accepted  new  changed  format only  witnesses",
            "small  v1               1    0        1            0          1",
            "small  v2-long          0    1        0            0          0",
        ]

    def test_there_is_none_of_nothing(self, root: Root) -> None:
        assert table(status(root, scripts=set())) == []
