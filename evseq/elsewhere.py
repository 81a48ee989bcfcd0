"""Elsewhere: the parts of a run played by the workers of a cluster, each held to what is here and to the others."""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from evseq.cache.canonical import Scalar
from evseq.cluster import shared
from evseq.errors import UsageError
from evseq.geometry import PROCESSOR
from evseq.part import Part, ScriptResult
from evseq.premises import premises
from evseq.run_settings import Settings
from evseq.running import Run

__all__ = ["played_elsewhere"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What a part came to on some machine, and the identity of the model there, or why it has none."""

    result: ScriptResult
    machine: str
    model: Mapping[str, Scalar] | str


def played_elsewhere(
    parts: Sequence[Part], running: Run, *, scheduler: str
) -> Generator[tuple[int, ScriptResult | Exception], None, None]:
    """Yield the place of each part with its result or what was raised, as each is done. Raises what `shared` does.

    A target that is another model on one worker than on another is a UsageError.
    """
    opened = partial(_opened, running.settings)
    devices = [running.target(part.target).description.device for part in parts]
    needed = [None if device == PROCESSOR else device for device in devices]
    first: dict[str, _Told] = {}
    with premises(parts, running.settings) as held:
        for place, told in shared(opened, parts, scheduler=scheduler, devices=needed, premises=held):
            if isinstance(told, Exception):
                yield place, told
                continue
            before = first.setdefault(parts[place].target, told)
            yield place, told.result if told.model == before.model else _another(parts[place].target, told, before)


@contextmanager
def _opened(settings: Settings) -> Iterator[Callable[[Part], _Told]]:
    """Open on a worker what its parts need, once its arithmetic is seen to be right."""
    from evseq.verdict.arithmetic import one_head

    machine = socket.gethostname()
    with Run(settings) as running:
        for finding in one_head():
            raise UsageError(f"{machine}: {finding}\n  help: leave this machine out")
        yield partial(_told, running, machine)


def _told(running: Run, machine: str, part: Part) -> _Told:
    return _Told(result=running.play(part), machine=machine, model=running.identity(part.target))


def _another(target: str, now: _Told, before: _Told) -> UsageError:
    """Say how the model of one worker differs from that of another."""
    differs = "one of them does not say what it is"
    if isinstance(now.model, Mapping) and isinstance(before.model, Mapping):
        names = dict.fromkeys((*before.model, *now.model))
        name = next(name for name in names if now.model.get(name) != before.model.get(name))
        differs = f"{name} is {now.model.get(name)!r} on {now.machine}, {before.model.get(name)!r} on {before.machine}"
    return UsageError(
        f"{target}: workers open different models: {differs}\n  help: give them the same files at the same path"
    )
