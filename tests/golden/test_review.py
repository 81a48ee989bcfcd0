from __future__ import annotations

from pathlib import Path

import pytest

from candidates import adopt, failed, golden, propose
from evseq.errors import CacheError
from evseq.golden.candidate import Change, JudgedCase
from evseq.golden.golden import write
from evseq.golden.ledger import LedgerError
from evseq.golden.refusals import Refused
from evseq.golden.review import Token, review
from evseq.golden.root import Place, Root
from evseq.verdict.result import Outcome

MOVED = (1, 1, 1.5)
FLIPPED = (1, 1, 0.5)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(folder=tmp_path / "goldens")


class TestAgainst:
    def test_a_changed_one_is_compared_with_the_golden_of_its_name(self, root: Root) -> None:
        adopt(root, at="small/v0/crop")
        place = adopt(root)
        propose(root, MOVED, change=Change.CHANGED)
        assert review(root, place).against == place

    @pytest.mark.parametrize("change", Change)
    def test_what_is_compared_does_not_hang_on_what_the_candidate_says(self, root: Root, change: Change) -> None:
        adopt(root, at="small/v0/crop")
        place = adopt(root)
        propose(root, MOVED, change=change)
        assert review(root, place).against == place

    def test_a_golden_that_the_ledger_does_not_vouch_for_is_not_compared(self, root: Root) -> None:
        place = adopt(root)
        write(root.golden(place), golden(MOVED))
        propose(root, MOVED, change=Change.CHANGED)
        found = review(root, place)
        assert (found.against, found.drift) == (place, None)

    def test_a_golden_that_nobody_accepted_is_none(self, root: Root) -> None:
        place = propose(root, MOVED, change=Change.CHANGED)
        write(root.golden(place), golden())
        found = review(root, place)
        assert (found.against, found.drift) == (None, None)

    def test_a_new_one_is_compared_with_the_last_other_revision(self, root: Root) -> None:
        adopt(root, at="small/v1/crop")
        adopt(root, at="small/v2/crop")
        place = propose(root, at="small/v3/crop")
        assert review(root, place).against == Place(model="small", revision="v2", script="crop")

    def test_a_parent_that_is_named_goes_first(self, root: Root) -> None:
        adopt(root, at="small/v1/crop")
        adopt(root, at="small/v2/crop")
        propose(root, MOVED, at="small/v2/crop", change=Change.CHANGED)
        named = review(root, Place(model="small", revision="v2", script="crop"), parent="v1")
        assert named.against == Place(model="small", revision="v1", script="crop")

    def test_a_parent_that_was_never_accepted_is_refused(self, root: Root) -> None:
        adopt(root, at="small/v1/crop")
        place = propose(root, at="small/v2/crop")
        with pytest.raises(Refused, match=r"no revision 'v11' was accepted\n  help: did you mean 'v1'\?"):
            review(root, place, parent="v11")

    def test_a_parent_without_the_script_leaves_nothing_to_compare_with(self, root: Root) -> None:
        adopt(root, at="small/v1/other")
        found = review(root, propose(root, at="small/v2/crop"))
        assert (found.against, found.drift) == (None, None)

    def test_the_first_revision_has_nothing_to_compare_with(self, root: Root) -> None:
        found = review(root, propose(root))
        assert (found.against, found.drift) == (None, None)

    def test_half_a_candidate_is_an_error(self, root: Root) -> None:
        place = propose(root)
        root.sidecar(place).unlink()
        with pytest.raises(CacheError, match="its candidate cannot be reviewed"):
            review(root, place)

    def test_a_broken_ledger_is_an_error(self, root: Root) -> None:
        place = propose(root)
        root.ledger("small").write_text("- so it is\n")
        with pytest.raises(LedgerError):
            review(root, place)


class TestEvents:
    def test_histories_are_counted_once_however_many_rows_share_them(self, root: Root) -> None:
        prefill, append = review(root, propose(root)).events
        assert (prefill.event, prefill.histories) == ("prefill", 2)
        assert (append.event, append.histories) == ("append", 1)

    def test_only_the_event_that_feeds_what_moved_is_told(self, root: Root) -> None:
        place = adopt(root)
        propose(root, MOVED, change=Change.CHANGED)
        prefill, append = review(root, place).events
        assert (prefill.moved, append.moved) == (1, 0)
        assert prefill.worst is not None
        assert prefill.worst[0] == Token(row="a", index=1)
        assert prefill.worst[1].share == pytest.approx(500, rel=1e-3)
        assert append.worst is None

    def test_the_worst_of_an_event_is_its_own(self, root: Root) -> None:
        place = adopt(root)
        propose(root, (0, 0, 3.1), MOVED, (2, 3, 8.0), change=Change.CHANGED)
        prefill, append = review(root, place).events
        assert prefill.worst is not None
        assert append.worst is not None
        assert (prefill.moved, prefill.worst[0]) == (2, Token(row="a", index=1))
        assert append.worst[0] == Token(row="b", index=1)

    def test_a_next_token_that_changes_is_told_with_its_margin(self, root: Root) -> None:
        place = adopt(root)
        propose(root, FLIPPED, change=Change.CHANGED)
        prefill, append = review(root, place).events
        ((token, flip),) = prefill.flips
        assert (str(token), flip.before, flip.after, flip.margin) == ("row 'a' index 1", 1, 2, 1.0)
        assert append.flips == ()


class TestArms:
    def test_a_healthy_run_agrees(self, root: Root) -> None:
        for event in review(root, propose(root)).events:
            assert (len(event.agree), event.differ) == (2, ())

    def test_a_case_differs_at_the_event_where_a_check_found_something(self, root: Root) -> None:
        cases = (failed("left"), JudgedCase(id="right", outcome=Outcome.PASSED))
        prefill, append = review(root, propose(root, cases=cases)).events
        assert (prefill.agree, prefill.differ) == (("right",), ("crop[left][reference:full]",))
        assert (len(append.agree), append.differ) == (2, ())

    def test_an_unsupported_case_says_nothing(self, root: Root) -> None:
        cases = (JudgedCase(id="left", outcome=Outcome.UNSUPPORTED),)
        prefill, _ = review(root, propose(root, cases=cases)).events
        assert (prefill.agree, prefill.differ) == ((), ())
