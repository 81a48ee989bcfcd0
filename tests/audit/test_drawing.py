"""The suite's scripts with other rows: drawn anew, or of one repeated token."""

from __future__ import annotations

import pytest

from evseq.audit.drawing import REPEATED, drawn
from evseq.pipeline import read_scripts
from evseq.script.document import Ids, Random, Script
from evseq.script.library import SUITE


def shipped(name: str) -> Script:
    (script,) = read_scripts([SUITE / f"{name}.evseq.yaml"])
    return script


def redrawn(name: str, seed: int, *, window: int | None = None) -> Script:
    other = drawn(shipped(name), seed, window=window)
    assert other is not None
    return other


def test_random_rows_are_of_another_seed() -> None:
    script = redrawn("window-reload", 3)

    assert script.rows == {
        "a": Random(length="2*window+6", seed=3014),
        "b": Random(length="window+6", seed=3015),
    }


def test_rows_that_are_written_out_stay() -> None:
    assert redrawn("reload-continues", 1).rows["b"] == shipped("reload-continues").rows["b"]


def test_a_repeated_token_stands_behind_another_one() -> None:
    script = redrawn("window-padded", REPEATED, window=2)

    assert script.rows["b"] == Ids(ids=(0, 2, 2, 2, 2, 2, 2))


@pytest.mark.parametrize("name", ["refused-weights", "refused-prefix-token"])
def test_what_is_changed_may_not_show_in_a_repeated_token(name: str) -> None:
    assert drawn(shipped(name), REPEATED, window=None) is None


def test_a_script_without_random_rows_is_not_drawn_again() -> None:
    assert drawn(shipped("text-prompts"), 1, window=None) is None
    assert drawn(shipped("text-prompts"), REPEATED, window=None) is None


def test_it_goes_by_another_name_and_outside_the_suite_where_no_golden_is_required() -> None:
    once, repeated = redrawn("half-precision", 2), redrawn("half-precision", REPEATED)

    assert (once.name, repeated.name) == ("half-precision@2", "half-precision@repeated")
    assert once.source.file == "half-precision.evseq.yaml"
