"""Stamp: a digest of all that the outcome of one script on one target depends on.

Two runs whose stamps are equal would say the same, times aside. What the code of an engine does is not looked at, only
the versions of libraries; nor are witnesses, by which nothing fails.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evseq import versions
from evseq.cache.canonical import Scalar, canonical
from evseq.part import Part
from evseq.script.document import Each, Script, TextFile

if TYPE_CHECKING:
    from evseq.golden.shelf import Shelved
    from evseq.golden.terms import Terms
    from evseq.verdict.known import Entry

__all__ = ["row_files", "stamp"]


def stamp(
    part: Part,
    *,
    identity: Mapping[str, Scalar] | str,
    threads: int,
    record: Path | None,
    goldens: Terms,
    shelved: Shelved | None,
    known: Sequence[Entry],
) -> str:
    """Return the stamp of a part. `identity` is that of the opened model, or why it has none."""
    store = goldens.store and goldens.store.url
    terms = (goldens.root, store, goldens.revision, goldens.require, goldens.update, goldens.witness, goldens.form)
    told = {
        "versions": [versions.evseq(), versions.libraries()],
        "script": [part.script.source.file, part.script.source.text, _digests(part.script)],
        "target": part.target,
        "model": identity if isinstance(identity, str) else hashlib.sha256(canonical(dict(identity))).hexdigest(),
        "arms": [dict(case.arms) for case in part.chosen],
        "threads": threads,
        "record": str(record),
        "goldens": [*map(str, terms), repr(goldens.targets.get(part.target))],
        "golden": None if shelved is None else [str(shelved.place), shelved.required, _seal(shelved)],
        "known": [repr(entry) for entry in known if entry.script == part.script.name],
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _seal(shelved: Shelved) -> str:
    return shelved.missing if shelved.golden is None else shelved.golden.seal


def row_files(script: Script) -> Mapping[str, Path]:
    """Return the files that rows are read from, by the names the script gives them."""
    names = [
        row.file if isinstance(row, TextFile) else row.each
        for row in script.rows.values()
        if isinstance(row, TextFile | Each)
    ]
    folder = Path(script.source.file).parent
    return {name: folder / name for name in names}


def _digests(script: Script) -> Mapping[str, str]:
    return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in row_files(script).items()}
