"""Ending: how a command may end, as an exit code and what is printed."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from evseq.errors import EvseqError, Exit, Untold, printable
from evseq.settings import TRACEBACK

__all__ = ["ended"]


def ended(command: Callable[[], int | None]) -> int:
    """Run `command` and return the exit code; every error a person can mend is printed without a traceback.

    A request to end the process does what an interrupt does: what finished is reported.
    """
    try:
        with _terminated_as_interrupted():
            return int(command() or Exit.PASSED)
    except click.ClickException as error:
        with contextlib.suppress(OSError):  # here and below: whom nobody can tell, the exit code tells
            error.show()
        return Exit.USAGE
    except (click.Abort, KeyboardInterrupt):
        return _told("evseq: interrupted", Exit.INTERRUPTED)
    except EvseqError as error:
        return _told(printable(str(error)), error.exit_code)
    except SystemExit as stop:
        if not _by_terminal(stop):
            return _internal(stop)
        # So click and rich end a command whose output nobody reads on, as under `| head`: nothing has failed.
        return Exit.INTERRUPTED if stop.code == 1 else int(stop.code or 0)
    except OSError as error:
        return _told(str(Untold(error)), Exit.USAGE) if _by_terminal(error) else _internal(error)
    except Exception as error:  # noqa: BLE001 - the last one to know what happened
        return _internal(error)


def _told(text: str, code: Exit) -> Exit:
    with contextlib.suppress(OSError):
        click.echo(text, err=True)
    return code


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # no other may say what a signal does
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _by_terminal(error: BaseException) -> bool:
    """Return whether click or rich raised what ends the process, and no code that evseq called."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).partition(".")[0] in ("click", "rich")


def _internal(error: BaseException) -> Exit:
    if os.environ.get(TRACEBACK):
        return _told("".join(traceback.format_exception(error)).rstrip(), Exit.INTERNAL)
    told = f"evseq: internal error: {type(error).__name__}: {error}"
    return _told(f"{told}\n  help: {TRACEBACK}=1 shows where; it is a fault of evseq", Exit.INTERNAL)
