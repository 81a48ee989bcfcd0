"""Prove that each fault is caught by what its catalogue names: without the check, or without the event, it is not.

The same for the identity: without a field in the comparison, scripts that expect it to be refused turn red. Only the
pairs concerned are played, on scratch copies of scripts and with switches inside this process.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

from evseq.cache.fields import FIELDS
from evseq.cache.identity import Difference, Identity, compare
from evseq.crew import done
from evseq.errors import ScriptError
from evseq.faults.catalogue import FAULTS
from evseq.faults.fault import Fault, Side
from evseq.pipeline import Run, Settings, read_scripts
from evseq.script.document import Script, parse, unparse
from evseq.script.events import Expect, Process, Reload, Reuse
from evseq.script.library import SUITE
from evseq.script.source import parse_yaml
from evseq.verdict.checks import CHECKS
from evseq.verdict.result import Check, Finding

SILENT = "nothing is found"

IMPOSSIBLE = "no script is left"

Lead = tuple[str, str] | str
"""Event and check of the finding that leads, or why none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What leads for one fault in the script it names: as it is, without the check, without the event."""

    fault: str
    named: Lead
    intact: Lead
    unchecked: Lead
    uneventful: Lead

    @property
    def holds(self) -> bool:
        """Whether the named finding leads, and only as long as check and event are there."""
        return self.intact == self.named and self.named not in (self.unchecked, self.uneventful)


def prove(name: str) -> Proof:
    """Play the one pair of script and fault three times."""
    fault = FAULTS[name]
    script = own(fault.catches.script, goldens=fault.side is Side.BOTH)
    target, arms = next(iter(fault.shows.items()))
    text = f"{target}+{name}"
    with without_check(fault.catches.check):
        unchecked = leading(script, text, arms)
    return Proof(
        fault=name,
        named=(fault.catches.event, fault.catches.check),
        intact=leading(script, text, arms),
        unchecked=unchecked,
        uneventful=without_event(script, fault, text, arms),
    )


def own(name: str, *, goldens: bool) -> Script:
    """Read a script of the suite, as somebody's own unless goldens are to take part."""
    file = SUITE / f"{name}.evseq.yaml"
    return parse(parse_yaml(file.read_text(encoding="utf-8"), file=str(file) if goldens else file.name))


def leading(script: Script, target: str, arms: Mapping[str, str]) -> Lead:
    """Return what leads in the first red case of the deciding arm, case by case."""
    only = {"dtype": ("float64",)} | {name: (value,) for name, value in arms.items()}
    with Run(Settings(only=only)) as running:
        for chosen in running.selected(script, target):
            for case in running.run_script(script, target, (chosen,)).cases:
                if case.findings:
                    return lead(case.findings[0])
    return SILENT


def lead(finding: Finding) -> Lead:
    """Return what tells a finding from others of its script."""
    return finding.event, finding.check


@contextmanager
def without_check(check: Check) -> Iterator[None]:
    """Take a check away."""
    with patch.dict(CHECKS):
        del CHECKS[check]
        yield


def without_event(script: Script, fault: Fault, target: str, arms: Mapping[str, str]) -> Lead:
    """Take the event's word out of a copy of the script; mostly what is left says nothing any more."""
    rest = tuple(event for event in script.events if event.word != fault.catches.event)
    try:
        copy = parse(parse_yaml(unparse(replace(script, events=rest)), file=script.source.file))
        return leading(copy, target, arms)
    except ScriptError:
        return IMPOSSIBLE


@contextmanager
def without_field(name: str) -> Iterator[None]:
    """Take a field out of the comparison of identities."""

    def forgetful(recorded: Identity, asked: Identity) -> tuple[Difference, ...]:
        return tuple(difference for difference in compare(recorded, asked) if difference.field != name)

    with patch("evseq.cache.guard.compare", forgetful):
        yield


Pair = tuple[str, Script | None, Mapping[str, str]]
"""A field, a script that expects it to be refused, if there is one, and the arms in which it does."""


def field_pairs() -> Iterator[Pair]:
    """Yield each field with every script of the suite that expects it to be refused, or with none."""
    refusals: list[Pair] = [
        (field, script, arms) for script in read_scripts([], suite=True) for field, arms in refused(script).items()
    ]
    for name in FIELDS:
        pairs = [pair for pair in refusals if pair[0] == name]
        yield from pairs or [(name, None, {})]


def refused(script: Script) -> dict[str, Mapping[str, str]]:
    """Return the fields a script expects to be refused, each with its arms; in this process, where the switch is."""
    found: dict[str, Mapping[str, str]] = {}
    for event in script.events:
        match event:
            case Reload(process=Process.FRESH):
                pass
            case Reload(expect=Expect(refused=str(word))) | Reuse(expect=Expect(refused=str(word))):
                arm = None if word in FIELDS else script.arms[word]
                found |= {word: {}} if arm is None else {str(value): {word: str(value)} for value in arm.values}
            case _:
                pass
    return found


def main() -> int:
    """Tell every proof and return 1 if any does not hold."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("faults", nargs="*", help="names of faults, all if left out")
    arguments.add_argument("-n", dest="workers", type=int, default=1, help="processes that share the work")
    given = arguments.parse_args()
    names = given.faults or list(FAULTS)
    proofs = dict(done(prove, names, workers=given.workers))
    for _, proof in sorted(proofs.items()):
        print(
            f"{word(proof.holds)}  {proof.fault}: {told(proof.named)}; as it is {told(proof.intact)}; "
            f"without the check {told(proof.unchecked)}; without the event {told(proof.uneventful)}"
        )
    pairs = [] if given.faults else list(field_pairs())
    fields = dict(done(prove_field, pairs, workers=given.workers))
    for _, field in sorted(fields.items()):
        print(
            f"{word(field.holds)}  {field.name} in {field.script}: as it is {told(field.intact)}; "
            f"without the field {told(field.without)}"
        )
    held = sum(proof.holds for proof in proofs.values())
    print(f"{held} of {len(proofs)} faults are caught by the event and the check they name, and only by those")
    if fields:
        seen = {field.name for field in fields.values() if field.holds}
        print(f"{len(seen)} of {len(FIELDS)} fields are missed once they are out of the comparison")
    fields_hold = all(field.holds for field in fields.values())
    return 0 if fields_hold and held == len(proofs) else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProof:
    """What leads on a healthy engine in a script that expects a field to be refused: as it is, without the field."""

    name: str
    script: str
    intact: Lead
    without: Lead

    @property
    def holds(self) -> bool:
        """Whether the healthy engine is silent, and a request that should be refused is not once nobody compares it."""
        return self.intact == SILENT and self.without in (("reload", Check.REFUSAL), ("reuse", Check.REFUSAL))


def prove_field(pair: Pair) -> FieldProof:
    """Play a script with a field in the comparison, and out of it."""
    name, script, arms = pair
    if script is None:
        return FieldProof(name=name, script="no script", intact=IMPOSSIBLE, without=IMPOSSIBLE)
    target = "reference:window" if "window" in script.needs else "reference:full"
    intact = leading(script, target, arms)
    with without_field(name):
        without = leading(script, target, arms)
    return FieldProof(name=name, script=script.name, intact=intact, without=without)


def word(holds: bool) -> str:  # noqa: FBT001 - what it is called with says it
    """Return how a line begins."""
    return "holds" if holds else "FAILS"


def told(what: Lead) -> str:
    """Return event and check as a reader sees them."""
    return what if isinstance(what, str) else ": ".join(what)


if __name__ == "__main__":
    sys.exit(main())
