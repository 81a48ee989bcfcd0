"""A script that never asks for what a fault breaks meets the healthy engine, and is not played."""

from __future__ import annotations

from evseq.audit.reach import broken, one_sided, reached
from evseq.faults.catalogue import FAULTS
from evseq.pipeline import read_scripts

SCRIPTS = {script.name: script for script in read_scripts([], suite=True)}


def reach(fault: str, *scripts: str) -> list[str]:
    return [script for script in scripts if reached(FAULTS[fault], SCRIPTS[script])]


def test_what_a_fault_overrides_is_what_it_breaks() -> None:
    assert broken(FAULTS["later-layers-not-selected"]) == {"select"}
    assert broken(FAULTS["fork-saves-source"]) == {"export", "fork"}
    assert broken(FAULTS["guard-reads-first-row"]) == {"reuse"}


def test_what_every_script_may_come_upon_is_always_reached() -> None:
    assert broken(FAULTS["position-stays-after-crop"]) == set()  # it remembers a crop, and appends
    assert broken(FAULTS["drop-frees-fork"]) == set()  # it acts when a session is let go of
    assert broken(FAULTS["both-rotary-base"]) == set()
    assert broken(FAULTS["fresh-process-admits-all"]) == set()  # its sessions are broken too
    assert broken(FAULTS["digest-of-process"]) == set()


def test_a_selection_is_reached_by_beams_and_by_rows_that_leave() -> None:
    scripts = ("beams-reloaded", "rows-leave", "tile-edges", "reload-continues")

    assert reach("later-layers-not-selected", *scripts) == ["beams-reloaded", "rows-leave"]


def test_a_crop_is_reached_by_speculation_and_by_what_is_partly_reused() -> None:
    scripts = ("crop-per-row", "speculative-decoding", "reuse-live-session", "tile-edges")

    assert reach("crop-shrinks-buffer", *scripts) == ["crop-per-row", "speculative-decoding", "reuse-live-session"]


def test_events_inside_a_repeat_count() -> None:
    assert reach("rewind-to-nothing", "rounds") == ["rounds"]
    assert reach("guard-forgets-tokens", "tile-edges", "rounds") == ["rounds"]


def test_buffers_that_are_kept_are_reset() -> None:
    assert reach("nothing-clears", "buffers-kept", "sessions-interleaved") == ["buffers-kept"]


def test_what_is_wrong_on_the_uncached_side_shares_no_truth() -> None:
    assert one_sided(FAULTS["slow-drift"])
    assert one_sided(FAULTS["guard-reads-first-row"])
    assert not one_sided(FAULTS["both-rotary-base"])
    assert not one_sided(FAULTS["cached-calls-move-uncached"])
    assert not one_sided(FAULTS["uncached-numbers-from-one"])
