"""Connecting: to a Dask cluster that somebody else has started, without a word of what Dask logs."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from evseq.crew import GRACE
from evseq.errors import EvseqError, Exit, UsageError

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["LostScheduler", "connected", "workers"]

CONNECT = 10
"""Seconds a scheduler may take to answer."""

NOISY = ("distributed", "tornado")
"""Whose logs are for somebody who watches a cluster."""


class LostScheduler(EvseqError):
    """The cluster's scheduler is gone, and nobody knows what its workers do. Start it again, and resume the run."""

    exit_code = Exit.INTERNAL


def workers(client: Client, scheduler: str) -> Mapping[str, Any]:
    """Return what the scheduler says of each of its workers, by address. Raises LostScheduler."""
    try:
        asked: Any = client.scheduler
        told = client.sync(asked.identity, n_workers=-1, callback_timeout=CONNECT)
    except (AttributeError, OSError) as error:  # given up by the client before, or lost now
        raise LostScheduler(
            f"{scheduler}: the scheduler is gone: {error}\n"
            "  help: start it again, and with --resume FILE run what the file of --jsonl lacks"
        ) from None
    found: Mapping[str, Any] = told["workers"]
    return found


@contextmanager
def connected(scheduler: str) -> Iterator[Client]:
    """Connect to a scheduler, and say nothing of what Dask logs. Raises UsageError where that cannot be."""
    try:
        from distributed import Client
    except ModuleNotFoundError:
        raise UsageError(f"{scheduler}: distributed is not installed\n  help: pip install 'evseq[cluster]'") from None
    with _silent(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other versions, which are compared, and of slow or large messages
        try:
            with ThreadPoolExecutor(1) as thread:  # this one may have a loop that runs
                thread.submit(asyncio.run, _greeted(scheduler)).result()
            client = Client(scheduler, timeout=CONNECT, set_as_default=False)
        except Exception as error:  # noqa: BLE001 - whatever answers there may say anything
            raise UsageError(
                f"{scheduler}: no scheduler answers: {str(error) or f'not within {CONNECT} s'}\n"
                "  help: start one with `dask scheduler`, or write the address that it prints"
            ) from None
        try:
            yield client
        finally:
            client.close(timeout=GRACE)


async def _greeted(scheduler: str) -> None:
    """Ask who is there, and leave: a client would wait without an end for who says nothing, or is something else."""
    from distributed import Security, connect

    async with asyncio.timeout(CONNECT):
        comm = await connect(scheduler, timeout=CONNECT, **Security().get_connection_args("client"))
        try:
            await comm.write({"op": "identity"})
            told: Any = await comm.read()
        finally:
            comm.abort()
    if "workers" not in told:
        raise ValueError(f"a {told.get('type', told)} does")


@contextmanager
def _silent() -> Iterator[None]:
    """Keep logs from the terminal: they are for somebody who watches the cluster."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in NOISY]
    loggers = [logging.getLogger(name) for name in {*NOISY, *names}]
    before = [(logger, logger.handlers, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [logging.NullHandler()], False
    try:
        yield
    finally:
        for logger, handlers, propagates in before:
            logger.handlers, logger.propagate = handlers, propagates
