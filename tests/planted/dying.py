"""Engines that take their process with them: `planted.dying:once` the first time, `planted.dying:always` each time.

`planted.dying:starter` takes, once, the process that started its own, which must be the worker of a cluster. Who was
killed stands in the file `killed` of the folder that is worked in. `planted.dying:empty` lives and has no weights, for
its owner to mend.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from evseq.errors import TargetError
from evseq.geometry import Dtype
from planted.second import Second

KILLED = Path("killed")


class Dying(Second):
    """A loader that kills its process so many times."""

    times = 1
    whom: Callable[[], int] = staticmethod(os.getpid)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Second:
        killed = KILLED.read_text().splitlines() if KILLED.exists() else []
        if len(killed) < self.times:
            KILLED.write_text("".join(f"{number}\n" for number in (*killed, self.whom())))
            os.kill(self.whom(), signal.SIGKILL)
            time.sleep(60)  # it is another that dies, and ends this one
        return super().load(dtype, options)


def once() -> Dying:
    return Dying()


def always() -> Dying:
    dying = Dying()
    dying.times = 1000
    return dying


def starter() -> Dying:
    dying = Dying()
    dying.whom = os.getppid
    return dying


class Emptied(Second):
    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Second:
        raise TargetError("no weights here")


def empty() -> Emptied:
    return Emptied()
