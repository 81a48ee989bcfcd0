from __future__ import annotations

import pytest

from evseq.errors import UsageError
from evseq.script.events import EVENTS
from evseq.script.guide import WORDS, guide


class TestGuide:
    def test_an_event_is_told_with_every_key(self) -> None:
        assert guide(["crop"]) == (
            "crop\n"
            "  Roll rows back `by` so many tokens, or `to` so many, all rows or only those named.\n"
            "    row     name: only this row\n"
            "    by      number or {name: number, ...}: tokens dropped\n"
            "    to      number or {name: number, ...}: tokens kept\n"
            "    on      name: the session (main if left out)\n"
            "    expect  {refused, reused, malformed, invalid, loud}: weaker or other than the default: everything is "
            "right\n"
            "    allow   {check, because, within} or [{check, because, within}, ...]: findings tolerated here, and "
            "why\n"
            "  example: - crop: {row: b, by: 5}"
        )

    def test_what_stands_inside_events_is_told_too(self) -> None:
        assert guide(["reused"]).splitlines()[2:] == [
            "    most     number",
            "    least    number",
            "    exactly  number",
        ]

    def test_choices_are_told_by_their_words(self) -> None:
        assert "    process  here or fresh: " in guide(["reload"])
        assert "    keep    buffers or pool: " in guide(["drop"])

    def test_ids_and_switches_are_no_numbers(self) -> None:
        assert "    ids       {name: [token id, ...], ...}: token ids per row\n" in guide(["append"])
        assert "    together  true or false: feed them in one forward\n" in guide(["append"])

    @pytest.mark.parametrize("word", WORDS)
    def test_every_word_is_told(self, word: str) -> None:
        assert guide([word]).startswith(f"{word}\n  ")

    def test_what_is_tolerated_is_told_with_an_example(self) -> None:
        told = guide(["allow"])
        assert "    within   number: allowances, above 1, for checks that have them; findings for others" in told
        assert told.endswith("  example: allow: {check: parity, because: the kernel rounds to bfloat16, within: 40}")

    def test_the_whole_language_ends_with_numbers_and_names(self) -> None:
        told = guide()
        assert all(f"example: - {event.example}" in told for event in EVENTS.values())
        assert told.splitlines()[-2].startswith("A number is an integer, an arm, or [k*]word[+n]")

    def test_a_misspelt_word_is_answered_with_the_nearest(self) -> None:
        with pytest.raises(UsageError) as refused:
            guide(["prefil"])
        assert str(refused.value) == "events: no event 'prefil'\n  help: did you mean 'prefill'?"

    def test_an_unknown_word_is_answered_with_all(self) -> None:
        with pytest.raises(
            UsageError, match=r"help: known are prefill, append, beam-select, .*, expect, reused, allow$"
        ):
            guide(["zzz"])
