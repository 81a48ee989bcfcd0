"""Scripts written in a test, played on a target."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

from evseq.pipeline import Run, Settings, Watcher, run
from evseq.replay.group import observe
from evseq.replay.recording import Recording
from evseq.script.document import Script, parse
from evseq.script.lower import lower
from evseq.script.source import parse_yaml
from evseq.verdict.evidence import Evidence
from evseq.verdict.result import Case, Outcome, Result

DOUBLE: Mapping[str, tuple[str, ...]] = {"dtype": ("float64",)}
"""Only the deciding arm."""

ONE = "rows: {a: [1, 2, 3]}\nevents: [{prefill: {rows: {a: 2}}}, {append: {next: 1}}]\n"

ARMS = """\
rows:
  a: {random: {length: 9, seed: 1}}
  b: [17, 4, 59, 3]
arms:
  padding: [left, right]
  cache: [growing, fixed]
  dtype: [float64, float32]
events:
  - prefill: {rows: {a: 7, b: 3}}
  - append: {next: 1}
"""

CROP = """\
rows: {a: [1, 2, 3]}
events: [{prefill: [a]}, {crop: {by: 1}}, {append: {ids: {a: [5]}}}]
"""

ELSEWHERE = """\
rows: {a: [1, 2, 3]}
events:
  - prefill: [a]
  - serialize: {to: mid}
  - reload: {from: mid, process: fresh, as: elsewhere}
  - append: {ids: {a: [5]}, on: elsewhere}
"""
"""A script whose cache goes on in another process."""

NUMBER = r"-?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|inf|nan)"


def script(text: str, *, name: str = "case", file: str | None = None) -> Script:
    """Parse rows, arms and events; they begin in line 4."""
    head = f"evseq: 1\nname: {name}\nabout: A test.\n"
    return parse(parse_yaml(head + dedent(text).lstrip("\n"), file=file or f"{name}.evseq.yaml"))


def played(
    what: str | Script | Sequence[Script],
    *targets: str | object,
    only: Mapping[str, tuple[str, ...]] = DOUBLE,
    record: Path | None = None,
    watch: Watcher | None = None,
) -> Result:
    """Run scripts, or the text of one, on targets."""
    scripts = [script(what)] if isinstance(what, str) else [what] if isinstance(what, Script) else what
    return run(scripts, targets, settings=Settings(only=only, record=record), watch=watch)


def observed(text: str, target: str, *, only: Mapping[str, tuple[str, ...]] = DOUBLE) -> Evidence:
    """Play the first case of a script, and return what there is to judge."""
    parsed = script(text)
    with Run(Settings(only=only)) as running, TemporaryDirectory() as folder:
        opened = running.target(target)
        chosen = running.selected(parsed, target)[:1]
        lowered = lower(parsed, chosen, description=opened.description, tokenize=opened.tokenize, greedy=opened.greedy)
        group = observe(lowered, target=opened, folder=Path(folder))
    (recording,) = group.recordings
    assert isinstance(recording, Recording)
    assert group.references is not None
    return Evidence(recording=recording, references=group.references, script=parsed, description=opened.description)


def recorded(text: str, target: str, *, only: Mapping[str, tuple[str, ...]] = DOUBLE) -> Recording:
    """Play the first case of a script, and return what was observed."""
    return observed(text, target, only=only).recording


def failed(result: Result) -> list[Case]:
    """Return the failed cases."""
    return [case for case in result.cases if case.outcome is Outcome.FAILED]


def lines(result: Result) -> list[str]:
    """Return every finding of every case as it is told."""
    return [str(finding) for case in result.cases for finding in case.findings]


def first(result: Result) -> str:
    """Return how the first failure begins; empty if there is none."""
    return next(iter(lines(result)), "")


def without_numbers(line: str) -> str:
    """Put `#` for logits, their entries, deviations and allowances: what another processor may round otherwise."""
    told = re.sub(rf"\b(logit|off by|off by only|allowed|logits by) {NUMBER}", r"\1 #", line)
    told = re.sub(rf"logit # is {NUMBER}, (expected|accepted) {NUMBER}\b", r"logit # is #, \1 #", told)
    told = re.sub(rf"logit # is {NUMBER} in session", "logit # is # in session", told)
    return re.sub(rf"{NUMBER} times", "# times", told)
