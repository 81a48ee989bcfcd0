"""Crew: one function over many items, here or in a few processes that start with nothing of this one.

Whatever yields what `shared` yields, in whatever order work is done, can stand in its place.
"""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from evseq.errors import EvseqError, Exit, UsageError

__all__ = ["GRACE", "LostWorker", "Opened", "done", "done_with", "serve", "shared"]

Item = TypeVar("Item")
Made = TypeVar("Made")

Opened = Callable[[], AbstractContextManager[Callable[[Item], Made]]]
"""Opens, once in each process, what the work needs, and gives the function that does it."""

GRACE = 5.0
"""Seconds a process may take to let go of what it has opened."""

MASKS = hasattr(signal, "pthread_sigmask")
"""Whether signals can be held back, as they can on every system but Windows."""


class LostWorker(EvseqError):
    """A process ended before its work did, mostly for want of memory. Let fewer run at once.

    `ended` is its exit code, None where nobody saw it end; `again` says that another process does that work now.
    """

    exit_code = Exit.INTERNAL

    def __init__(self, ended: int | None, *, again: bool = False) -> None:
        super().__init__(f"a worker ended with {ended} before its work did\n  help: run fewer at once, with -n 1")
        self.ended = ended
        self.again = again


def done(
    work: Callable[[Item], Made], items: Sequence[Item], *, workers: int
) -> Generator[tuple[int, Made], None, None]:
    """Yield the number and the result of every item, as each is done.

    `work` is a function at the top of a module; items and results can be pickled. What `work` raises is raised here,
    an error of evseq in other processes as UsageError. Raises LostWorker.
    """
    yield from done_with(partial(_plainly, work), items, workers=workers)


def done_with(
    opened: Opened[Item, Made], items: Sequence[Item], *, workers: int
) -> Generator[tuple[int, Made], None, None]:
    """Do the same with what is opened once in each process."""
    if workers < 2 or len(items) < 2:  # noqa: PLR2004 - a crew of one is nobody else
        with opened() as work:
            yield from ((number, work(item)) for number, item in enumerate(items))
        return
    for number, made in shared(opened, items, workers=workers, tries=1):
        if isinstance(made, Exception):
            raise made
        yield number, made


def shared(
    opened: Opened[Item, Made], items: Sequence[Item], *, workers: int, tries: int = 2
) -> Generator[tuple[int, Made | Exception], None, None]:
    """Yield the number of every item with its result or what was raised, as each is done by one of `workers` processes.

    `opened` can be pickled, and so can items and results. An error of evseq comes as UsageError, any other as
    RuntimeError. A worker that is gone is a LostWorker; another one takes its place, and its item up to `tries` times.
    """
    waiting = deque(enumerate(items))
    tried = dict.fromkeys(range(len(items)), 0)
    crew: dict[Connection, _Worker] = {}
    leaving: list[_Worker] = []
    try:
        while waiting or crew:
            while waiting and len(crew) < workers:
                worker = _Worker(opened)
                crew[worker.connection] = worker
                worker.take(*waiting.popleft())
            for ready in wait(list(crew)):
                assert isinstance(ready, Connection)
                worker = crew[ready]
                number, item = worker.holds
                tried[number] += 1
                try:
                    made = worker.answer()
                except LostWorker as lost:
                    del crew[ready]
                    if again := tried[number] < tries:
                        waiting.appendleft((number, item))
                    yield number, LostWorker(lost.ended, again=again)
                    continue
                if waiting:
                    worker.take(*waiting.popleft())
                else:
                    ready.close()
                    leaving.append(crew.pop(ready))
                yield number, made
    finally:
        for worker in crew.values():
            worker.process.terminate()
        for worker in (*leaving, *crew.values()):
            worker.gone()


class _Worker:
    """One process, and what it works on."""

    def __init__(self, opened: Opened[Any, Any]) -> None:
        context = multiprocessing.get_context("spawn")  # a fork of a process with threads of torch may hang
        self.holds: tuple[int, Any] = (-1, None)
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=serve, args=(theirs, opened), daemon=True)
        with _uninterrupted():
            self.process.start()
        theirs.close()

    def take(self, number: int, item: Any) -> None:
        """Begin an item; that nobody is there to take it is heard in place of an answer."""
        self.holds = number, item
        try:
            self.connection.send(item)
        except (BrokenPipeError, ConnectionResetError):
            return

    def answer(self) -> Any:
        """Return the result of its item, or what was raised. Raises LostWorker."""
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.gone()
            raise LostWorker(self.process.exitcode) from None

    def gone(self) -> None:
        """Wait until it has let go of what it opened, and no longer than that may take."""
        self.process.join(GRACE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Start a process that an interrupt does not end before it can say what an interrupt does."""
    if not MASKS:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _plainly(work: Callable[[Item], Made]) -> Iterator[Callable[[Item], Made]]:
    """Open nothing."""
    yield work


def serve(connection: Connection, opened: Opened[Any, Any]) -> None:
    """Do what is sent until nobody sends any more. An interrupt is for the process that sends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if MASKS:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # for what this process starts
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that folders and processes are let go of
    try:
        with ExitStack() as held:
            work = _opened(held, opened)
            while True:
                item = connection.recv()
                connection.send(_made(work, item))
    except (EOFError, KeyboardInterrupt, OSError):
        return


def _opened(held: ExitStack, opened: Opened[Item, Made]) -> Callable[[Item], Made]:
    """Open until `held` is left; where that fails, return what raises the same for every item."""
    try:
        return held.enter_context(opened())
    except Exception as error:  # noqa: BLE001 - whoever sends an item is told
        return partial(_raised, error)


def _raised(error: Exception, _: Any) -> Any:
    raise error


def _made(work: Callable[[Item], Made], item: Item) -> Made | UsageError | RuntimeError:
    """Return the result, or what was raised as text: not every error comes whole through a pipe."""
    try:
        return work(item)
    except EvseqError as error:
        return UsageError(str(error))
    except Exception:  # noqa: BLE001 - told where somebody reads it
        return RuntimeError(f"in a worker: {traceback.format_exc()}")
