from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from evseq.cache.damage import NotWritable
from evseq.golden.acceptance import accept
from evseq.golden.candidate import Candidate, Change
from evseq.golden.choice import chosen
from evseq.golden.golden import Golden
from evseq.golden.ledger import Action, Ledger, LedgerError, append
from evseq.golden.reader import Reader
from evseq.golden.refusals import Refused
from evseq.golden.root import Place, Root
from evseq.golden.status import Status, prune, status

Make = Callable[..., Candidate]

TODAY = dt.date(2026, 3, 2)

ONE = Place(model="small", revision="v1", script="one")
TWO = Place(model="small", revision="v1", script="two")


def adopt(root: Root) -> None:
    accept(root, chosen(root), reason="why", environment={}, today=TODAY)


def problems(root: Root, *scripts: str) -> tuple[str, ...]:
    """Return what is not in order, a line each."""
    return tuple(f"{path}: {told}" for path, told in status(root, scripts=scripts or ("one", "two")).problems)


@pytest.fixture
def tidy(root: Root, make_candidate: Make) -> Root:
    """Return a folder with two accepted goldens, a witness, and files that are nobody's business."""
    make_candidate(root)
    make_candidate(root, "small/v1/two")
    adopt(root)
    root.witness("small", "v1").mkdir()
    (root.witness("small", "v1") / "cpu.json").touch()
    (root.folder / "README.md").touch()
    (root.folder / "small" / ".DS_Store").touch()
    return root


class TestStatus:
    def test_a_tidy_folder_has_no_problem(self, tidy: Root) -> None:
        found = status(tidy, scripts={"one", "two", "three"})
        assert (found.accepted, found.problems) == ((ONE, TWO), ())

    def test_a_folder_that_is_not_there_is_tidy(self, root: Root) -> None:
        found = status(root, scripts=())
        assert (found.accepted, found.problems) == ((), ())

    def test_a_file_the_ledger_does_not_know(self, tidy: Root) -> None:
        tidy.golden(ONE).write_bytes(tidy.golden(TWO).read_bytes())
        assert status(tidy, scripts=("one", "two")).unvouched == (ONE,)
        assert problems(tidy) == (
            (
                f"{tidy.golden(ONE)}: is not the file that {tidy.ledger('small')} says was accepted: take it from "
                "version control, or accept its candidate"
            ),
        )

    def test_lines_cut_off_the_end_of_the_ledger(self, tidy: Root, make_candidate: Make) -> None:
        text = tidy.ledger("small").read_bytes()
        make_candidate(tidy, "small/v2/one")
        adopt(tidy)
        tidy.ledger("small").write_bytes(text)
        assert status(tidy, scripts=("one", "two")).unvouched == (Place(model="small", revision="v2", script="one"),)

    def test_a_ledger_that_is_gone(self, tidy: Root) -> None:
        tidy.ledger("small").unlink()
        assert status(tidy, scripts=("one", "two")).unvouched == (ONE, TWO)

    def test_a_file_that_is_gone(self, tidy: Root) -> None:
        tidy.golden(TWO).unlink()
        assert status(tidy, scripts=("one", "two")).missing == (TWO,)
        assert problems(tidy) == (
            (
                f"{tidy.golden(TWO)}: {tidy.ledger('small')} says it was accepted, but it is not there: take it from "
                "version control, or make it again with --update-goldens"
            ),
        )

    def test_a_script_that_is_gone(self, tidy: Root) -> None:
        assert status(tidy, scripts=("one",)).unused == (TWO,)
        assert problems(tidy, "one") == (
            f"{tidy.golden(TWO)}: unused, no script is called 'two': `evseq golden prune` removes it",
        )

    def test_another_revision_of_a_script_is_not_unused(self, tidy: Root, make_candidate: Make) -> None:
        make_candidate(tidy, "small/v0/one")
        adopt(tidy)
        assert problems(tidy) == ()

    def test_a_golden_that_is_damaged(self, tidy: Root) -> None:
        tidy.golden(ONE).write_bytes(tidy.golden(ONE).read_bytes()[:-1])
        found = status(tidy, scripts=("one", "two"))
        assert (found.accepted, found.problems) == ((TWO,), found.damaged)
        assert len(found.damaged) == 1
        assert found.damaged[0][0] == str(tidy.golden(ONE))
        assert found.damaged[0][1].endswith(": the copy was cut short: copy the file again, or write it again")

    def test_a_candidate_left_over(self, tidy: Root, make_candidate: Make) -> None:
        make_candidate(tidy, change=Change.FORMAT)
        assert status(tidy, scripts=("one", "two")).candidates == ((ONE, Change.FORMAT),)
        assert problems(tidy) == (
            (
                f"{tidy.candidate(ONE)}: a candidate (format only) waits: review it, then `evseq golden accept` or "
                "`reject`"
            ),
        )

    @pytest.mark.parametrize("half", [Root.candidate, Root.sidecar])
    def test_half_a_candidate(
        self, tidy: Root, make_candidate: Make, make_golden: Callable[..., Golden], half: Callable[[Root, Place], Path]
    ) -> None:
        make_candidate(tidy, golden=make_golden(by=1.0))
        half(tidy, ONE).unlink()
        assert problems(tidy) == (
            (
                f"{tidy.candidate(ONE)}: half a candidate, it or its .json is lost: make it again with "
                "--update-goldens, or `evseq golden reject` removes it"
            ),
        )

    def test_a_candidate_that_is_damaged(self, tidy: Root, make_candidate: Make) -> None:
        make_candidate(tidy)
        tidy.sidecar(ONE).write_text("{}")
        (line,) = problems(tidy)
        assert line.startswith(f"{tidy.sidecar(ONE)}: not what a candidate says: ")

    def test_a_broken_ledger(self, tidy: Root) -> None:
        ledger = tidy.ledger("small")
        ledger.write_text(ledger.read_text().replace("reason: why", "reason: because"))
        found = status(tidy, scripts=("one", "two"))
        assert (found.accepted, found.unvouched, found.problems) == ((), (), found.ledgers)
        assert len(found.ledgers) == 1
        path, told = found.ledgers[0]
        assert path == f"{ledger}:2"
        assert told.startswith("revision 'v1' of 2026-03-02: a line of this entry was edited")
        assert "\n" not in told

    @pytest.mark.parametrize("name", ["one.safetensors", "v1/notes.txt", "v1/deep/one.safetensors", "v1/x.candidate"])
    def test_a_stray_file(self, tidy: Root, name: str) -> None:
        path = tidy.folder / "small" / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        assert problems(tidy) == (f"{path}: nothing that belongs among goldens: move it elsewhere",)


class TestPrune:
    def ask(self, root: Root, places: tuple[Place, ...] | None = None, **says: Any) -> tuple[Place, ...]:
        usual: dict[str, Any] = {"scripts": ("one",), "reason": "renamed", "environment": {}, "today": TODAY}
        return prune(root, places, **(usual | says))

    def test_it_only_tells_unless_it_is_to_delete(self, tidy: Root) -> None:
        ledger = tidy.ledger("small").read_bytes()
        assert self.ask(tidy, reason="", environment={"CI": "1"}) == (TWO,)
        assert (tidy.golden(TWO).exists(), tidy.ledger("small").read_bytes()) == (True, ledger)

    def test_what_it_deletes_stands_in_the_ledger(self, tidy: Root) -> None:
        gone = self.ask(tidy, delete=True)

        entry = Ledger.read(tidy.ledger("small")).entries[-1]
        assert (gone, tidy.golden(TWO).exists(), tidy.golden(ONE).exists()) == ((TWO,), False, True)
        assert (entry.action, entry.reason, entry.scripts) == (Action.PRUNED, "renamed", {"two": None})
        assert (entry.revision, entry.weights, entry.date) == ("v1", "3f" * 32, TODAY)
        assert problems(tidy, "one") == ()

    def test_what_was_deleted_by_hand_is_told_to_the_ledger(self, tidy: Root) -> None:
        tidy.golden(TWO).unlink()
        assert self.ask(tidy, delete=True) == (TWO,)
        assert problems(tidy, "one") == ()

    def test_nothing_unused_is_nothing_to_tell(self, tidy: Root) -> None:
        ledger = tidy.ledger("small").read_bytes()
        assert self.ask(tidy, scripts=("one", "two"), delete=True) == ()
        assert tidy.ledger("small").read_bytes() == ledger

    def test_only_the_places_named(self, tidy: Root) -> None:
        assert self.ask(tidy, (ONE,), scripts=(), delete=True) == (ONE,)
        assert (tidy.golden(ONE).exists(), tidy.golden(TWO).exists()) == (False, True)

    def test_what_is_used_stays(self, tidy: Root) -> None:
        with pytest.raises(Refused) as caught:
            self.ask(tidy, (ONE,), delete=True)
        assert str(caught.value) == f"{tidy.golden(ONE)}: is not unused\n  help: did you mean 'small/v1/two'?"
        assert tidy.golden(ONE).exists()

    @pytest.mark.parametrize(
        ("says", "found"), [({"reason": " "}, "no reason given"), ({"environment": {"CI": "1"}}, "CI is '1' here")]
    )
    def test_a_person_says_why(self, tidy: Root, says: dict[str, Any], found: str) -> None:
        with pytest.raises(Refused, match=found):
            self.ask(tidy, delete=True, **says)
        assert tidy.golden(TWO).exists()

    def test_it_travels_alone(self, tidy: Root, git: Callable[..., str], tmp_path: Path) -> None:
        (tmp_path / "other.py").touch()
        git("add", "other.py")
        with pytest.raises(Refused, match=r"have uncommitted changes: other\.py: golden changes travel alone"):
            self.ask(tidy, delete=True)
        assert tidy.golden(TWO).exists()

    def test_what_is_unused_is_read_while_the_folder_is_held(self, tidy: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        held: list[bool] = []

        def watched(root: Root, *, scripts: Collection[str]) -> Status:
            held.append((root.folder / ".evseq-lock.tmp").exists())
            return status(root, scripts=scripts)

        monkeypatch.setattr("evseq.golden.status.status", watched)
        self.ask(tidy, delete=True)
        assert held == [True]

    def test_where_there_is_no_folder_nothing_is_deleted(self, root: Root) -> None:
        assert self.ask(root, delete=True) == ()

    def test_a_broken_ledger_keeps_everything(self, tidy: Root) -> None:
        tidy.ledger("small").write_text("a: 1\n")
        with pytest.raises(LedgerError):
            self.ask(tidy, delete=True)
        assert tidy.golden(TWO).exists()

    def test_what_cannot_be_removed_is_told_and_stays_in_the_ledger(self, tidy: Root) -> None:
        tidy.golden(TWO).unlink()
        tidy.golden(TWO).mkdir()
        with pytest.raises(NotWritable, match=r"two.safetensors: cannot be removed: "):
            self.ask(tidy, delete=True)
        assert Ledger.read(tidy.ledger("small")).seal("v1", "two")


class TestStopped:
    """An acceptance that stopped after its entry: the golden still lies where the candidate was."""

    @pytest.fixture
    def stopped(self, tidy: Root, make_candidate: Make, make_golden: Callable[..., Golden]) -> Root:
        candidate = make_candidate(tidy, golden=make_golden(by=1.0))
        before = Ledger.read(tidy.ledger("small")).entries[-1]
        entry = before.model_copy(update={"scripts": {"one": candidate.seal}, "entry": ""})
        append(tidy.ledger("small"), entry)
        return tidy

    def test_it_is_told_with_what_finishes_it(self, stopped: Root) -> None:
        assert problems(stopped) == (
            (
                f"{stopped.candidate(ONE)}: was accepted, and that stopped before its files had moved: `evseq golden "
                "accept` finishes it"
            ),
        )

    def test_the_accepted_one_is_read_where_it_lies(self, stopped: Root) -> None:
        seal = Ledger.read(stopped.ledger("small")).seal("v1", "one")

        assert Reader().read(stopped, ONE, seal).seal == seal

    def test_accepting_finishes_it_without_another_entry(self, stopped: Root) -> None:
        accept(stopped, [ONE], reason="the same", environment={}, today=dt.date(2026, 3, 2))

        assert problems(stopped) == ()


def test_what_a_link_leads_to_elsewhere_is_told_and_not_read(tidy: Root, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tidy.folder / "other").symlink_to(tmp_path / "elsewhere")

    assert problems(tidy) == (
        (
            f"{tidy.folder}/other: a link to {tmp_path}/elsewhere, out of {tidy.folder}, is not followed: put the file "
            "itself there instead of a link"
        ),
    )
