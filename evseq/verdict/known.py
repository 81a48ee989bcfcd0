"""Known failures: `known.yaml` says which cases fail, by which check, where that is written up, and why it may stand.

A list of entries:

```yaml
- script: beams-reloaded
  arm: {cache: ring, dtype: [float32, bfloat16]}   # left out: every case
  target: "transformers:*"                         # a pattern: * and ? stand for any
  check: parity
  link: https://example.org/issues/12
  reason: The ring is not reordered; fixed in the next release.
```

A case that fails in exactly the checks of the entries that mean it is `known` and fails no run. One in which such a
check finds nothing fails: what is mended must not stay written down as broken.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evseq.check import Check
from evseq.errors import UsageError
from evseq.script.complaints import Complaints, did_you_mean, show
from evseq.script.compose import Keys, Value
from evseq.script.document import Script
from evseq.script.source import read
from evseq.verdict.result import Case, Finding, Known, Outcome

__all__ = ["Entry", "known_file", "marked", "read_known", "unmatched"]

USUAL = "known.yaml"
"""The file in a script's folder that is read where no other is named."""

KEYS = ("script", "arm", "target", "check", "link", "reason")
NEEDED = tuple(key for key in KEYS if key != "arm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Cases that are known to fail: of a script, in these values of arms, on targets like this one."""

    script: str
    arm: Mapping[str, tuple[str, ...]]
    target: str
    check: Check
    link: str
    reason: str
    place: str

    def means(self, case: Case) -> bool:
        """Return whether it speaks of this case."""
        arms = {name: str(value) for name, value in case.arms.items()}
        return (
            case.script == self.script
            and fnmatch.fnmatchcase(case.target, self.target)
            and all(arms.get(name) in values for name, values in self.arm.items())
        )


def known_file(script: Script, named: Path | None) -> Path | None:
    """Return the file that is named, or `known.yaml` in the script's folder if it is there."""
    usual = Path(script.source.file).parent / USUAL
    return named or (usual if usual.is_file() else None)


def read_known(file: Path) -> tuple[Entry, ...]:
    """Read a file of known failures.

    Raises UsageError where there is none, ScriptError with everything that is wrong in it.
    """
    if not file.is_file():
        raise UsageError(f"{file}: no such file\n  help: name a file of known failures, or leave --known out")
    source = read(file)
    complaints = Complaints(source)
    written = source.data if isinstance(source.data, list) else []
    if not written:
        complaints.add((), f"known failures are a list, not {show(source.data)}", "begin with `- script: NAME`")
    entries = [_entry(data, index, complaints) for index, data in enumerate(written)]
    complaints.done()
    return tuple(entry for entry in entries if entry is not None)


def marked(case: Case, entries: Sequence[Entry]) -> Case:
    """Say of a case that it is known to fail, or that it should have failed and did not."""
    meant = [entry for entry in entries if entry.means(case)]
    if not meant or case.outcome is Outcome.UNSUPPORTED:
        return case
    known = tuple(Known(place=entry.place, check=entry.check, link=entry.link, reason=entry.reason) for entry in meant)
    found = {finding.check for finding in case.findings}
    expected = {entry.check for entry in meant}
    if found == expected:
        return replace(case, outcome=Outcome.KNOWN, known=known)
    if found - expected:
        return replace(case, known=known)
    mended = [_mended(entry) for entry in meant if entry.check not in found]
    return replace(case, outcome=Outcome.FAILED, known=known, findings=(*mended, *case.findings))


def unmatched(entries: Iterable[Entry], cases: Sequence[Case]) -> tuple[str, ...]:
    """Return the places of the entries that mean no case of a run."""
    return tuple(entry.place for entry in entries if not any(entry.means(case) for case in cases))


def _mended(entry: Entry) -> Finding:
    message = f"known to fail ({entry.link}), and nothing is wrong: take this entry out"
    return Finding(check=entry.check, place=entry.place, event="known", step=0, row=None, index=None, message=message)


def _entry(data: Value, index: int, complaints: Complaints) -> Entry | None:
    path: Keys = (index,)
    if not isinstance(data, dict):
        complaints.add(path, f"{show(data)} is no known failure", f"write a mapping of {', '.join(KEYS)}")
        return None
    complaints.keys(path, data, KEYS, label="known", needed=NEEDED)
    texts = {key: _text(data, key, path, complaints) for key in NEEDED}
    check = next((check for check in Check if check == texts["check"]), None)
    if texts["check"] and check is None:
        complaints.add(
            (*path, "check"),
            f"known: no check {texts['check']!r}",
            did_you_mean(texts["check"], tuple(Check), "checks"),
        )
    arm = _arm(data.get("arm"), path, complaints)
    if check is None or arm is None or not all(texts.values()):
        return None
    return Entry(
        script=texts["script"],
        arm=arm,
        target=texts["target"],
        check=check,
        link=texts["link"],
        reason=texts["reason"],
        place=str(complaints.source.place((*path, "script"), key=True)),
    )


def _text(data: Mapping[str, Value], key: str, path: Keys, complaints: Complaints) -> str:
    value = data.get(key)
    if isinstance(value, str) and value.strip():
        return value
    if key in data:
        complaints.add((*path, key), f"known: {key} is {show(value)}, not a text", f"write `{key}: ` and a text")
    return ""


def _arm(data: Value, path: Keys, complaints: Complaints) -> Mapping[str, tuple[str, ...]] | None:
    """Return the values of each arm as texts; nothing given means every case."""
    here = (*path, "arm")
    if data is None:
        return {}
    if not isinstance(data, dict) or not data:
        complaints.add(here, f"known: arm is {show(data)}, not values of arms", "write {name: value}, or leave it out")
        return None
    values: dict[str, tuple[str, ...]] = {}
    for name, value in data.items():
        each = value if isinstance(value, list) else [value]
        if not each or not all(isinstance(one, int | str) and not isinstance(one, bool) for one in each):
            complaints.add(
                (*here, name), f"known: arm {name!r} is {show(value)}, not a value", "write a value, or a list"
            )
            return None
        values[name] = tuple(map(str, each))
    return values
