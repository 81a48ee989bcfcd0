"""What acceptance does; test_refusals.py has what it refuses."""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evseq.cache.damage import NotWritable
from evseq.golden.acceptance import accept, reject
from evseq.golden.candidate import Candidate
from evseq.golden.choice import chosen
from evseq.golden.golden import Golden, read
from evseq.golden.ledger import Action, Entry, Figures, Ledger
from evseq.golden.root import Place, Root
from evseq.golden.terms import Limits, Relation

Make = Callable[..., Candidate]

ACCEPT = """
import datetime, os, signal, sys
from pathlib import Path
from evseq.golden.acceptance import accept
from evseq.golden.choice import chosen
from evseq.golden.root import Root

def killing(last, function):
    def called(path, *arguments, **named):
        if last in [Path(one).name for one in (path, *arguments)]:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(path, *arguments, **named)
    return called

for job in sys.argv[1:]:
    if os.fork() == 0:
        folder, revision, last = job.split(",")
        root = Root(folder=Path(folder))
        Path.replace, Path.unlink = killing(last, Path.replace), killing(last, Path.unlink)
        accept(root, chosen(root, revision=revision), reason="why", environment={}, today=datetime.date(2026, 3, 2))
        os._exit(0)
print([os.waitstatus_to_exitcode(os.wait()[1]) for _ in sys.argv[1:]])
"""
"""Accepts a revision in a process for each `FOLDER,REVISION,NAME`, killed before a file NAME gets or loses it."""


def accepting(*jobs: str) -> str:
    """Return how all these processes ended."""
    done = subprocess.run([sys.executable, "-c", ACCEPT, *jobs], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def adopt(root: Root, *places: str, **says: Any) -> tuple[Entry, ...]:
    usual: dict[str, Any] = {"reason": "why", "environment": {}, "today": dt.date(2026, 3, 2)}
    return accept(root, [place(text) for text in places or ("small/v1/one",)], **(usual | says))


def place(text: str) -> Place:
    model, revision, script = text.split("/")
    return Place(model=model, revision=revision, script=script)


def names(root: Root) -> list[str]:
    return sorted(str(path.relative_to(root.folder)) for path in root.folder.rglob("*") if path.is_file())


def state(root: Root) -> tuple[int, str | None, str]:
    """Return how many entries there are, the seal accepted last, and that of the golden which is there."""
    ledger = Ledger.read(root.ledger("small"))
    return len(ledger.entries), ledger.seal("v1", "one"), read(root.golden(place("small/v1/one"))).seal


class TestAccept:
    def test_a_candidate_becomes_the_golden_and_the_ledger_says_why(self, root: Root, make_candidate: Make) -> None:
        candidate = make_candidate(root)

        entries = adopt(root, reason="  first release\n")

        assert names(root) == ["small/LEDGER.yaml", "small/v1/one.safetensors"]
        assert read(root.golden(place("small/v1/one"))).seal == candidate.seal
        assert Ledger.read(root.ledger("small")).entries == entries
        assert entries == (
            Entry(
                revision="v1",
                date=dt.date(2026, 3, 2),
                reason="first release",
                action=Action.ACCEPTED,
                weights="3f" * 32,
                scripts={"one": candidate.seal},
                commit="c0ffee",
                libraries={"evseq": "0.1.0", "torch": "2.13.0"},
                processor="cpu",
                entry=entries[0].entry,
            ),
        )

    def test_scripts_of_one_revision_and_origin_share_an_entry(self, root: Root, make_candidate: Make) -> None:
        places = ["small/v1/one", "small/v1/two", "small/v2/one", "other/v1/one"]
        for one in places:
            make_candidate(root, one)
        make_candidate(root, "small/v1/three", processor="cuda")

        entries = adopt(root, *places, "small/v1/three")

        said = [(entry.revision, entry.processor, list(entry.scripts)) for entry in entries]
        assert said == [
            ("v1", "cpu", ["one"]),
            ("v1", "cpu", ["one", "two"]),
            ("v1", "cuda", ["three"]),
            ("v2", "cpu", ["one"]),
        ]
        assert not [name for name in names(root) if "candidate" in name]

    def test_candidates_that_are_not_named_stay(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root)
        make_candidate(root, "small/v1/two")
        adopt(root)
        assert list(root.candidates()) == [place("small/v1/two")]

    def test_a_golden_that_is_there_again_gets_no_second_entry(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root)
        adopt(root)
        root.golden(place("small/v1/one")).unlink()
        make_candidate(root)
        assert adopt(root) == ()
        assert names(root) == ["small/LEDGER.yaml", "small/v1/one.safetensors"]

    def test_a_name_that_cannot_be_taken_is_told(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root)
        root.golden(place("small/v1/one")).mkdir()
        with pytest.raises(NotWritable, match=r"one.safetensors: cannot be written: Is a directory"):
            adopt(root)
        assert root.candidate(place("small/v1/one")).exists()


class TestDrift:
    @pytest.fixture(autouse=True)
    def _v1(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root)
        adopt(root)

    def test_a_changed_golden_is_compared_with_the_one_it_replaces(
        self, root: Root, make_candidate: Make, make_golden: Callable[..., Golden]
    ) -> None:
        make_candidate(root, golden=make_golden(by=5e-5))
        (entry,) = adopt(root)
        assert entry.drift
        assert (entry.parent, round(entry.drift["one"].share / 50)) == (None, 1)

    def test_figures_are_short(self, root: Root, make_candidate: Make, make_golden: Callable[..., Golden]) -> None:
        make_candidate(root, golden=make_golden(seed=1))
        (entry,) = adopt(root)
        assert entry.drift
        assert (moved := entry.drift["one"]).share > 1e5
        assert (moved.share, moved.kl) == (float(f"{moved.share:.2e}"), float(f"{moved.kl:.2e}"))

    def test_a_new_revision_is_compared_with_the_last_one_accepted(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root, "small/v2/one")
        (entry,) = adopt(root, "small/v2/one")
        assert (entry.parent, entry.drift) == ("v1", {"one": Figures(share=0, kl=0, flips=0)})

    def test_a_parent_that_is_named_comes_before_the_last_one(
        self, root: Root, make_candidate: Make, make_golden: Callable[..., Golden]
    ) -> None:
        make_candidate(root, "small/v2/one", golden=make_golden(by=5e-5))
        make_candidate(root, "small/v3/one")
        adopt(root, "small/v2/one")

        (entry,) = adopt(root, "small/v3/one", parent="v1", relation=Relation.SAME)

        assert (entry.parent, entry.relation) == ("v1", Relation.SAME)
        assert entry.drift == {"one": Figures(share=0, kl=0, flips=0)}

    def test_limits_stand_in_the_ledger(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root, "small/v2/one")
        limits = Limits(max_kl=0.01, max_flips=1, margin=0.5)
        adopt(root, "small/v2/one", parent="v1", relation=Relation.APPROXIMATED, limits=limits)
        assert Ledger.read(root.ledger("small")).entries[-1].limits == limits

    def test_a_script_the_revision_before_has_not_has_no_drift(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root, "small/v2/two")
        (entry,) = adopt(root, "small/v2/two")
        assert (entry.parent, entry.drift) == (None, None)

    @pytest.mark.parametrize("content", [b"damaged", None])
    def test_a_golden_that_nothing_vouches_for_can_be_replaced(
        self, root: Root, make_candidate: Make, make_golden: Callable[..., Golden], content: bytes | None
    ) -> None:
        make_candidate(root, "small/v2/one", golden=make_golden(by=3e-6))
        path = root.golden(place("small/v1/one"))
        path.write_bytes(content or root.candidate(place("small/v2/one")).read_bytes())
        make_candidate(root, golden=make_golden(by=5e-5))

        (entry,) = adopt(root)

        assert (entry.drift, read(path).seal) == (None, entry.scripts["one"])


class TestKilled:
    def test_a_killed_process_leaves_whole_files_and_a_rerun_finishes(
        self, tmp_path: Path, make_candidate: Make, make_golden: Callable[..., Golden]
    ) -> None:
        lasts = ("LEDGER.yaml", "one.safetensors", "one.candidate.json")
        roots = [Root(folder=tmp_path / last) for last in lasts]
        for root in roots:
            old = make_candidate(root).seal
            adopt(root)
            new = make_candidate(root, golden=make_golden(by=5e-5)).seal
            two = make_candidate(root, "small/v1/two").seal

        ended = accepting(*(f"{root.folder},v1,{last}" for root, last in zip(roots, lasts, strict=True)))
        between = [state(root) for root in roots]
        for root in roots:
            adopt(root, *map(str, chosen(root)))

        assert ended == str([-signal.SIGKILL] * 3)
        assert between == [(1, old, old), (2, new, old), (2, new, new)]
        assert [state(root) for root in roots] == [(2, new, new)] * 3
        assert [Ledger.read(root.ledger("small")).seal("v1", "two") for root in roots] == [two] * 3
        left = ["small/LEDGER.yaml", "small/v1/one.safetensors", "small/v1/two.safetensors"]
        assert [names(root) for root in roots] == [left] * 3

    def test_a_sidecar_without_its_file_is_kept_where_the_golden_is_another(
        self, root: Root, make_candidate: Make, make_golden: Callable[..., Golden]
    ) -> None:
        make_candidate(root)
        adopt(root)
        make_candidate(root, golden=make_golden(by=5e-5))
        root.candidate(place("small/v1/one")).unlink()

        with pytest.raises(Exception, match="no such file"):
            adopt(root)

        assert root.sidecar(place("small/v1/one")).exists()


def test_two_at_once_both_land(root: Root, make_candidate: Make) -> None:
    revisions = [f"v{number}" for number in range(4)]
    seals = [make_candidate(root, f"small/{revision}/one").seal for revision in revisions]

    ended = accepting(*(f"{root.folder},{revision},nothing" for revision in revisions))

    ledger = Ledger.read(root.ledger("small"))
    assert ended == "[0, 0, 0, 0]"
    assert [ledger.seal(revision, "one") for revision in revisions] == seals
    assert names(root) == ["small/LEDGER.yaml", *(f"small/{revision}/one.safetensors" for revision in revisions)]


def test_the_folder_is_held_from_reading_to_moving(
    root: Root, make_candidate: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bool] = []

    def watched(path: Path, entry: Entry) -> Entry:
        held.append((path.parent.parent / ".evseq-lock.tmp").exists())
        return entry

    monkeypatch.setattr("evseq.golden.acceptance.append", watched)
    make_candidate(root)
    adopt(root)

    assert held == [True]


def test_rejecting_removes_both_halves_and_no_golden(root: Root, make_candidate: Make) -> None:
    make_candidate(root)
    adopt(root)
    make_candidate(root)
    make_candidate(root, "small/v1/two")
    root.sidecar(place("small/v1/two")).unlink()

    gone = reject(root, chosen(root))

    assert gone == (place("small/v1/one"), place("small/v1/two"))
    assert names(root) == ["small/LEDGER.yaml", "small/v1/one.safetensors"]
