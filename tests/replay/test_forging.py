"""Sound files that say something else in one field: refused for it alone, nothing opened, nobody disturbed."""

from __future__ import annotations

from pathlib import Path

import pytest

from evseq.cache.fields import FIELDS
from evseq.pipeline import judge
from evseq.replay.recording import Recording
from evseq.script.events import Reload
from evseq.script.library import SUITE, read_all
from playing import lines, played, recorded

FULL = "reference:full"

RELOAD = "case.evseq.yaml:9:5: reload: refusal: "


def asking(field: str, *, more: str = "") -> str:
    """Return a script that forges in line 9."""
    return f"""\
    rows:
      a: [17, 4, 59, 3, 8, 21]
    events:
      - prefill: {{rows: {{a: 4}}, salt: ours}}
      - serialize: {{to: mid}}
      - reload: {{from: mid, as: no, forged: {field}{more}, expect: {{refused: {field}}}}}
      - append: {{next: 1}}
      - reload: {{from: mid, as: same}}
      - append: {{next: 1, on: same}}
    """


@pytest.fixture(scope="module")
def healthy() -> Recording:
    return recorded(asking("numeric.library"), FULL)


def test_it_is_refused_for_that_field_alone_before_any_forward(healthy: Recording) -> None:
    refused, admitted = healthy.asked

    assert [difference.field for difference in refused.differences] == ["numeric.library"]
    assert (refused.forwarded, admitted.differences) == (0, ())


def test_nothing_is_opened_and_nobody_moves(healthy: Recording) -> None:
    assert {probed.session for probed in healthy.probed} == {"main", "same"}
    assert healthy.moved == []


def test_a_fresh_process_refuses_it_too() -> None:
    assert lines(played(asking("numeric.library", more=", process: fresh"), FULL)) == []


def test_a_guard_without_the_field_is_found() -> None:
    assert lines(played(asking("numeric.library"), f"{FULL}+guard-without-numeric-library")) == [
        f"{RELOAD}reuse was admitted, expected numeric.library to be refused"
    ]


def test_a_guard_that_blames_another_field_is_found() -> None:
    assert lines(played(asking("format.version"), f"{FULL}+guard-blames-model")) == [
        f"{RELOAD}refused for model.config: recorded 2, now 1, expected format.version"
    ]


def test_what_was_kept_is_judged_alike(tmp_path: Path) -> None:
    result = played(asking("salt"), f"{FULL}+guard-without-salt", record=tmp_path)
    (kept,) = tmp_path.rglob("*.safetensors")

    assert lines(judge(kept)) == lines(result) != []


def test_the_suite_forges_every_field() -> None:
    (script,) = read_all([SUITE / "forged-records.evseq.yaml"])
    assert [event.forged for event in script.events if isinstance(event, Reload) and event.forged] == list(FIELDS)
