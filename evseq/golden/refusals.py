"""Refusals: why a candidate is not accepted, each with a message of its own and what to do first."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path

from evseq.errors import UsageError, nearest
from evseq.golden.candidate import Candidate
from evseq.golden.golden import Golden
from evseq.golden.ledger import Ledger
from evseq.golden.root import DIGITS, Place, Root
from evseq.golden.terms import Limits, Relation
from evseq.golden.working_tree import unclean
from evseq.verdict.result import Check, Outcome

__all__ = [
    "NAMED",
    "Refused",
    "alone",
    "by_a_person",
    "finite",
    "hint",
    "limited",
    "one_model",
    "present",
    "reasoned",
    "some",
    "sound",
    "waiting",
]

NAMED = 6
"""Most files, candidates, cases or next tokens that are named; the rest are counted."""

AGAIN = "then make the candidate again: --update-goldens"


class Refused(UsageError):
    """Nothing was accepted and nothing has moved. Mend what the message names, then ask again."""


def by_a_person(environment: Mapping[str, str]) -> None:
    """Raise Refused where no person decides."""
    if ci := environment.get("CI"):
        raise Refused(
            f"CI is {ci!r} here: goldens are accepted by a person\n"
            "  help: take the candidates to a desk: their review needs neither the model nor its device"
        )


def reasoned(reason: str) -> None:
    """Raise Refused where nobody says why."""
    if not any(letter.isalnum() for letter in reason):  # blanks may have any width, none included
        raise Refused('no reason given\n  help: tell the ledger why these logits are right now: --reason "..."')


def limited(relation: Relation | None, *, limits: bool) -> None:
    """Raise Refused for limits on anything but an approximation."""
    if limits and relation is not Relation.APPROXIMATED:
        raise Refused("limits, but of no approximation\n  help: leave them out, or say --relation approximated")


def finite(limits: Limits | None) -> None:
    """Raise Refused for a limit that nothing could exceed, or anything does."""
    for flag, number in (
        () if limits is None else zip(("--max-kl", "--max-flips", "--flip-margin"), astuple(limits), strict=True)
    ):
        if not 0 <= number < math.inf:
            raise Refused(f"{flag} {number:g}: is no limit\n  help: write a finite number from 0")


def waiting(root: Root) -> tuple[Place, ...]:
    """Return all candidates, halves included. Raises Refused where there are none."""
    if there := tuple(root.candidates()):
        return there
    raise Refused(f"{root.folder}: no candidates\n  help: `evseq run --update-goldens` writes them")


def present(root: Root, places: Collection[Place]) -> None:
    """Raise Refused where one of these, or any, is not there to decide on."""
    there = [str(place) for place in waiting(root)]
    if not places:
        raise Refused(f"{root.folder}: no candidate is chosen\n  help: {_listed('candidates', there)}")
    for place in map(str, places):
        if place not in there:
            raise Refused(f"{root.folder}: no candidate {place}\n  help: {hint(place, 'candidates', there)}")


def alone(root: Root) -> None:
    """Raise Refused where more than goldens has changed since the last commit."""
    if files := unclean(root.folder, besides=root.folder):
        raise Refused(
            f"tracked files outside {root.folder} have uncommitted changes: {some(files)}: golden changes travel alone"
            "\n  help: commit or stash them first"
        )


def sound(path: Path, candidate: Candidate, golden: Golden) -> None:
    """Raise Refused for a candidate that no reason makes right."""
    if candidate.unclean:
        raise Refused(
            f"{path}: was made while tracked files had uncommitted changes: {some(candidate.unclean)}: no commit "
            f"holds what produced it\n  help: commit them, {AGAIN}"
        )
    if not (candidate.finite and golden.logits.finite):
        raise Refused(f"{path}: holds logits that are not finite\n  help: mend the model or the script, {AGAIN}")
    if not candidate.repeats:
        raise Refused(
            f"{path}: its logits were computed twice and differed\n"
            f"  help: let the model repeat itself bit for bit (one thread, deterministic kernels), {AGAIN}"
        )
    told = [(case.id, one) for case in candidate.cases for one in case.told if one.check != Check.GOLDEN]
    apart = next(((case, one) for case, one in told if one.check == Check.PARITY), None)
    if apart is not None:
        raise Refused(
            f"{path}: oracle and cached path disagree in case {apart[0]}: {apart[1].message}\n"
            f"  help: mend the one that is wrong, {AGAIN}"
        )
    if told:
        case, one = told[0]
        raise Refused(
            f"{path}: check {one.check.value!r} failed in case {case}: {one.message}\n"
            f"  help: mend what it names, {AGAIN}"
        )
    if all(case.outcome == Outcome.UNSUPPORTED for case in candidate.cases):
        raise Refused(f"{path}: no case of its script was judged\n  help: run one that the target supports, {AGAIN}")
    deciding = golden.deciding.dtype
    if not any(case.outcome is Outcome.PASSED and case.dtype is deciding for case in candidate.cases):
        raise Refused(
            f"{path}: no case of its script passed in {deciding}, which decides what is right\n"
            f"  help: let one run in it, --arm dtype={deciding}, {AGAIN}"
        )


def one_model(ledger: Ledger, candidates: Sequence[Candidate]) -> None:
    """Raise Refused where a label would stand for goldens of two models."""
    for new in candidates:
        weights = {script: entry.weights for script, entry in ledger.words(new.revision).items()}
        weights |= {one.script: one.weights for one in candidates if one.place.revision == new.revision}
        for script, other in sorted(weights.items()):
            if other != new.weights:
                raise Refused(
                    f"{new.place}: the model changed under the label {new.revision!r}: weights.source is "
                    f"{new.weights[:DIGITS]}, for {script} it is {str(other)[:DIGITS]}\n"
                    "  help: give the new model a label of its own with --revision, or accept all its scripts at once"
                )


def hint(word: str, what: str, known: Iterable[str]) -> str:
    """Return the next step after a word that is not known."""
    names = list(dict.fromkeys(known))
    close = nearest(word, names)
    return f"did you mean {close!r}?" if close else _listed(what, names)


def some(names: Sequence[str]) -> str:
    """Name the first few, and count the rest."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _listed(what: str, names: Sequence[str]) -> str:
    return f"{what} are {some(names)}" if names else f"there are no {what}"
