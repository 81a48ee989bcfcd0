"""Seat: one worker of a Dask cluster for as long as it lives, what it is given and what it owes.

A worker that is given work has no limit of evseq's: a script may well take hours, and what tells one that computes from
one that hangs are the heartbeats that Dask counts. It gives up who sends none for `distributed.scheduler.worker-ttl`,
five minutes if nobody says another; that worker is then lost, and another one does its work.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from evseq.post import Ended, hire, work

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["Owed", "Seat"]

FETCH = 60
"""Seconds that a result may take from the worker that has it; afterwards that worker is as good as gone."""


@dataclass(slots=True, kw_only=True, eq=False)
class Seat:
    """One worker. `number` is that of the item it works on, `future` what it owes: at first the lease of its post.

    What is done, raised or cancelled stands in the queue `owed`, with the seat that owed it.
    """

    client: Client
    address: str
    run: str
    resources: Mapping[str, float]
    owed: Owed
    number: int | None = None
    future: Future[Any] | None = None
    lease: Future[Any] | None = field(default=None, init=False)

    def fits(self, device: str | None) -> bool:
        """Return whether it may be given what has this device."""
        return device is None or device in self.resources

    def open(self, worker: str, opened: bytes) -> None:
        """Have it open a post, as long as it is that `worker`."""
        self.lease = self._submit(hire, self.run, worker, opened, str(Path.cwd()))
        self._owe(self.lease)

    def give(self, number: int, item: bytes, *, device: str | None) -> None:
        """Have it do an item."""
        self.number = number
        self._owe(self._submit(work, self.run, item, device=device))

    def settle(self) -> tuple[int | None, Any]:
        """Return the number of its item, None for the lease, and what was made or raised, or Ended; it owes no more."""
        future, number = self.future, self.number
        assert future is not None
        self.future, self.number = None, None
        return number, _made(future)

    def leave(self) -> None:
        """Have nothing more to do with it: the post ends with its lease."""
        for future in (self.lease, self.future):
            if future is not None:
                future.cancel()
        self.future = None

    def _owe(self, future: Future[Any]) -> None:
        self.future = future
        future.add_done_callback(lambda future: self.owed.put((self, future)))

    def _submit(self, do: Callable[..., Any], *given: object, device: str | None = None) -> Future[Any]:
        """Have this worker call a function, and no other if it is gone."""
        resources = None if device is None else {device: 1}
        return self.client.submit(do, *given, workers=[self.address], resources=resources, pure=False)


Owed = SimpleQueue[tuple[Seat, "Future[Any]"]]
"""What has come, with the seat that owed it when it was asked."""


def _made(future: Future[Any]) -> Any:
    """Return what was made, what was raised, or that it is lost."""
    from distributed import CancelledError, KilledWorker

    try:
        made = future.result(timeout=FETCH)
    except (CancelledError, KilledWorker, TimeoutError):
        return Ended(code=None)
    except Exception as error:  # noqa: BLE001 - told where somebody reads it
        return RuntimeError(f"in a worker: {type(error).__name__}: {error}")
    if made is None:
        return Ended(code=None)
    return pickle.loads(made) if isinstance(made, bytes) else made  # noqa: S301 - of our own post
