"""Running: one script on one target, with what a run has opened."""

from __future__ import annotations

import contextlib
import hashlib
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from evseq.cache.canonical import Scalar
from evseq.cache.damage import Damage, NotWritable
from evseq.errors import Problem, ScriptError
from evseq.judging import observed_cases
from evseq.part import Part, ScriptResult
from evseq.replay.opening import UnusableError
from evseq.run_settings import Settings
from evseq.script import lower as lowering
from evseq.script.cases import CaseArms, cases
from evseq.script.document import Script
from evseq.stamp import stamp
from evseq.verdict.known import Entry, known_file, marked, read_known
from evseq.verdict.label import label
from evseq.verdict.result import Case, Forwards

if TYPE_CHECKING:
    from evseq.golden.shelf import Shelf, Shelved
    from evseq.golden.witnessing import Numerics
    from evseq.replay.group import Group
    from evseq.replay.target import Target
    from evseq.replay.targets import Targets

__all__ = ["Run"]


class Run:
    """Opened targets, kept until closed: engines by dtype and options, and one process for fresh reloads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._targets: Targets | None = None
        self._threads: int | None = None
        self._shelf: Shelf | None = None
        self._known: dict[Path, tuple[Entry, ...]] = {}
        self._numerics: Numerics = {}

    def __enter__(self) -> Self:
        import torch

        from evseq.golden.shelf import Shelf
        from evseq.replay.targets import Targets

        # One thread: two on busy cores were twenty times slower, and results depend on the number.
        self._threads = torch.get_num_threads()
        torch.set_num_threads(self.settings.threads)
        self._targets = Targets(threads=self.settings.threads)
        self._shelf = Shelf(terms=self.settings.goldens)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import torch

        assert self._targets is not None
        self._targets.close()
        torch.set_num_threads(self._threads or 1)

    def target(self, named: str | object) -> Target:
        """Open a target by its text, a loader, or a transformers model; once."""
        assert self._targets is not None
        return self._targets.target(named)

    def selected(self, script: Script, text: str) -> tuple[CaseArms, ...]:
        """Return the cases of `script` on an opened target."""
        target = self.target(text)
        return cases(script, target.description, engine=target.name, mode=self.settings.mode, only=self.settings.only)

    def check(self, parts: Sequence[Part]) -> None:
        """Refuse what cannot be done before any weight is loaded.

        Raises ScriptError with the problems of all scripts; UsageError where nothing could be kept that is asked for.
        """
        self.check_writing([(part.script, part.target) for part in parts])
        problems: list[Problem] = []
        for part in parts:
            target = self.target(part.target)
            try:
                lowering.lower(part.script, part.chosen, description=target.description, tokenize=target.tokenize)
            except ScriptError as error:
                problems += error.problems
        if problems:
            raise ScriptError(problems)

    def check_writing(self, work: Sequence[tuple[Script, str]]) -> None:
        """Raise UsageError where candidates or witnesses of scripts on targets are asked for and could not be kept."""
        if self.settings.goldens.writes:
            from evseq.golden.making import check_writing

            check_writing(self.settings.goldens, work)

    def known(self, script: Script) -> tuple[Entry, ...]:
        """Return the failures that are known of a script's folder, or of the one file that is named; read once.

        Raises UsageError where that is not there, ScriptError for what is wrong in it.
        """
        file = known_file(script, self.settings.known)
        if file is None:
            return ()
        if file not in self._known:
            self._known[file] = read_known(file)
        return self._known[file]

    def play(self, part: Part) -> ScriptResult:
        """Run the cases of a part, as `run_script` does; where caches cannot be sealed, none of it is judged."""
        try:
            return self.run_script(part.script, part.target, part.chosen)
        except NotWritable as error:
            return ScriptResult(cases=(), forwards=Forwards(), unwritten=(f"{part} was not judged: {error}",))

    def identity(self, text: str) -> Mapping[str, Scalar] | str:
        """Return the identity of a target's model, or why it has none. The model is opened."""
        assert self._shelf is not None
        return self._shelf.identity(self.target(text))

    def stamp(self, part: Part) -> str:
        """Return the stamp that the result of a part would have now. The model is opened, nothing is played."""
        assert self._shelf is not None
        return self._stamp(part, self._shelf.find(part.script, self.target(part.target)))

    def recorded(self, part: Part) -> bool:
        """Return whether what was observed of a part is kept, where that is asked for."""
        folder = self.settings.record
        return folder is None or (folder / _recording(part.script, part.target)).is_file()

    def run_script(self, script: Script, text: str, chosen: Sequence[CaseArms]) -> ScriptResult:
        """Lower, ask the oracle, play and judge the chosen cases of one script on one target.

        Where candidates for goldens are asked for, the script's is written last. What the system refuses to write is
        told in the result and takes nothing from the verdict.
        """
        from evseq.replay.keep import keep

        unwritten: list[str] = []

        assert self._shelf is not None
        target = self.target(text)
        target.begin()
        shelved = self._shelf.find(script, target)
        forced = self._forced(shelved)
        group = self._observed(script, target, chosen, forced)
        if self.settings.record is not None:
            with _told(unwritten):
                keep(
                    self.settings.record / _recording(script, text),
                    script=script,
                    target=target,
                    chosen=chosen,
                    group=group,
                    golden=None if shelved is None else shelved.facts(),
                    forced=forced,
                )
        held = self.settings.goldens.flags
        labels = [label(script, case, text, in_memory=target.in_memory, held=held) for case in chosen]
        standard = None if shelved is None else shelved.standard(group.tree)
        result = observed_cases(script, labels, target.description, chosen, group, golden=standard)
        if shelved is not None:
            with _told(unwritten):
                result = replace(result, cases=self._witnessed(result.cases, group, target, shelved))
        entries = self.known(script)
        result = replace(
            result,
            cases=tuple(marked(case, entries) for case in result.cases),
            stamp=self._stamp(Part(script=script, target=text, chosen=tuple(chosen)), shelved),
        )
        if shelved is not None and self.settings.goldens.update and group.broken is None:
            with _told(unwritten):
                result = replace(result, candidates=self._candidates(script, target, shelved, result.cases))
        # What is not whole is not stamped, so that a run which goes on makes it again.
        return replace(result, unwritten=tuple(unwritten), stamp="" if unwritten else result.stamp)

    def _stamp(self, part: Part, shelved: Shelved | None) -> str:
        return stamp(
            part,
            identity=self.identity(part.target),
            threads=self.settings.threads,
            record=self.settings.record,
            goldens=self.settings.goldens,
            shelved=shelved,
            known=self.known(part.script),
        )

    def _witnessed(self, cases: tuple[Case, ...], group: Group, target: Target, shelved: Shelved) -> tuple[Case, ...]:
        """Compare the rounding of a script that has a golden with what it was on machines of this kind."""
        from evseq.golden.witnessing import witnessed

        if shelved.golden is None:
            return cases
        return witnessed(
            cases,
            group=group,
            target=target,
            histories=shelved.golden.histories,
            folders=shelved.witnesses,
            numerics=self._numerics,
            write=self.settings.goldens.witness,
        )

    def _candidates(self, script: Script, target: Target, shelved: Shelved, judged: Sequence[Case]) -> tuple[str, ...]:
        from evseq.golden.making import propose

        assert self._shelf is not None
        identity = self._shelf.identity(target)
        if isinstance(identity, str):  # then the script's cases fail by that
            return ()
        whole = replace(script, picks=())  # a golden is of all cases, whichever are played
        of = len(cases(whole, target.description, engine=target.name, mode=self.settings.mode))
        terms = self.settings.goldens
        written = propose(whole, target, shelved, terms=terms, identity=identity, judged=judged, of=of)
        return (str(written),) if written else ()

    def _forced(self, shelved: Shelved | None) -> Mapping[tuple[int, ...], int]:
        """Return the greedy ids that a golden keeps; a run that makes another lets the model choose."""
        if shelved is None or shelved.golden is None or self.settings.goldens.update:
            return {}
        return shelved.golden.greedy

    def _observed(
        self,
        script: Script,
        target: Target,
        chosen: Sequence[CaseArms],
        forced: Mapping[tuple[int, ...], int],
    ) -> Group:
        from evseq.replay.group import observe, unreferenced

        lower = partial(lowering.lower, script, chosen, description=target.description, tokenize=target.tokenize)
        try:
            lowered = lower(greedy=lambda tokens: forced[tokens] if tokens in forced else target.greedy(tokens))
        except UnusableError as error:  # what the deciding dtype would choose cannot be known
            return unreferenced(lower(), str(error))
        try:
            folder = tempfile.TemporaryDirectory(prefix="evseq-")
        except OSError as error:
            raise NotWritable(error.filename or "TMPDIR", f"cannot be written: {error.strerror}") from None
        with folder as name:
            return observe(lowered, target=target, folder=Path(name))


@contextlib.contextmanager
def _told(unwritten: list[str]) -> Iterator[None]:
    """Note what cannot be written, for want of room or since its name is a link's, and go on."""
    try:
        yield
    except Damage as error:
        unwritten.append(str(error))


def _recording(script: Script, target: str) -> str:
    """Return a name that tells script and target; the digits keep apart what the rest would not."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{script.name}.{target}")
    digits = hashlib.sha256(f"{script.source.file}\n{target}".encode()).hexdigest()[:8]
    return f"{safe}.{digits}.recording.safetensors"
