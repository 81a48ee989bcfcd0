"""Every row's own operations, alone: what is replayed, and what of it is one and the same."""

from __future__ import annotations

from evseq.engines.registry import find
from evseq.geometry import Dtype
from evseq.replay.recording import Recording
from evseq.replay.solo import solo
from playing import recorded

TEXT = """\
rows:
  a: {random: {length: 14, seed: 1}}
  b: {random: {length: 12, seed: 2}}
  c: {random: {length: 12, seed: 3}}
arms:
  cache: [growing]
events:
  - prefill: {rows: {a: 5, b: 3}}
  - serialize: {to: saved}
  - append: {next: 2}
  - fork: {as: twin}
  - append: {next: 1, on: twin}
  - crop: {by: 1}
  - join: {rows: {c: 4}}
  - append: {next: 1}
  - retire: {rows: [a]}
  - beam-select: {x: c, y: b, z: b}
  - append: {ids: {x: [1], y: [2], z: [3]}}
  - reload: {from: saved, as: again}
  - append: {next: 1, on: again}
  - drop: {}
  - prefill: {rows: {c: 3}}
"""


def lineages(recording: Recording) -> set[int]:
    return {fed.lineage for fed in recording.fed}


def test_every_forward_of_an_exact_cache_is_what_its_rows_give_alone() -> None:
    recording = recorded(TEXT, "reference:full")
    engine = find("reference:full").load(Dtype.FLOAT64, {})

    alone = solo(recording.plan, lineages(recording), engine=engine, vocab=64)

    assert lineages(recording) == set(alone)
    assert max(float((fed.logits - alone[fed.lineage]).abs().max()) for fed in recording.fed) < 1e-12


def test_rows_are_replayed_once_for_each_way_they_end() -> None:
    recording = recorded(TEXT, "reference:full")
    engine = find("reference:full").load(Dtype.FLOAT64, {})

    solo(recording.plan, lineages(recording), engine=engine, vocab=64)

    # Pads counted: a and b of the twin, a until it leaves, b as y and as z, c as x, c alone. What was reloaded is part
    # of what went on without it.
    assert engine.forwarded == 8 + 8 + 8 + 9 + 9 + 6 + 3


def test_nothing_is_replayed_that_was_not_observed() -> None:
    recording = recorded(TEXT, "reference:full")
    engine = find("reference:full").load(Dtype.FLOAT64, {})
    first = recording.fed[0].lineage

    assert set(solo(recording.plan, {first}, engine=engine, vocab=64)) == {first}
    assert engine.forwarded == 5 + 5
    assert solo(recording.plan, (), engine=engine, vocab=64) == {}
    assert engine.forwarded == 5 + 5
