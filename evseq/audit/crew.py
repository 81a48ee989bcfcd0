"""Crew: one function over many items, here or in a few processes that start with nothing of this one."""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from evseq.errors import EvseqError, UsageError

__all__ = ["LostWorker", "Shop", "bare", "done"]

Item = TypeVar("Item")
Made = TypeVar("Made")

Shop = Callable[[], AbstractContextManager[Callable[[Item], Made]]]
"""Opens, once in each process, what the work is done with; entering that gives the function that does it."""

GRACE = 5.0
"""Seconds a process may take to let go of what it has opened."""


class LostWorker(EvseqError):
    """A process ended before its work did, mostly for want of memory. Let fewer run at once."""

    exit_code = 3


def bare(work: Callable[[Item], Made]) -> Shop[Item, Made]:
    """Return the shop of a function at the top of a module that needs nothing opened."""
    return partial(_opened, work)


def _opened(work: Callable[[Item], Made]) -> AbstractContextManager[Callable[[Item], Made]]:
    return nullcontext(work)


def done(shop: Shop[Item, Made], items: Sequence[Item], *, workers: int) -> Generator[tuple[int, Made], None, None]:
    """Yield the number and the result of every item, as each is done.

    The shop, items and results can be pickled. What the work raises is raised here, an error of evseq in other
    processes as UsageError.
    """
    if workers < 2 or len(items) < 2:  # noqa: PLR2004 - a crew of one is nobody else
        with shop() as work:
            yield from ((number, work(item)) for number, item in enumerate(items))
        return
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads of torch may hang
    crew: dict[Connection, BaseProcess] = {}
    process: BaseProcess
    waiting = iter(enumerate(items))
    try:
        for _ in range(min(workers, len(items))):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, shop), daemon=True)
            process.start()
            theirs.close()
            crew[ours] = process
            ours.send(next(waiting))
        busy = set(crew)
        while busy:
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                number, made = _answer(ready, crew[ready])
                following = next(waiting, None)
                if following is None:
                    busy.remove(ready)
                else:
                    ready.send(following)
                yield number, made
    finally:
        for process in crew.values():
            process.terminate()
        for process in crew.values():
            process.join(GRACE)
            if process.is_alive():
                process.kill()


def _answer(connection: Connection, process: BaseProcess) -> Any:
    """Return what a worker sent: the number of an item, with its result or what was raised."""
    try:
        answer = connection.recv()
    except (EOFError, OSError):
        process.join(GRACE)
        raise LostWorker(
            f"a worker ended with {process.exitcode} before its work did\n  help: run fewer at once, with -n 1"
        ) from None
    match answer:
        case _, UsageError() | RuntimeError() as error:
            raise error
        case _:
            return answer


def _serve(connection: Connection, shop: Shop[Item, Made]) -> None:
    """Do what is sent until nobody sends any more. An interrupt is for the process that sends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that folders and processes are let go of
    try:
        with shop() as work:
            while True:
                number, item = connection.recv()
                connection.send((number, _made(work, item)))
    except (EOFError, KeyboardInterrupt, OSError):
        return


def _made(work: Callable[[Item], Made], item: Item) -> Made | UsageError | RuntimeError:
    """Return the result, or what was raised as text: not every error comes whole through a pipe."""
    try:
        return work(item)
    except EvseqError as error:
        return UsageError(str(error))
    except Exception:  # noqa: BLE001 - told where somebody reads it
        return RuntimeError(f"in a worker: {traceback.format_exc()}")
