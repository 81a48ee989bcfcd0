from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evseq.engines.protocol import CacheView, LayerView
from evseq.replay.contents import SMALL, Contents, Held, _moved, contents, moved, same_bits, united

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
ROWS, HEADS, SLOTS, DIM = 2, 3, 4, 5
POSITIONS = torch.tensor([[0, 1, 2, 3], [-1, 0, 1, 2]])


@pytest.fixture(autouse=True, params=[SMALL, 0], ids=["bits", "sums"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the bits of what is small, and the sums of what is large."""
    monkeypatch.setattr("evseq.replay.contents.SMALL", request.param)


def layer(dtype: torch.dtype = torch.float64, *, seed: int = 1) -> LayerView:
    """Return one layer of two rows, the second with a pad in front."""
    drawn = torch.randn(2, ROWS, HEADS, SLOTS, DIM, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return LayerView(keys=drawn[0], values=drawn[1], positions=POSITIONS)


def seen(*layers: LayerView) -> Contents:
    found = contents(CacheView(layers=layers))
    assert found is not None
    return found


def last_bit_flipped(tensor: Tensor, place: tuple[int, ...]) -> Tensor:
    """Return a copy whose element at `place` is the next number."""
    words = {8: torch.int64, 4: torch.int32, 2: torch.int16}[tensor.element_size()]
    copy = tensor.clone()
    copy.view(words)[place] ^= 1
    return copy


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("part", ["keys", "values"])
def test_the_last_bit_of_every_single_element_is_seen(part: str, dtype: torch.dtype) -> None:
    whole = layer(dtype)
    places = [tuple(place) for place in torch.ones(ROWS, HEADS, SLOTS, DIM).nonzero().tolist()]

    told = [moved(seen(whole), seen(_with(whole, part, last_bit_flipped(getattr(whole, part), p)))) for p in places]

    expected = [(0, row, int(POSITIONS[row, slot])) for row, _, slot, _ in places]
    assert told == [[place] if place[2] >= 0 else [] for place in expected]


def test_an_equal_cache_has_not_moved() -> None:
    assert moved(seen(layer()), seen(layer())) == []


def test_the_layer_is_told() -> None:
    changed = _with(layer(seed=2), "keys", last_bit_flipped(layer(seed=2).keys, (1, 0, 3, 0)))

    assert moved(seen(layer(), layer(seed=2)), seen(layer(), changed)) == [(1, 1, 2)]


def test_a_layer_that_is_gone_is_no_equal_cache() -> None:
    other = LayerView(keys=layer().keys[:, :1], values=layer().values[:, :1], positions=POSITIONS)

    with pytest.raises(ValueError, match=r"zip\(\)"):
        moved(seen(layer(), other), seen(layer()))


def test_the_sign_of_zero_is_seen() -> None:
    zeros = _with(layer(), "keys", torch.zeros(ROWS, HEADS, SLOTS, DIM))
    negative = _with(layer(), "keys", torch.zeros(ROWS, HEADS, SLOTS, DIM).neg())

    assert len(moved(seen(zeros), seen(negative))) == 7


def test_heads_that_change_places_are_seen() -> None:
    swapped = _with(layer(), "values", layer().values[:, [1, 0, 2]])

    assert len(moved(seen(layer()), seen(swapped))) == 7


def test_keys_and_values_that_change_places_are_seen() -> None:
    whole = layer()

    assert len(moved(seen(whole), seen(LayerView(keys=whole.values, values=whole.keys, positions=POSITIONS)))) == 7


def test_tokens_that_changed_slots_have_not_moved() -> None:
    whole, order = layer(), [2, 0, 3, 1]
    turned = LayerView(keys=whole.keys[:, :, order], values=whole.values[:, :, order], positions=POSITIONS[:, order])

    assert moved(seen(whole), seen(turned)) == []


def test_tokens_that_came_or_went_have_not_moved() -> None:
    whole = layer()
    shorter = LayerView(keys=whole.keys[:, :, :2], values=whole.values[:, :, :2], positions=POSITIONS[:, :2])

    assert moved(seen(whole), seen(shorter)) == []
    assert moved(seen(shorter), seen(whole)) == []


def test_a_cache_without_a_slot_has_not_moved() -> None:
    whole = layer()
    empty = LayerView(keys=whole.keys[:, :, :0], values=whole.values[:, :, :0], positions=POSITIONS[:, :0])

    assert moved(seen(whole), seen(empty)) == []
    assert moved(seen(empty), seen(whole)) == []


def test_where_nothing_may_come_or_go_both_are_told() -> None:
    whole = layer()
    shorter = LayerView(keys=whole.keys[:, :, :3], values=whole.values[:, :, :3], positions=POSITIONS[:, :3])

    assert moved(seen(whole), seen(shorter), whole=True) == [(0, 0, 3), (0, 1, 2)]
    assert moved(seen(shorter), seen(whole), whole=True) == [(0, 0, 3), (0, 1, 2)]
    assert moved(seen(whole), seen(whole), whole=True) == []


def test_an_engine_that_shows_nothing_has_no_contents() -> None:
    assert contents(None) is None


def test_what_grew_large_is_compared_with_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = _with(layer(), "keys", last_bit_flipped(layer().keys, (1, 0, 3, 0)))
    before = seen(layer())
    monkeypatch.setattr("evseq.replay.contents.SMALL", 1)

    assert moved(before, seen(layer()), whole=True) == []
    assert moved(before, seen(changed)) == [(0, 1, 2)]


def test_rows_of_a_small_and_a_large_session_stand_beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    small = seen(layer())
    monkeypatch.setattr("evseq.replay.contents.SMALL", 1)

    together, alike, other = (joined(small, seen(layer(seed=seed))) for seed in (1, 1, 2))

    assert moved(together, alike, whole=True) == []
    assert {row for _, row, _ in moved(together, other)} == {2, 3}


def joined(one: Contents, other: Contents) -> Contents:
    found = united(one, other)
    assert found is not None
    return found


class TestSameBits:
    def test_equal_numbers_are_the_same(self) -> None:
        assert same_bits(torch.ones(2, 3), torch.ones(3, 2).t())

    def test_the_last_bit_tells(self) -> None:
        assert not same_bits(torch.ones(2, 3), last_bit_flipped(torch.ones(2, 3), (1, 1)))

    def test_nan_is_the_same_as_itself_and_zero_not_as_minus_zero(self) -> None:
        assert same_bits(torch.tensor([torch.nan]), torch.tensor([torch.nan]))
        assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))

    def test_another_dtype_or_shape_is_not_the_same(self) -> None:
        assert not same_bits(torch.ones(2), torch.ones(2).double())
        assert not same_bits(torch.ones(2, 1), torch.ones(1, 2))


def _with(whole: LayerView, part: str, tensor: Tensor) -> LayerView:
    parts = {"keys": whole.keys, "values": whole.values, part: tensor}
    return LayerView(keys=parts["keys"], values=parts["values"], positions=whole.positions)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_what_is_told_at_a_glance_is_told_token_by_token(data: st.DataObject) -> None:
    """Slots come, go, change places and contents; every layer and token is looked at one by one besides."""
    before, after = (_few(data) for _ in range(2))
    whole = data.draw(st.booleans())

    told = moved(before, after, whole=whole)

    assert told == [
        (layer, row, position)
        for layer, (old, new) in enumerate(zip(before.tokens, after.tokens, strict=True))
        for row, position in _moved(old, new, whole=whole)
    ]


def _few(data: st.DataObject) -> Contents:
    """Draw two layers of one row with few positions and fewer bits, so that many are equal."""
    slots = data.draw(st.integers(0, 4))
    orders = [[*data.draw(st.permutations(range(4)))][:slots] for _ in range(2)]
    empty = [[data.draw(st.booleans()) for _ in range(slots)] for _ in range(2)]
    positions = [
        [[-1 if gone else position for position, gone in zip(order, none, strict=True)]]
        for order, none in zip(orders, empty, strict=True)
    ]
    words = [data.draw(st.integers(0, 1)) for _ in range(2 * slots)]
    held = Held(
        positions=np.array(positions, int).reshape(2, 1, slots),
        words=(np.array(words, int).reshape(1, 2, 1, 1, slots, 1),),
        summed=data.draw(st.booleans()),
    )
    return Contents(blocks=(held,))
