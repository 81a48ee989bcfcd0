"""Making: the candidate of one script, from truth over every arm, whatever the run selected."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch

from evseq.cache.canonical import Scalar
from evseq.engines.registry import healthy
from evseq.errors import UsageError
from evseq.geometry import Dtype
from evseq.golden.candidate import Candidate, Change, JudgedCase, Told, Use, remove, store
from evseq.golden.drift import drift
from evseq.golden.forms import form_of
from evseq.golden.golden import Golden
from evseq.golden.histories import arranged
from evseq.golden.lock import locked
from evseq.golden.root import Root
from evseq.golden.shelf import Shelved
from evseq.golden.terms import Terms
from evseq.golden.working_tree import commit, unclean
from evseq.replay.contents import same_bits
from evseq.replay.group import truths
from evseq.replay.references import References
from evseq.replay.target import Target
from evseq.script.cases import cases
from evseq.script.compose import Keys
from evseq.script.document import Script
from evseq.script.library import PATTERN
from evseq.script.lower import Lowered, lower
from evseq.script.steps import Draw, Feed, Load, Plan
from evseq.verdict.allowance import allowance
from evseq.verdict.result import Case, Check, Outcome

__all__ = ["check_writing", "propose"]


def check_writing(terms: Terms, work: Iterable[tuple[Script, str]]) -> None:
    """Raise UsageError where a run of these scripts on these targets could not write what `terms` ask for."""
    if terms.root is None:
        raise UsageError("no folder of goldens to write to\n  help: give Terms a root")
    check_folder(terms.root)
    files: dict[tuple[str, str], str] = {}
    for script, target in work:
        if healthy(target) != target:
            raise UsageError(
                f"{target}: nothing is kept of a planted fault\n  help: name the target without it, or leave "
                "--update-goldens and --update-witness out"
            )
        if not Path(script.source.file).match(PATTERN):
            raise UsageError(
                f"{script.source.file}: nobody would find the script of its golden again\n"
                f"  help: call it {Path(script.source.file).stem}.evseq.yaml"
            )
        file = files.setdefault((script.name, target), script.source.file)
        if file != script.source.file:
            raise UsageError(
                f"{script.source.file}: name: {file} is called {script.name!r} too, and goldens go by name\n"
                "  help: give one of them another name"
            )


def propose(
    script: Script,
    target: Target,
    shelved: Shelved,
    *,
    terms: Terms,
    identity: Mapping[str, Scalar],
    judged: Sequence[Case],
    of: int | None = None,
) -> Path | None:
    """Write a candidate for `script` and return its file; None where nothing would change, or nothing is supported.

    An older candidate goes in any case: it was made of something else.
    Truth is computed twice over the product of all arms. `judged` are the cases of the run, which a review is told of,
    `of` is how many there would have been without a filter.
    Raises CacheError where the folder refuses, UnusableError where the model does.
    """
    assert terms.root is not None
    root = Root(folder=terms.root)
    made = _made(script, target, shelved, terms=terms)
    change = None if made is None else _change(made.golden, shelved)
    if made is None or change is None:
        with locked(root.folder):
            remove(root, shelved.place)
        return None
    candidate = Candidate(
        model=shelved.place.model,
        revision=shelved.place.revision,
        script=script.name,
        seal="",  # known once it is written
        change=change,
        target=target.text,
        made=datetime.now(UTC).replace(microsecond=0),
        commit=commit(root.folder),
        unclean=unclean(root.folder, besides=root.folder),
        libraries=_libraries(identity),
        processor=_processor(identity),
        weights=str(identity["weights.source"]),
        finite=made.golden.logits.finite,
        repeats=made.repeats,
        cases=tuple(_case(case) for case in judged),
        uses=made.uses,
        of=of if of is not None and of > len(judged) else None,
    )
    return store(root, made.golden, candidate)


def check_folder(folder: Path) -> None:
    """Raise UsageError, before anything takes long, where no golden or witness could be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"a golden")
    except OSError as error:
        raise UsageError(
            f"{folder}: goldens cannot be written: {error.strerror}\n  help: name a folder you may write to"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    golden: Golden
    repeats: bool
    uses: tuple[Use, ...]


def _made(script: Script, target: Target, shelved: Shelved, *, terms: Terms) -> _Made | None:
    greedy: dict[tuple[int, ...], int] = {}

    def choose(tokens: tuple[int, ...]) -> int:
        greedy[tokens] = target.greedy(tokens)
        return greedy[tokens]

    description = target.description
    every = cases(script, description, engine=target.name, mode="all")
    lowered = lower(script, every, description=description, tokenize=target.tokenize, greedy=choose)
    references = truths(lowered, target)
    if references is None:
        return None
    again = truths(lowered, target)
    histories, nodes = arranged(lowered.tree, references.nodes)
    places = references.places(nodes)
    truth = references.truth[places]  # row vocab
    golden = Golden(
        script=script.name,
        identity=shelved.identity,
        histories=histories,
        logits=form_of(terms.form, truth),
        allowed=_allowed(references)[places].float(),
        greedy=greedy,
        deciding=description.deciding,
        layers=references.layers,
    )
    rows = {node: row for row, node in enumerate(nodes)}
    return _Made(
        golden=golden,
        repeats=again is not None and same_bits(again.truth, references.truth),
        uses=_uses(script, lowered, rows),
    )


def _allowed(references: References) -> torch.Tensor:
    """Return what each history may be off in the deciding dtype, float32's rounding of the file included."""
    return allowance(references.deciding.dtype, references) + Dtype.FLOAT32.epsilon * references.scale


def _change(now: Golden, shelved: Shelved) -> Change | None:
    before = shelved.golden
    if before is None:
        return Change.CHANGED if shelved.known else Change.NEW
    moved = drift(now, before)
    if moved.added or moved.removed or not moved.share <= 1:
        return Change.CHANGED
    settled = type(now.logits) is type(before.logits) and (now.deciding, now.layers) == (before.deciding, before.layers)
    return None if settled else Change.FORMAT


def _uses(script: Script, lowered: Lowered, rows: Mapping[int, int]) -> tuple[Use, ...]:
    """Return which rows of the golden each event feeds, over all plans, in the order of the events."""
    fed: dict[Keys, dict[tuple[str, int, int], None]] = {}
    words: dict[Keys, str] = {}
    for plan in (plan for plan in lowered.plans if isinstance(plan, Plan)):
        for step in plan.steps:
            turn = plan.turns[step.event]
            match step:
                case Feed():
                    feeds: tuple[Feed, ...] = (step,)
                case Load():
                    feeds = step.feeds
                case Draw() if step.refused is None:
                    feeds = (step.whole,)
                case _:
                    feeds = ()
            for feed in feeds:
                words[turn.path] = turn.event.word
                used = fed.setdefault(turn.path, {})
                for row, nodes, indices in zip(feed.rows, feed.nodes, feed.indices, strict=True):
                    for node, index in zip(nodes, indices, strict=True):
                        if node >= 0:
                            used[row, index, rows[node]] = None
    return tuple(
        Use(
            event=words[path],
            place=str(script.place((*path, words[path]), key=True)),
            rows=tuple(sorted(fed[path])),
        )
        for path in sorted(fed)
    )


def _case(case: Case) -> JudgedCase:
    first: dict[tuple[str, str], Told] = {}
    for found in case.findings:
        if found.check is not Check.GOLDEN:  # what a candidate is made to change
            told = Told(check=found.check, place=found.place, message=str(found))
            first.setdefault((told.check, told.place), told)
    unmoved = case.outcome is Outcome.FAILED and not first
    outcome = Outcome.PASSED if unmoved else case.outcome
    dtype = Dtype(case.dtype) if case.dtype else None
    return JudgedCase(id=case.id, outcome=outcome, dtype=dtype, told=tuple(first.values()))


def _libraries(identity: Mapping[str, Scalar]) -> dict[str, str]:
    said = identity.get("numeric.library")
    libraries = {name: str(number) for name, number in said.items()} if isinstance(said, dict) else {}
    return {"evseq": version("evseq"), "python": platform.python_version(), **libraries}


def _processor(identity: Mapping[str, Scalar]) -> str:
    """Return the kind of device, and what decides which kernels run on it."""
    device = str(identity.get("numeric.device"))
    if device == "cuda" and torch.cuda.is_available():
        return f"{device}, {torch.cuda.get_device_name()}"
    return f"{device}, {platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"
