"""Faults that real engines had in drafts and in running batches: each script of the suite finds its own, and where."""

from __future__ import annotations

import pytest

from evseq.script.document import Script, parse
from evseq.script.library import SUITE
from evseq.script.source import parse_yaml
from playing import failed, first, played, without_numbers

PARITY = "parity: logit # is #, expected #: off by #, allowed # in float64"
MOVED = "isolation: keys or values of session 'main' moved in layer 0 by its own step"
FORWARDED = "token columns were forwarded, expected none"
JOINLESS = "EngineError: join: a cannot_join has no `join`\n  help: give it one, or do not declare the capability"

FAULTS = {
    "full_ring_keeps_drafts": (
        "speculative-decoding",
        "ring",
        3,
        "row 'a' index 9: accounting: tokens held: 11, expected 10",
    ),
    "fixed_buffer_shrinks": (
        "speculative-decoding",
        "fixed",
        1,
        "row 'a' index 5: accounting: cache bytes: 9216, expected 16896",
    ),
    "one_layer_starts_over": ("speculative-decoding", "growing", 1, f"row 'a' index 0: {MOVED.replace('0', '2')}"),
    "rejected_still_seen": (
        "speculative-decoding",
        "growing",
        1,
        "row 'a' index 5: accounting: tokens held: 7, expected 6",
    ),
    "rollback_recomputes": ("speculative-decoding", "growing", 1, f"row 'a' index 5: accounting: 12 {FORWARDED}"),
    "values_not_filtered": ("rows-leave", "growing", 2, f"row 'b' index 0: {MOVED}"),
    "survivors_requantised": ("rows-leave", "growing", 2, f"row 'b' index 0: {MOVED}"),
    "pads_of_a_joiner_seen": (
        "rows-join",
        "growing",
        2,
        "row 'c' index 0: accounting: tokens held: 6, expected 1",
    ),
    "one_offset_for_all": ("rows-join", "growing", 3, f"row 'b' index 3: {PARITY}"),
    "join_recomputes": ("rows-join", "growing", 2, f"row 'a' index 5: accounting: 10 {FORWARDED}"),
    "cannot_join": ("rows-join", "growing", 2, f"completed: session 'main': {JOINLESS}"),
    "running_rows_shifted": ("window-joined", "ring", 1, f"row 'a' index 0: {MOVED}"),
}
"""By the fault: the script that finds it, the cache kind that has it, the event where it shows, and how it is told."""


def shipped(name: str) -> Script:
    """Read a script of the suite under another name, which has no golden."""
    text = (
        (SUITE / f"{name}.evseq.yaml").read_text(encoding="utf-8").replace(f"name: {name}\n", f"name: copied-{name}\n")
    )
    return parse(parse_yaml(text, file=f"{name}.evseq.yaml"))


@pytest.mark.parametrize("fault", FAULTS)
def test_the_first_line_says_where(fault: str) -> None:
    name, cache, event, told = FAULTS[fault]
    script = shipped(name)
    word = script.events[event].word
    place = script.place(("events", event, word), key=True)

    result = played(script, f"planted.serving:{fault}", only={"dtype": ("float64",), "cache": (cache,)})

    assert without_numbers(first(result)) == f"{place}: {word}: {told}"


def test_what_adds_up_is_found_in_its_round() -> None:
    script = shipped("rounds")

    result = played(script, "planted.serving:adds_up_over_rounds", only={"dtype": ("float64",), "cache": ("growing",)})

    (case, *_) = failed(result)
    place = script.place(("events", 1, "repeat", "events", 1, "append"), key=True)
    assert without_numbers(str(case.findings[0])) == f"{place}: append: round 3: row 'a' index 17: {PARITY}"
    assert case.findings[0].round == "3"
    assert case.findings[0].cause == (
        f"only with times 4; the last change of this cache before it: speculate in line {place.line - 1}, round 3"
    )


@pytest.mark.parametrize("name", sorted({*(name for name, *_ in FAULTS.values()), "rounds"}))
def test_a_healthy_engine_is_left_in_peace(name: str) -> None:
    result = played(shipped(name), "reference:window", only={"dtype": ("float64",), "padding": ("left",)})
    assert failed(result) == []
