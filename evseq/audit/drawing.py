"""Drawing: the suite's scripts with other rows, on which a healthy engine must be as silent as on their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from evseq.script.document import Ids, Random, RowSource, Script
from evseq.script.number import evaluate

__all__ = ["REPEATED", "drawn"]

REPEATED = 0
"""In place of a seed: each row is one token, over and over, behind another. Without that, nothing ever changes: an
attention over equal values is that value, whatever is seen."""

APART = 1000
"""Between the seeds of a row; the suite's own are smaller."""

CHANGES = frozenset({"mutate", "mutate-prefix-token"})
"""Events that change what a repeated token may hide: another mask, position or order of equal tokens shows nothing."""


def drawn(script: Script, seed: int, *, window: int | None) -> Script | None:
    """Return `script` with every random row drawn from another seed, or REPEATED; None if that is not another script.

    What comes of it is nobody's golden. It goes by the script's name and the seed.
    """
    if seed == REPEATED and CHANGES & {event.word for event in script.events}:
        return None
    rows = {
        name: _drawn(row, seed, number, window=window)
        for number, (name, row) in enumerate(script.rows.items(), start=1)
    }
    if rows == script.rows:
        return None
    # Away from the suite's folder, whose scripts must have goldens.
    source = replace(script.source, file=Path(script.source.file).name)
    return replace(script, name=f"{script.name}@{seed or 'repeated'}", rows=rows, source=source)


def _drawn(row: RowSource, seed: int, number: int, *, window: int | None) -> RowSource:
    match row:
        case Random(length=length) if seed == REPEATED:
            words = {} if window is None else {"window": window}
            return _repeated(number, evaluate(length, words=words, arms={}) or 1)
        case Ids(ids=ids) if seed == REPEATED:
            return _repeated(number, len(ids))
        case Random(seed=int(own)):
            return replace(row, seed=own + APART * seed)
        case _:
            return row


def _repeated(token: int, length: int) -> Ids:
    return Ids(ids=(0, *(token,) * (length - 1)))
