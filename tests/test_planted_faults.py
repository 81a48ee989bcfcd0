"""Faults that real engines had, and such as wait for one turn of events: each turns `evseq run` red and says where."""

from __future__ import annotations

import pytest

from evseq.cli import main
from evseq.pipeline import read_scripts
from evseq.script.library import SUITE
from playing import without_numbers

GROWING = "dtype=float64 cache=growing"

FIXED = "dtype=float64 cache=fixed"

LEFT = f"{GROWING} padding=left"

LEFT_FIXED = f"{FIXED} padding=left"

PARITY = "parity: logit # is #, expected #: off by #, allowed # in float64"

HALF = "parity: logit # is #, expected #: off by #, allowed # in bfloat16"

ISOLATION = "isolation: keys or values of session"

MOVED = f"{ISOLATION} 'twin' moved in layer 0 by a step of session 'main'"

OWN = f"{ISOLATION} 'main' moved in layer 0 by its own step"

HELD = "tokens held: 6, expected 7"

AGAIN = "14 token columns of the prefix were forwarded again, expected 0"

FAULTS = {
    "faults:positions_after_crop": ("crop-and-rewrite", GROWING, 3, f"append: row 'a' index 9: {PARITY}"),
    "faults:mask_ignored": ("unequal-rows", GROWING, 0, f"prefill: row 'short' index 0: {PARITY}"),
    "faults:values_not_selected": ("beams-swapped-each-step", GROWING, 3, f"append: row 'a' index 6: {PARITY}"),
    "faults:window_too_wide": ("window-crossed", GROWING, 2, f"append: row 'a' index 6: {PARITY}"),
    "faults:fork_shares_storage": ("crop-after-fork", FIXED, 5, f"append: row 'a' index 6: {MOVED}"),
    "faults:reload_drops_last": ("reload-continues", GROWING, 3, f"reload: row 'a' index 6: accounting: {HELD}"),
    "faults:rounded_on_save": ("reload-continues", GROWING, 4, f"append: row 'a' index 7: {PARITY}"),
    "faults:restore_recomputes": ("reload-continues", GROWING, 3, f"reload: row 'a' index 0: reuse: {AGAIN}"),
    "corners:counts_holes": (
        "engine-counts",
        "dtype=float64 cache=growing padding=holes",
        0,
        f"prefill: row 'a' index 1: {PARITY}",
    ),
    "corners:counts_the_first_row": ("engine-counts", LEFT, 4, f"append: row 'y' index 9: {PARITY}"),
    "corners:counts_waiting": ("engine-counts", LEFT, 2, f"append: row 'b' index 3: {PARITY}"),
    "corners:freed_with_its_source": (
        "copies-outlive-their-source",
        LEFT,
        4,
        f"drop: row 'a' index 0: {MOVED}",
    ),
    "corners:reloads_share": (
        "copies-outlive-their-source",
        LEFT_FIXED,
        9,
        f"append: row 'a' index 6: {ISOLATION} 'left' moved in layer 0 by a step of session 'right'",
    ),
    "corners:room_for_two": (
        "sessions-interleaved",
        LEFT,
        3,
        f"prefill: row 'a' index 0: {ISOLATION} 'first' moved in layer 0 by a step of session 'third'",
    ),
    "corners:stumbles_at_five": ("crop-and-rewrite", LEFT, 2, f"crop: row 'a' index 0: {OWN}"),
    "corners:remembers_beams": (
        "buffers-kept-after-beams",
        LEFT_FIXED,
        4,
        "prefill: row 'b' index 2: accounting: tokens visible in layer 2: 7, expected 3",
    ),
    "corners:half_selected": (
        "beams-grow-and-shrink",
        "dtype=bfloat16 cache=growing padding=left",
        3,
        f"append: row 'x' index 7: {HALF}",
    ),
    "corners:lost_after_three_laps": (
        "window-laps",
        "dtype=float64 cache=ring padding=left",
        4,
        f"append: row 'a' index 13: {OWN}",
    ),
    "corners:stumbles_at_the_window": (
        "crop-past-window",
        "dtype=float64 cache=growing by=1",
        3,
        f"crop: row 'a' index 0: {OWN}",
    ),
}
"""By the fault: the script that finds it, the arms that have it, the event where it shows, and how it is told."""


def run(script: str, target: str, arms: str) -> int:
    chosen = [word for arm in arms.split() for word in ("--arm", arm)]
    return main(["run", file(script), "--target", target, *chosen])


def file(script: str) -> str:
    return str(SUITE / f"{script}.evseq.yaml")


@pytest.mark.parametrize("fault", FAULTS)
def test_the_run_is_red_and_its_first_line_says_where(fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    script, arms, event, told = FAULTS[fault]
    (parsed,) = read_scripts([file(script)])
    place = parsed.place(("events", event, parsed.events[event].word), key=True)

    code = run(script, f"planted.{fault}", arms)

    failure = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(file(script)))
    assert code == 1
    assert without_numbers(failure) == f"{file(script)}:{place.line}:5: {told}"


@pytest.mark.parametrize(("script", "arms"), sorted({(script, arms) for script, arms, *_ in FAULTS.values()}))
def test_the_same_run_without_a_fault_is_green(script: str, arms: str) -> None:
    assert run(script, "reference:window", arms) == 0
