from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor

from evseq.verdict.arithmetic import HEAD_DIM, LENGTHS, Attend, attend, one_head


def without_scale(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attend, the root of the head's width forgotten."""
    return (query @ keys.T).softmax(-1) @ values


def one_short(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attend to all but the appended position."""
    return attend(query, keys[:-1], values[:-1]) if len(keys) > 1 else attend(query, keys, values)


def values_behind(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attend with the values one position behind their keys."""
    return attend(query, keys, values.roll(1, dims=0))


def two_tiles(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attend in tiles of 64 and add them up without their weights."""
    tiles = zip(keys.split(64), values.split(64), strict=True)
    return torch.stack([attend(query, key, value) for key, value in tiles]).mean(0)


def single(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attend in float32."""
    return attend(query.float(), keys.float(), values.float()).double()


def other_order(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attend to the positions in reverse: the same sum in another order."""
    return attend(query, keys.flip(0), values.flip(0))


def not_a_number(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attend behind a mask that hides everything."""
    return attend(query, keys, values) * torch.nan


def test_this_machine_attends_the_same_with_and_without_a_cache() -> None:
    assert one_head() == ()


@pytest.mark.parametrize("fault", [without_scale, values_behind, single, not_a_number])
def test_a_wrong_attention_is_found(fault: Attend) -> None:
    found = {(finding.message.split(":")[0], finding.index) for finding in one_head(fault)}

    assert ("cache plus one appended position", 64) in found


def test_one_position_too_few_is_found_at_every_length_but_one() -> None:
    assert {finding.index for finding in one_head(one_short)} == {length - 1 for length in LENGTHS if length > 1}


def test_an_error_at_the_edge_of_a_tile_is_found_there() -> None:
    assert {finding.index for finding in one_head(two_tiles)} == {64, 128}


def test_another_order_of_the_same_sum_is_not_bit_equal_and_close() -> None:
    found = one_head(other_order)

    assert {finding.message.split(":")[0] for finding in found} == {"cache plus one appended position"}


def test_a_finding_names_the_length_and_blames_no_model() -> None:
    finding = next(finding for finding in one_head(without_scale) if finding.index == 1)

    assert re.fullmatch(
        r"one head: append: index 1: arithmetic: cache plus one appended position: "
        r"off by \d\.\d+ over 2 positions in float64",
        str(finding),
    )
    assert finding.cause == "this machine's torch does not attend the same way twice; no model is to blame yet"


def test_the_array_is_exact_where_it_is_one_position_long() -> None:
    values = torch.randn(1, HEAD_DIM, dtype=torch.float64)

    assert torch.equal(attend(torch.ones_like(values), torch.ones_like(values), values), values)
