"""What once passed and must not: faults that show only in one corner of one check."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evseq.cache.guard import Admitted, Refused, admit
from evseq.cache.identity import Difference, Identity
from evseq.engines.reference.engine import ReferenceEngine
from evseq.engines.registry import find
from evseq.geometry import Dtype
from evseq.replay import asking
from evseq.replay.fresh import Fresh
from evseq.replay.target import Target
from evseq.verdict.result import Outcome
from playing import first, lines, played

ROWS = """\
rows:
  a: {random: {length: 10, seed: 1}}
  b: [17, 4, 59, 3, 8, 21]
arms:
  dtype: [float64, bfloat16]
"""

FORK = f"""{ROWS}\
events:
  - prefill: {{rows: {{a: 7, b: 3}}}}
  - fork: {{as: twin}}
  - append: {{next: 1, on: twin}}
"""

SAVED = f"""{ROWS}\
events:
  - prefill: {{rows: {{a: 7, b: 3}}}}
  - serialize: {{to: mid}}
  - reload: {{from: mid, as: again}}
  - append: {{next: 1, on: again}}
"""

CHANGED = f"""{ROWS}\
events:
  - prefill: {{rows: {{a: 7, b: 3}}}}
  - serialize: {{to: mid}}
  - mutate-prefix-token: {{row: b, index: 1, token: 24}}
  - reload: {{from: mid, as: changed, expect: {{refused: prefix.tokens}}}}
"""

BEFORE_ANYTHING = f"""{ROWS}\
events:
  - prefill: {{rows: {{a: 7, b: 3}}, expect: loud}}
"""


def test_a_token_that_vanishes_from_another_session() -> None:
    assert first(played(FORK, "planted.subtle:fork_evicts_from_source")) == (
        "case.evseq.yaml:12:5: append: row 'a' index 0: isolation: "
        "keys or values of session 'main' moved in layer 0 by a step of session 'twin'"
    )


def test_a_forced_cache_that_is_wrong_in_another_way() -> None:
    told = first(played(CHANGED, "planted.subtle:restores_noise"))

    assert told.startswith("case.evseq.yaml:13:5: reload: row 'a' index 7: parity: the stale cache, forced, is off by ")


def test_a_file_of_another_dtype_than_the_engine() -> None:
    assert first(played(SAVED, "planted.subtle:exports_half")) == (
        "case.evseq.yaml:12:5: reload: row 'a' index 0: refusal: "
        "refused for cache.dtype: recorded 'float16', now 'float64', though nothing was changed"
    )


def test_an_engine_of_another_dtype_than_asked_for() -> None:
    told = lines(played(FORK, "planted.subtle:OneDtype", only={"dtype": ("bfloat16",)}))

    assert told == [
        "case.evseq.yaml:10:5: prefill: completed: session 'main': the engine runs in float64, asked for was bfloat16"
    ]


def test_a_model_in_which_no_fault_can_show() -> None:
    assert first(played(FORK, "planted.subtle:Deaf")) == (
        "case.evseq.yaml:10:5: prefill: reference: "
        "truth is the same for every history: no fault can show in a model that never changes"
    )


def test_a_refusal_that_names_what_was_not_changed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def talkative(recorded: Identity, asked: Identity) -> Admitted | Refused:
        told = admit(recorded, asked)
        other = Difference(field="salt", recorded=None, now="x")
        return replace(told, differences=(*told.differences, other)) if isinstance(told, Refused) else told

    monkeypatch.setattr(asking, "admit", talkative)

    assert first(played(CHANGED, "reference:full")) == (
        "case.evseq.yaml:13:5: reload: row 'b' index 1: refusal: "
        "refused for salt: recorded None, now 'x' too, which was not changed"
    )


def test_a_case_in_which_nothing_was_observed() -> None:
    case = played(BEFORE_ANYTHING, "planted.raising:prefill").cases[0]

    assert (case.outcome, case.reason) == (
        Outcome.UNSUPPORTED,
        "raised, as allowed, before anything was observed",
    )


def test_a_default_option_named_is_the_engine_the_oracle_asks() -> None:
    target = Target(text="transformers:new/llama", loader=find("transformers:new/llama"), fresh=Fresh(threads=1))

    assert target.engine(Dtype.FLOAT64, {"attention": "sdpa"}) is target.engine(Dtype.FLOAT64)


def test_a_recording_older_than_a_run_that_had_no_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played(FORK, "reference:full", record=tmp_path)
    monkeypatch.setattr(ReferenceEngine, "uncached", None)

    assert not played(FORK, "reference:full", record=tmp_path).passed
    assert list(tmp_path.iterdir()) == []


def test_greedy_choices_are_counted() -> None:
    script = f"{ROWS}events:\n  - prefill: [a, b]\n  - append: {{greedy: 3}}\n"
    with_greedy = played(script, "reference:full").forwards.reference
    without = played(script.replace("greedy: 3", "ids: {a: [1, 2, 3], b: [1, 2, 3]}"), "reference:full")

    assert with_greedy - without.forwards.reference == 2 * 3
