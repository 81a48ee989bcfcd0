"""A crew gives what one would, tells what went wrong in a process, and ends with who asked."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from evseq.crew import LostWorker, done, done_with
from evseq.errors import TargetError, UsageError


def halved(number: int) -> float:
    return number / 2


def process(_: int) -> int:
    return os.getpid()


def refused(number: int) -> int:
    raise TargetError(f"{number}: no such target\n  help: name another")


@contextmanager
def closed() -> Iterator[Callable[[int], int]]:
    refused(0)
    yield process


def divided(number: int) -> float:
    return 1 / number


def killed(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def interrupted(number: int) -> int:
    os.kill(os.getpid(), signal.SIGINT)
    return number


def collected(work: Callable[[int], object], items: list[int], *, workers: int) -> list[tuple[int, object]]:
    return sorted(done(work, items, workers=workers))


def test_a_crew_gives_what_one_would() -> None:
    alone = collected(halved, [4, 6, 8, 10, 12], workers=1)

    assert alone == [(0, 2.0), (1, 3.0), (2, 4.0), (3, 5.0), (4, 6.0)]
    assert collected(halved, [4, 6, 8, 10, 12], workers=2) == alone


def test_a_crew_of_one_and_a_single_item_stay_in_this_process() -> None:
    assert collected(process, [1, 2], workers=1) == [(0, os.getpid()), (1, os.getpid())]
    assert collected(process, [1], workers=4) == [(0, os.getpid())]


def test_more_workers_are_other_processes() -> None:
    assert os.getpid() not in {made for _, made in done(process, [1, 2], workers=2)}


def test_nothing_to_do_is_nothing_done() -> None:
    assert collected(halved, [], workers=2) == []


def test_an_error_a_person_can_mend_keeps_its_words() -> None:
    with pytest.raises(TargetError, match=r"^1: no such target\n  help: name another$"):
        collected(refused, [1], workers=1)
    with pytest.raises(UsageError, match=r"^[12]: no such target\n  help: name another$"):
        collected(refused, [1, 2], workers=2)


def test_an_error_of_opening_is_told_as_itself() -> None:
    with pytest.raises(UsageError, match=r"^0: no such target\n  help: name another$"):
        list(done_with(closed, [1, 2], workers=2))


def test_any_other_error_tells_where_it_was() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)^in a worker: .*in divided\n.*ZeroDivisionError"):
        collected(divided, [0, 0], workers=2)


def test_a_worker_that_is_gone_is_told() -> None:
    with pytest.raises(LostWorker) as error:
        collected(killed, [1, 2], workers=2)

    assert str(error.value) == "a worker ended with -9 before its work did\n  help: run fewer at once, with -n 1"


def test_an_interrupt_is_not_for_the_workers() -> None:
    assert collected(interrupted, [7, 8], workers=2) == [(0, 7), (1, 8)]


def test_what_is_not_asked_for_any_more_ends() -> None:
    working = done(process, [1, 2, 3, 4], workers=2)
    _, worker = next(working)

    working.close()

    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
