"""The guard is on the stand too: without it, and with one that refuses everything, the same run fails."""

from __future__ import annotations

import pytest

from evseq.cache.guard import Admitted, Refused
from evseq.cache.identity import Difference, Identity
from evseq.verdict.result import Exit
from playing import lines, played, recorded

FULL = "reference:full"

MUTATED = """\
rows:
  a: {random: {length: 10, seed: 1}}
  b: [17, 4, 59, 3, 8, 21]
arms:
  dtype: [float64, float32]
events:
  - prefill: {rows: {a: 7, b: 3}}
  - serialize: {to: mid}
  - mutate-prefix-token: {row: b, index: 1, token: 24}
  - reload: {from: mid, as: changed, expect: {refused: prefix.tokens}}
  - reload: {from: mid, as: same}
  - append: {next: 2, on: same}
"""


ADMITTED = (
    "case.evseq.yaml:13:5: reload: row 'b' index 1: refusal: reuse was admitted, expected prefix.tokens to be refused"
)
REFUSED = (
    "case.evseq.yaml:14:5: reload: row 'b' index 1: refusal: "
    "refused for prefix.tokens: row 'b' index 1: recorded 4, now 24, though nothing was changed"
)


def everything_refused(*_: Identity) -> Refused:
    """Refuse as if the prefix had changed where it did, whatever is asked."""
    changed = Difference(field="prefix.tokens", row="b", index=1, recorded=4, now=24)
    return Refused(differences=(changed,))


def test_a_changed_prefix_token_is_refused_by_row_and_index_before_any_forward() -> None:
    assert played(MUTATED, FULL, only={}).passed

    refused, admitted = recorded(MUTATED, FULL).asked

    assert [str(difference) for difference in refused.differences] == [
        "prefix.tokens: row 'b' index 1: recorded 4, now 24"
    ]
    assert refused.forwarded == 0
    assert (admitted.differences, admitted.forwarded) == ((), 0)


def test_without_the_guard_the_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evseq.replay.asking.admit", lambda *_: Admitted())

    result = played(MUTATED, FULL, only={})

    assert result.exit is Exit.FAILED
    assert lines(result) == [ADMITTED, ADMITTED]


def test_with_a_guard_that_refuses_everything_the_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evseq.replay.asking.admit", everything_refused)

    result = played(MUTATED, FULL, only={})

    assert result.exit is Exit.FAILED
    assert lines(result) == [REFUSED, REFUSED]


def test_with_a_guard_that_looks_at_one_row_only_the_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evseq.replay.asking.admit", _first_row_only)

    assert lines(played(MUTATED, FULL)) == [ADMITTED]


def _first_row_only(recorded: Identity, asked: Identity) -> Admitted | Refused:
    if recorded.values["prefix.tokens"][0] == asked.values["prefix.tokens"][0]:  # type: ignore[index]
        return Admitted()
    return everything_refused(recorded, asked)
