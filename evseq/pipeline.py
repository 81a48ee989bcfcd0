"""The pipeline: read, select, check, play, judge, in this order. `Run.run_script` has the stages of one script."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from evseq import checking
from evseq.checking import engine_name, read_scripts
from evseq.engines.registry import find, targets
from evseq.errors import UsageError
from evseq.golden.terms import Terms
from evseq.judging import observed_cases
from evseq.part import Part, ScriptResult, Watcher
from evseq.playing import play
from evseq.replay.opening import described
from evseq.run_settings import Settings
from evseq.running import Run
from evseq.script.cases import CaseArms, cases
from evseq.script.document import Script
from evseq.script.filters import check_filters, check_offered
from evseq.verdict.known import known_file, marked, read_known, unmatched
from evseq.verdict.label import label
from evseq.verdict.result import Case, Check, Finding, Forwards, Result

__all__ = ["Run", "ScriptResult", "Settings", "Watcher", "check", "judge", "qualify", "read_scripts", "run", "selected"]


# -- selecting, checking: no torch ------------------------------------------------------------------------------------


def selected(script: Script, target: str, settings: Settings) -> tuple[CaseArms, ...]:
    """Return the cases of `script` on one target."""
    description = described(target, find(target))
    return cases(script, description, engine=engine_name(target), mode=settings.mode, only=settings.only)


def check(scripts: Sequence[Script], target: str | None, settings: Settings) -> None:
    """Check every case of every script without a forward; symbolically without a target.

    Raises ScriptError with the problems of all scripts.
    """
    checking.check(scripts, target, mode=settings.mode)


# -- running -----------------------------------------------------------------------------------------------------------


def qualify(
    target: str | object = "reference",
    scripts: str | Path | Sequence[str | Path] = "suite",
    *,
    settings: Settings | None = None,
    watch: Watcher | None = None,
) -> Result:
    """Qualify a target, or a model in memory, with the shipped suite or with scripts of your own.

    `scripts="quick"` are the cheapest cases of the suite that together catch every planted fault, nearly all in the
    dtype that decides: they say little about others.
    `target` is text (`reference`, `reference:window`, `transformers:FOLDER`, `MODULE:ATTRIBUTE`), a loader, or a
    transformers model. Raises ScriptError, TargetError; what the model does wrong is in the result.
    """
    suite, quick = scripts == "suite", scripts == "quick"
    named = [] if suite or quick else [scripts] if isinstance(scripts, str | Path) else scripts
    read = read_scripts(named, suite=suite, quick=quick)
    # Nobody needs to name the default; scripts about targets of their own need nothing judged on it.
    held = settings or Settings()
    return run(read, [target], settings=held, watch=watch, standing=target == "reference", tidy=suite)


def run(
    scripts: Sequence[Script],
    targets: Sequence[str | object],
    *,
    settings: Settings,
    watch: Watcher | None = None,
    standing: bool = False,
    said: str = "only",
    tidy: bool = False,
    kept: Sequence[ScriptResult] | None = None,
) -> Result:
    """Run `scripts` on `targets`: theirs where a script names its own. One-head arithmetic comes first.

    On every target something must be judged. Those that are `standing`, of every run and not asked for in this one, are
    passed over where all scripts name their own. `said` is who says the filters of arms, as a message begins. Where the
    project's goldens must be `tidy`, what is wrong with them besides is a finding. So is, where neither a filter nor
    picks leave cases out, an `allow` that tolerates nothing. `kept` are results of an earlier run: what would come out
    the same again is taken from them.

    Raises ScriptError, TargetError; UsageError for a filter that fits nothing, and where `record` cannot be written.
    """
    from evseq.verdict.arithmetic import one_head
    from evseq.verdict.judged import judged

    started = time.perf_counter()
    check_filters(scripts, settings.only, targets=targets, said=said)
    if settings.record is not None:
        _refuse_unwritable(settings.record)
    _refuse_in_memory(targets, settings)
    arithmetic = one_head()
    with Run(settings) as running:
        given = _singles(running, targets)
        pairs = _pairs(scripts, given, by_text=all(isinstance(target, str) for target in targets))
        parts = _parts(scripts, pairs, running, said=said)
        entries = {entry.place: entry for script in scripts for entry in running.known(script)}
        running.check(parts)
        played = play(parts, running, watch=watch, kept=kept)
        done = [played.ended[place] for place in sorted(played.ended)]
        cases = tuple(case for result in done for case in result.cases)
        run_on = tuple(dict.fromkeys(part.target for part in parts))
        candidates = tuple(path for result in done for path in result.candidates)
        untidy = _untidy(settings.goldens, besides=candidates) if tidy else ()
        asked = {} if standing and all(script.targets for script in scripts) else given
        whole = not settings.only and len(done) == len(parts)
        return Result(
            cases=cases,
            targets=tuple(dict.fromkeys([*(single for singles in asked.values() for single in singles), *run_on])),
            judged=tuple(judged(text, running.target(text).description, cases) for text in run_on),
            forwards=sum((result.forwards for result in done), Forwards()).settled(),
            seconds=time.perf_counter() - started,
            findings=(*arithmetic, *untidy, *played.findings, *(_idle(scripts, cases) if whole else ())),
            interrupted=played.interrupted,
            threads=settings.threads,
            asked=tuple(asked),
            candidates=candidates,
            unmatched=unmatched(entries.values(), cases),
            cancelled=played.cancelled,
            lost=tuple(played.lost),
            unwritten=tuple(message for result in done for message in result.unwritten),
        )


def _idle(scripts: Sequence[Script], cases: Sequence[Case]) -> tuple[Finding, ...]:
    """Find every `allow` that tolerates nothing in any case; scripts of which only picks are played are passed over."""
    from evseq.verdict.allowed import idle

    few = {script.source.file for script in scripts if script.picks}
    return idle(case for case in cases if case.file not in few)


def _untidy(terms: Terms, *, besides: Sequence[str]) -> tuple[Finding, ...]:
    """Find what is wrong in the project's folder of goldens, candidates aside that were written just now."""
    from evseq.golden.root import Root
    from evseq.golden.scripts import known_scripts
    from evseq.golden.status import status

    if terms.root is None or terms.project is None or not terms.root.is_dir():
        return ()
    found = status(Root(folder=terms.root, store=terms.store), scripts=known_scripts(terms.project))
    return tuple(
        Finding(check=Check.GOLDEN, place=path, event="", step=0, row=None, index=None, message=message)
        for path, message in found.problems
        if path not in besides
    )


def judge(path: Path, *, goldens: Terms | None = None, known: Path | None = None) -> Result:
    """Judge a kept recording again, without the model, and hold it to the goldens there are now.

    `known` is a file of known failures, looked for as in a run. Raises CacheError for a damaged file.
    """
    from evseq.golden.shelf import Shelf
    from evseq.replay.keep import kept
    from evseq.verdict.judged import judged

    started = time.perf_counter()
    held = kept(path)
    labels = [label(held.script, case, held.target, in_memory=held.in_memory) for case in held.chosen]
    shelf = Shelf(terms=goldens or Terms())
    standard = None if held.golden is None else shelf.again(held.script, held.golden).standard(held.group.tree)
    result = observed_cases(held.script, labels, held.description, held.chosen, held.group, golden=standard)
    file = known_file(held.script, known)
    entries = read_known(file) if file else ()
    cases = tuple(marked(case, entries) for case in result.cases)
    return Result(
        cases=cases,
        targets=(held.target,),
        judged=(judged(held.target, held.description, cases),),
        forwards=result.forwards.settled(),
        seconds=time.perf_counter() - started,
        threads=held.threads,
        asked=(held.target,),
    )


# -- small questions ---------------------------------------------------------------------------------------------------


def _refuse_unwritable(folder: Path) -> None:
    """Raise UsageError, before anything takes long, where no recording could be kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"a recording")
    except OSError as error:
        raise UsageError(
            f"{folder}: recordings cannot be written: {error.strerror}\n  help: name a folder you may write to"
        ) from None


def _refuse_in_memory(targets: Sequence[str | object], settings: Settings) -> None:
    """Raise UsageError where other processes are to open what only this one has."""
    if all(isinstance(target, str) for target in targets):
        return
    if settings.scheduler is not None:
        raise UsageError("other processes cannot open a model in memory\n  help: name no scheduler")
    if settings.workers > 1:
        raise UsageError("other processes cannot open a model in memory\n  help: leave the number of workers at 1")


def _singles(running: Run, named: Sequence[str | object]) -> dict[str, tuple[str, ...]]:
    """Return the texts of single targets by what was named; an engine's name stands for several."""
    singles: dict[str, tuple[str, ...]] = {}
    for target in named:
        texts = tuple(
            running.target(single).text for single in (targets(target) if isinstance(target, str) else (target,))
        )
        singles[target if isinstance(target, str) else texts[0]] = texts
    return singles


def _pairs(scripts: Sequence[Script], given: Mapping[str, Sequence[str]], *, by_text: bool) -> list[tuple[str, Script]]:
    """Pair targets with scripts, target by target. A script that names its own targets is about those.

    An object in memory, not given `by_text`, plays those scripts too.
    """
    singles = dict.fromkeys(single for texts in given.values() for single in texts)
    own = [single for script in scripts for single in _own(script)] if by_text else []
    return [
        (text, script)
        for text in dict.fromkeys([*singles, *own])
        for script in scripts
        if (text in _own(script) if script.targets and by_text else text in singles)
    ]


def _parts(scripts: Sequence[Script], pairs: Sequence[tuple[str, Script]], running: Run, *, said: str) -> list[Part]:
    """Return the pairs of which a case is chosen. Raises UsageError for a filter that no case could ever fit."""
    offered = {text: running.target(text).description for text, _ in pairs}
    check_offered(scripts, running.settings.only, offered=offered, said=said)
    return [
        Part(script=script, target=text, chosen=chosen)
        for text, script in pairs
        if (chosen := running.selected(script, text))
    ]


def _own(script: Script) -> list[str]:
    return [single for target in script.targets for single in targets(target)]
