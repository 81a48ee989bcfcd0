"""Cluster: what a crew does, done by the workers of a Dask cluster that somebody else has started.

Each worker does one item at a time, and items are tied to workers: Dask itself would try what killed one on three more
before anybody is told.
"""

from __future__ import annotations

import asyncio
import pickle
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from queue import Empty
from typing import TYPE_CHECKING, Any, TypeVar

from evseq.connecting import connected, workers
from evseq.crew import LostWorker, Opened
from evseq.errors import UsageError
from evseq.post import Ended, greet
from evseq.seat import Owed, Seat

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["shared"]

SAME = "  help: give workers what this machine has, at the same paths"
"""What to do about a worker on which a result would rest on something else."""

Item = TypeVar("Item")
Made = TypeVar("Made")

AT_FIRST = 5.0
"""Seconds until a worker is missed that nobody has seen yet."""

LATER = 30.0
"""Seconds until one is missed that was lost: Dask starts another, which imports what it needs."""

BEAT = 1.0
"""Seconds between two looks at who is there."""

GREETING = 20
"""Seconds in which a worker says what it rests on, or is one that hangs: Dask itself waits minutes."""


def shared(
    opened: Opened[Item, Made],
    items: Sequence[Item],
    *,
    scheduler: str,
    devices: Sequence[str | None],
    premises: Callable[[], Mapping[str, str]],
    tries: int = 2,
) -> Generator[tuple[int, Made | Exception], None, None]:
    """Yield the number of every item with its result or what was raised, as `crew.shared` does, done by a cluster.

    An item that has a device goes to workers that have a Dask resource of that name. `premises` are what results rest
    on; it is asked here and on each worker, and must say the same. A worker that comes later and differs is given
    nothing, nor is one that does not answer.

    Raises what `connecting` does; UsageError where a worker differs or is missing.
    """
    waiting = list(range(len(items)))
    tried = dict.fromkeys(waiting, 0)
    with connected(scheduler) as client:
        crew = _Crew(client, scheduler, opened=pickle.dumps(opened), premises=premises)
        while waiting or any(seat.number is not None for seat in crew.seats):
            for seat in crew.idle():
                number = next((number for number in waiting if seat.fits(devices[number])), None)
                if number is not None:
                    waiting.remove(number)
                    tried[number] += 1
                    seat.give(number, pickle.dumps(items[number]), device=devices[number])
            for number, made in crew.answers():
                if isinstance(made, Ended):
                    if again := tried[number] < tries:
                        waiting.insert(0, number)
                    yield number, LostWorker(made.code, again=again)
                else:
                    yield number, made
            crew.miss({devices[number]: items[number] for number in reversed(waiting)})


class _Crew:
    """The workers that are there and say what is said here. Raises UsageError where one that is there differs."""

    def __init__(
        self, client: Client, scheduler: str, *, opened: bytes, premises: Callable[[], Mapping[str, str]]
    ) -> None:
        self._client = client
        self._scheduler = scheduler
        self._opened = opened
        self._premises = premises
        self._here = premises()
        self._run = f"evseq-{uuid.uuid4().hex}"
        self._differing: dict[str, str] = {}
        self._silent: dict[str, str] = {}
        self._owed = Owed()
        self._looked = 0.0
        self._missing: float | None = None
        self._patience = AT_FIRST
        self.seats: list[Seat] = []
        self._look()
        for differs in self._differing.values():
            raise UsageError(differs)

    def idle(self) -> list[Seat]:
        """Return those that can be given something."""
        return [seat for seat in self.seats if seat.future is None]

    def answers(self) -> Iterator[tuple[int, Any]]:
        """Wait a moment; yield the number of each item that ended or is lost, with what came of it or Ended."""
        if time.monotonic() - self._looked >= BEAT:  # also while there is an answer all the time
            yield from self._look()
        try:
            seat, future = self._owed.get(timeout=BEAT)
        except Empty:
            return
        if future is not seat.future:  # it has left
            return
        number, made = seat.settle()
        if future is seat.lease and isinstance(made, Exception):
            raise UsageError(
                f"{self._scheduler}: nothing can be handed to {seat.address}: {' '.join(str(made).split())}\n"
                "  help: the scheduler, too, needs the evseq and the Dask of this machine"
            )
        if isinstance(made, Ended) and made.code is None:
            workers(self._client, self._scheduler)  # raises where it is not the worker that is gone
            self._leave(seat)
        if number is not None:
            yield number, made

    def miss(self, waiting: Mapping[str | None, object]) -> None:
        """Raise UsageError where nobody has been there for too long who could do what waits, an item by device."""
        missing = [device for device in waiting if not any(seat.fits(device) for seat in self.seats)]
        if not missing:
            self._missing = None
            return
        self._missing = self._missing or time.monotonic()
        if time.monotonic() - self._missing < self._patience:
            return
        for unfit in (*self._differing.values(), *self._silent.values()):
            raise UsageError(unfit)
        start = f"dask worker {self._scheduler}"
        for device in missing:
            if device is not None:
                raise UsageError(
                    f"{self._scheduler}: no worker has the resource {device!r}, which {waiting[device]} needs\n"
                    f"  help: start one with `{start} --resources {device}=1`"
                )
        raise UsageError(f"{self._scheduler}: no worker is there\n  help: start one with `{start}`")

    def _look(self) -> list[tuple[int, Ended]]:
        """Take note of who came and who went; return what is lost with these."""
        there = workers(self._client, self._scheduler)
        self._looked = time.monotonic()
        lost = [seat for seat in self.seats if seat.address not in there]
        for seat in lost:
            self._leave(seat)
        known = {*self._differing, *self._silent, *(seat.address for seat in self.seats)}
        self._welcome({address: told["resources"] for address, told in there.items() if address not in known})
        return [(seat.number, Ended(code=None)) for seat in lost if seat.number is not None]

    def _welcome(self, there: Mapping[str, Mapping[str, float]]) -> None:
        """Compare what workers rest on with what is said here; who says the same opens a post."""
        if not there:
            return
        told: Mapping[str, Any] = self._client.sync(self._greeted, list(there))
        for address, said in told.items():
            if isinstance(said, TimeoutError):
                self._silent[address] = (
                    f"{address}: this worker says nothing for {GREETING} s\n  help: start another one in its place"
                )
                continue
            if isinstance(said, OSError):  # gone meanwhile
                continue
            if isinstance(said, Exception):
                self._differing[address] = f"{address}: evseq cannot be run there: {said}\n{SAME}"
                continue
            worker, premises = said
            if differs := _difference(premises, self._here):
                self._differing[address] = f"{address}: {differs}\n{SAME}"
                continue
            run = f"{self._run}-{worker}"
            seat = Seat(client=self._client, address=address, run=run, resources=there[address], owed=self._owed)
            seat.open(worker, self._opened)
            self.seats.append(seat)

    async def _greeted(self, there: Sequence[str]) -> Mapping[str, Any]:
        """Ask all at once; who hangs keeps nobody waiting for long."""

        async def said(address: str) -> Any:
            asked: Any = self._client.run(greet, self._premises, workers=[address], on_error="return")
            try:
                return (await asyncio.wait_for(asked, GREETING)).get(address, OSError())
            except TimeoutError as error:
                return error

        return dict(zip(there, await asyncio.gather(*map(said, there)), strict=True))

    def _leave(self, seat: Seat) -> None:
        """Have nothing more to do with a worker; another one may take its place."""
        self._patience = LATER
        self.seats.remove(seat)
        seat.leave()


def _difference(there: Mapping[str, str], here: Mapping[str, str]) -> str | None:
    """Say the first thing that is not the same on a worker as here."""
    for name in dict.fromkeys((*here, *there)):
        if there.get(name) != here.get(name):
            return f"{name} is {there.get(name, 'nothing')} there, {here.get(name, 'nothing')} here"
    return None
