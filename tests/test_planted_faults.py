"""Eight faults that real engines had: each turns `evseq run` red, and its first line says where."""

from __future__ import annotations

import pytest

from evseq.cli import main
from evseq.pipeline import read_scripts
from evseq.script.library import SUITE
from playing import without_numbers

PARITY = "parity: logit # is #, expected #: off by #, allowed # in float64"

HELD = "tokens held: 6, expected 7"

AGAIN = "14 token columns of the prefix were forwarded again, expected 0"

MOVED = "keys or values of session 'twin' moved in layer 0 by a step of session 'main'"

FAULTS = {
    "positions_after_crop": ("crop-and-rewrite", "growing", 3, f"append: row 'a' index 9: {PARITY}"),
    "mask_ignored": ("unequal-rows", "growing", 0, f"prefill: row 'short' index 0: {PARITY}"),
    "values_not_selected": ("beams-swapped-each-step", "growing", 3, f"append: row 'a' index 6: {PARITY}"),
    "window_too_wide": ("window-crossed", "growing", 2, f"append: row 'a' index 6: {PARITY}"),
    "fork_shares_storage": ("crop-after-fork", "fixed", 5, f"append: row 'a' index 6: isolation: {MOVED}"),
    "reload_drops_last": ("reload-continues", "growing", 3, f"reload: row 'a' index 6: accounting: {HELD}"),
    "rounded_on_save": ("reload-continues", "growing", 4, f"append: row 'a' index 7: {PARITY}"),
    "restore_recomputes": ("reload-continues", "growing", 3, f"reload: row 'a' index 0: reuse: {AGAIN}"),
}
"""By the fault: the script that finds it, the cache kind that has it, the event where it shows, and how it is told."""


def run(script: str, target: str, cache: str) -> int:
    return main(["run", file(script), "--target", target, "--arm", "dtype=float64", "--arm", f"cache={cache}"])


def file(script: str) -> str:
    return str(SUITE / f"{script}.evseq.yaml")


@pytest.mark.parametrize("fault", FAULTS)
def test_the_run_is_red_and_its_first_line_says_where(fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    script, cache, event, told = FAULTS[fault]
    (parsed,) = read_scripts([file(script)])
    place = parsed.place(("events", event, parsed.events[event].word), key=True)

    code = run(script, f"planted.faults:{fault}", cache)

    failure = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(file(script)))
    assert code == 1
    assert without_numbers(failure) == f"{file(script)}:{place.line}:5: {told}"


@pytest.mark.parametrize(("script", "cache"), sorted({(script, cache) for script, cache, *_ in FAULTS.values()}))
def test_the_same_run_without_a_fault_is_green(script: str, cache: str) -> None:
    assert run(script, "reference:window", cache) == 0
