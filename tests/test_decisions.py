from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from candidates import adopt, propose
from evseq.decisions import walk
from evseq.golden.candidate import Change
from evseq.golden.ledger import Ledger
from evseq.golden.refusals import Refused
from evseq.golden.root import Place, Root

ASKED = "a accept, r reject, s skip, q quit: "
LOCAL = 3  # the place of a terminal's local modes among its attributes
PLACES = ("small/v1/crop", "small/v1/fork", "small/v1/join")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(folder=tmp_path / "goldens")


@pytest.fixture
def three(root: Root) -> tuple[Place, ...]:
    return tuple(propose(root, at=place) for place in PLACES)


def typed(root: Root, places: tuple[Place, ...], keys: str) -> Result:
    """Walk with these keys pressed."""
    command = click.Command("walk", callback=lambda: walk(root, places, parent=None))
    return CliRunner().invoke(command, input=keys)


class TestWalk:
    def test_what_is_marked_is_done_at_the_end(self, root: Root, three: tuple[Place, ...]) -> None:
        done = typed(root, three, "arsbetter weights\n")
        crop, _, join = three
        assert done.output.splitlines()[-7:] == [
            f"[3/3] {ASKED}skip",
            "Why are the accepted right now? Reason: better weights",
            "small/v1/crop: accepted",
            f"  help: commit {root.folder} and nothing else: golden changes travel alone",
            "small/v1/fork: rejected",
            "1 left",
            "  help: evseq golden review",
        ]
        assert (list(root.goldens()), list(root.candidates())) == ([crop], [join])
        (entry,) = Ledger.read(root.ledger("small")).entries
        assert entry.reason == "better weights"

    def test_each_is_told_before_it_is_asked_about(self, root: Root, three: tuple[Place, ...]) -> None:
        told = typed(root, three, "sss").output
        assert told.startswith("small/v1/crop: new\n  made 2026-03-01 09:30 UTC by reference:full, ")
        assert f"  checks: none found anything in 2 cases\n\n[1/3] {ASKED}skip\nsmall/v1/fork: new\n" in told

    def test_a_key_that_means_nothing_is_asked_again(self, root: Root, three: tuple[Place, ...]) -> None:
        assert f"[1/3] {ASKED}\n[1/3] {ASKED}quit\n" in typed(root, three, "xq").output

    def test_quitting_leaves_the_rest_and_does_what_was_marked(self, root: Root, three: tuple[Place, ...]) -> None:
        done = typed(root, three, "rq")
        assert done.output.endswith(
            "[2/3] a accept, r reject, s skip, q quit: quit\n"
            "small/v1/crop: rejected\n2 left\n  help: evseq golden review\n"
        )
        assert list(root.candidates()) == list(three[1:])

    def test_the_end_of_the_input_quits(self, root: Root, three: tuple[Place, ...]) -> None:
        assert typed(root, three, "").output.endswith("quit\n3 left\n  help: evseq golden review\n")

    def test_nothing_may_be_left(self, root: Root, three: tuple[Place, ...]) -> None:
        assert typed(root, three, "rrr").output.endswith("none left\n")

    def test_no_reason_accepts_nothing(self, root: Root, three: tuple[Place, ...]) -> None:
        done = typed(root, three, "aaq")
        assert isinstance(done.exception, SystemExit)
        assert list(root.candidates()) == list(three)

    def test_what_is_refused_stays_and_so_does_what_was_rejected(self, root: Root) -> None:
        places = (propose(root, finite=False), propose(root, at="small/v1/fork"))
        done = typed(root, places, "arwrong\n")
        assert isinstance(done.exception, Refused)
        assert list(root.candidates()) == list(places)

    def test_where_nothing_may_be_accepted_it_is_said_first_and_not_offered(
        self, root: Root, three: tuple[Place, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CI", "true")
        done = typed(root, three, "aq")
        assert done.output.startswith("nothing can be accepted: CI is 'true' here: goldens are accepted by a person\n")
        assert done.output.endswith("[1/3] r reject, s skip, q quit: quit\n3 left\n  help: evseq golden review\n")

    def test_what_cannot_be_read_cannot_be_accepted(self, root: Root, three: tuple[Place, ...]) -> None:
        root.sidecar(three[0]).unlink()
        told = typed(root, three[:1], "ar").output
        assert told == (
            "small/v1/crop: cannot be reviewed\n"
            f"{root.sidecar(three[0])}: no such file: its candidate cannot be reviewed\n"
            "  help: check the path, or write the file first\n\n"
            "[1/1] r reject, s skip, q quit: \n"
            "[1/1] r reject, s skip, q quit: reject\n"
            "small/v1/crop: rejected\n2 left\n  help: evseq golden review\n"
        )


def test_a_person_at_a_terminal(root: Root, tmp_path: Path) -> None:
    adopt(root)
    place = propose(root, (1, 1, 0.5), change=Change.CHANGED)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "evseq", "golden", "review", "--goldens", str(root.folder)]
    process = subprocess.Popen(command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs)
    asked = until(ours, ASKED)
    while termios.tcgetattr(theirs)[LOCAL] & termios.ICANON:  # what is typed before keys are read alone is dropped
        time.sleep(0.01)
    os.write(ours, b"a")
    until(ours, "Reason: ")
    os.write(ours, b"better weights\n")
    told = until(ours, "none left")
    assert process.wait(timeout=60) == 0
    os.close(ours)
    os.close(theirs)
    assert "next token: row 'a' index 1: 2, accepted 1 by a margin of 1" in asked
    assert "small/v1/crop: accepted" in told
    assert Ledger.read(root.ledger("small")).entries[-1].reason == "better weights"
    assert list(root.goldens()) == [place]


def until(terminal: int, words: str) -> str:
    """Read a terminal up to these words, which come within a minute or not at all."""
    told = ""
    while words not in told:
        assert select.select([terminal], [], [], 60)[0], f"{words!r} is not in {told!r}"
        told += os.read(terminal, 1024).decode()
    return told
