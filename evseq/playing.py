"""Playing: the parts of a run, here or shared among processes, each told when its turn in the run's order comes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType

from evseq.crew import LostWorker, shared
from evseq.elsewhere import played_elsewhere
from evseq.part import Part, ScriptResult, Watcher
from evseq.run_settings import Settings
from evseq.running import Run
from evseq.verdict.result import Check, Finding

__all__ = ["Played", "play"]

FEWER = "let fewer run at once, with -n 1"
"""What to do about processes that ended here."""

ELSEWHERE = "let fewer run at once on one machine"
"""What to do about those of a cluster."""


@dataclass(slots=True, kw_only=True)
class Played:
    """What came of parts, by place. `lost` tells of processes that ended, `findings` of what nobody could play.

    `cancelled` are the cases, by id, that an interrupt kept from being judged.
    """

    ended: dict[int, ScriptResult] = field(default_factory=dict)
    cancelled: tuple[str, ...] = ()
    lost: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    interrupted: bool = False


def play(
    parts: Sequence[Part],
    running: Run,
    *,
    watch: Watcher | None = None,
    kept: Sequence[ScriptResult] | None = None,
) -> Played:
    """Play every part, by the workers the settings say. An interrupt ends it early; what is done is kept.

    A part that is `kept` from an earlier run is not played again. One whose worker is gone is played by another; where
    that one goes too, it is a finding.
    """
    before = _before(parts, running, kept or ())
    places = [place for place in range(len(parts)) if place not in before]
    rest = [parts[place] for place in places]
    if watch:
        if kept is not None:
            watch.kept(tuple(before.values()))
        watch.planned(sum(len(part.chosen) for part in rest))
    played = _played(rest, running, watch)
    played.ended = before | {places[place]: result for place, result in played.ended.items()}
    if played.interrupted:
        missed = [part for place, part in enumerate(parts) if place not in played.ended]
        played.cancelled = tuple(case for part in missed for case in part.ids)
    return played


def _before(parts: Sequence[Part], running: Run, kept: Sequence[ScriptResult]) -> dict[int, ScriptResult]:
    """Return by their place the parts that were done before and would come out the same again, each case once.

    What was written and is gone since, as a candidate that was adopted or a recording, is made again.
    """
    stamped = {result.stamp: result for result in kept if all(Path(file).is_file() for file in result.files)}
    found = {place: stamped.get(running.stamp(part)) for place, part in enumerate(parts)} if stamped else {}
    return {
        place: result
        for place, result in found.items()
        if result is not None
        and tuple(case.id for case in result.cases) == parts[place].ids
        and running.recorded(parts[place])
    }


def _played(parts: Sequence[Part], running: Run, watch: Watcher | None) -> Played:
    played = Played()
    turns = _Turns(parts, played, watch, fewer=FEWER if running.settings.scheduler is None else ELSEWHERE)
    try:
        for place, made in _made(parts, running):
            turns.take(place, made)
    except KeyboardInterrupt:
        played.interrupted = True
        turns.rest()
    return played


def _made(parts: Sequence[Part], running: Run) -> Generator[tuple[int, ScriptResult | Exception], None, None]:
    if running.settings.scheduler is not None and parts:
        yield from played_elsewhere(parts, running, scheduler=running.settings.scheduler)
        return
    if running.settings.workers > 1 and len(parts) > 1:
        yield from shared(partial(_opened, running.settings), parts, workers=running.settings.workers)
        return
    for place, part in enumerate(parts):
        yield place, running.play(part)


@contextmanager
def _opened(settings: Settings) -> Iterator[Callable[[Part], ScriptResult]]:
    """Open in a worker what its parts need; a target is opened once for all of them."""
    with Run(settings) as running:
        yield running.play


class _Turns:
    """Tells of parts in their order, in whatever order they end."""

    def __init__(self, parts: Sequence[Part], played: Played, watch: Watcher | None, *, fewer: str) -> None:
        self._fewer = fewer
        self._parts = parts
        self._played = played
        self._watch = watch
        self._waiting: dict[int, ScriptResult | Exception] = {}
        self._turn = 0
        self._told = 0  # how much of the part whose turn it is
        self._start()

    def take(self, place: int, made: ScriptResult | Exception) -> None:
        """Keep what a part came to, and tell of all whose turn it is now. Raises what was raised, in its turn."""
        if isinstance(made, LostWorker) and made.again:
            self._played.lost.append(f"{self._parts[place]}: a worker {_how(made)}; another played it again")
            return
        self._waiting[place] = made
        while self._turn in self._waiting:
            self._tell(self._turn)
            del self._waiting[self._turn]
            self._turn, self._told = self._turn + 1, 0
            self._start()

    def rest(self) -> None:
        """Tell of all that have ended, those left out before whose turn it was not."""
        for place in sorted(self._waiting):
            if place != self._turn:
                self._told = 0
            if not isinstance(self._waiting[place], Exception):
                self._tell(place)

    def _start(self) -> None:
        if self._watch and self._turn < len(self._parts):
            self._watch.started(self._parts[self._turn].script.name, self._parts[self._turn].target)

    def _tell(self, place: int) -> None:
        made = self._waiting[place]
        if isinstance(made, LostWorker):
            self._played.findings.append(_unplayed(self._parts[place], made, fewer=self._fewer))
            return
        if isinstance(made, Exception):
            raise made
        self._played.ended[place] = made
        if self._watch is None:
            return
        tell: list[Callable[[], None]] = [partial(self._watch.finished, case) for case in made.cases]
        tell.append(partial(self._watch.ended, made))
        for one in tell[self._told :]:  # an interrupt may come between any two
            with _whole():
                self._told += 1
                one()


@contextmanager
def _whole() -> Iterator[None]:
    """Let an interrupt wait until all who watch are told the same."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    held = {number: handler for number, handler in before.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread():  # no other may say what a signal does
        held = {}
    came: list[tuple[int, FrameType | None]] = []
    for number in held:
        signal.signal(number, lambda *told: came.append(told))
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
    for heard, frame in came[:1]:
        held[signal.Signals(heard)](heard, frame)


def _unplayed(part: Part, lost: LostWorker, *, fewer: str) -> Finding:
    return Finding(
        check=Check.COMPLETED,
        place=part.script.source.file,
        event="",
        step=0,
        row=None,
        index=None,
        message=f"{part}: its {len(part.chosen)} cases were not judged: two workers, one after the other, {_how(lost)}",
        cause=f"mostly want of memory: {fewer}",
    )


def _how(lost: LostWorker) -> str:
    """Say how a process ended; a signal by its name."""
    if lost.ended is None:
        return "ended unseen"
    if -lost.ended in set(signal.Signals):
        return f"ended by {signal.Signals(-lost.ended).name}"
    return f"ended with {lost.ended}"
