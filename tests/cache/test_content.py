from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest
import torch
from blake3 import blake3
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from evseq.cache import content
from evseq.cache.canonical import canonical
from evseq.cache.content import LiveContent, blake3_digest, checksum, root, tensor_digest

WORDS = 3 * content.RUN // content.WORD + 5
SEED = 7


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return repeatable normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(SEED), dtype=torch.float64).to(dtype)


TENSORS = {
    "empty": torch.zeros(0),
    "no rows": torch.zeros(3, 0, 2),
    "scalar": torch.tensor(3.5),
    "bool": torch.tensor([True, False, True]),
    "bfloat16": random(5, dtype=torch.bfloat16),
    "int64": torch.arange(7),
    "bytes at an odd place": torch.arange(40, dtype=torch.uint8)[3:36],
    "transposed": random(7, 3).t(),
    "every other": random(9)[::2],
    "expanded": random(2, 1).expand(2, 9),
    "long and transposed": random(3, 300_000).t(),
    "long rows cut": random(2, 600_000)[:, 1::2],
    "parameter": torch.nn.Parameter(random(4)),
}


class TestTensorDigest:
    @pytest.mark.parametrize("tensor", TENSORS.values(), ids=TENSORS.keys())
    def test_is_sha256_over_form_and_row_major_bytes(self, tensor: Tensor) -> None:
        form = canonical([str(tensor.dtype).removeprefix("torch."), list(tensor.shape)])
        elements = tensor.detach().clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)

        assert tensor_digest(tensor) == hashlib.sha256(form + elements.numpy().tobytes()).hexdigest()

    def test_tells_dtypes_of_equal_bytes_apart(self) -> None:
        assert tensor_digest(torch.zeros(4, dtype=torch.int32)) != tensor_digest(torch.zeros(4))

    def test_tells_shapes_of_equal_bytes_apart(self) -> None:
        assert tensor_digest(torch.zeros(4, 2)) != tensor_digest(torch.zeros(2, 4))

    def test_tells_the_two_zeros_apart(self) -> None:
        assert tensor_digest(torch.tensor(0.0)) != tensor_digest(torch.tensor(-0.0))


class TestBlake3Digest:
    @pytest.mark.parametrize("tensor", TENSORS.values(), ids=TENSORS.keys())
    def test_is_blake3_over_form_and_row_major_bytes(self, tensor: Tensor) -> None:
        form = canonical([str(tensor.dtype).removeprefix("torch."), list(tensor.shape)])
        elements = tensor.detach().clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)

        assert blake3_digest(tensor) == blake3(form + elements.numpy().tobytes()).hexdigest()

    def test_tells_dtypes_of_equal_bytes_apart(self) -> None:
        assert blake3_digest(torch.zeros(4, dtype=torch.int32)) != blake3_digest(torch.zeros(4))

    def test_tells_shapes_of_equal_bytes_apart(self) -> None:
        assert blake3_digest(torch.zeros(4, 2)) != blake3_digest(torch.zeros(2, 4))


class TestRoot:
    def test_does_not_depend_on_the_order_of_names(self) -> None:
        assert root({"a": "1", "b": "2"}) == root({"b": "2", "a": "1"})

    def test_depends_on_which_name_has_which_digest(self) -> None:
        assert root({"a": "1", "b": "2"}) != root({"a": "2", "b": "1"})


class TestChecksum:
    @pytest.mark.parametrize("tensor", TENSORS.values(), ids=TENSORS.keys())
    def test_is_repeatable_for_any_form(self, tensor: Tensor) -> None:
        assert checksum(tensor) == checksum(tensor)

    @pytest.mark.parametrize("small", [0, content.SMALL])
    @pytest.mark.parametrize("length", [1, 7, 8, 9, 64, 65])
    def test_every_flipped_bit_of_a_short_tensor_is_noticed(
        self, length: int, small: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(content, "SMALL", small)
        tensor = torch.arange(length, dtype=torch.uint8)
        flips = [tensor.clone() for _ in range(8 * length)]
        for place, flipped in enumerate(flips):
            flipped[place // 8] ^= 1 << place % 8

        assert len({checksum(tensor), *map(checksum, flips)}) == 8 * length + 1

    @settings(max_examples=30)
    @given(place=st.integers(0, WORDS * content.WORD + 2), change=st.integers(1, 255))
    def test_any_changed_byte_of_a_long_tensor_is_noticed(self, place: int, change: int) -> None:
        tensor = torch.zeros(WORDS * content.WORD + 3, dtype=torch.uint8)
        before = checksum(tensor)

        tensor[place] += change

        assert checksum(tensor) != before

    @settings(max_examples=30)
    @given(
        places=st.tuples(st.integers(0, WORDS - 1), st.integers(0, WORDS - 1)),
        words=st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1)),
    )
    def test_any_two_words_swapped_are_noticed(self, places: tuple[int, int], words: tuple[int, int]) -> None:
        assume(places[0] != places[1] and words[0] != words[1])
        tensor = torch.zeros(WORDS, dtype=torch.int64)
        tensor[list(places)] = torch.tensor(words)
        before = checksum(tensor)

        tensor[list(places)] = torch.tensor(words).flip(0)

        assert checksum(tensor) != before

    @pytest.mark.parametrize("rows", [1, 2, 64, 65, 2048])
    def test_a_negated_float64_tensor_is_noticed(self, rows: int) -> None:
        tensor = random(rows, content.WIDTH, dtype=torch.float64)

        assert checksum(-tensor) != checksum(tensor)

    def test_alternating_signs_all_turned_are_noticed(self) -> None:
        tensor = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(content.SMALL)

        assert checksum(-tensor) != checksum(tensor)

    def test_a_square_of_four_words_turned_is_noticed(self) -> None:
        tensor = torch.zeros(2 * content.WIDTH, content.WIDTH, dtype=torch.int64)
        tensor[0, 3] = tensor[1, 8] = 0x1234_5678_9ABC
        before = checksum(tensor)

        tensor[:, [3, 8]] = tensor[:, [8, 3]]

        assert checksum(tensor) != before

    @pytest.mark.parametrize("small", [0, content.SMALL])
    def test_another_dtype_or_shape_of_the_same_bytes_is_noticed(
        self, small: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(content, "SMALL", small)
        tensor = torch.zeros(4)

        assert len({checksum(tensor), checksum(tensor.view(torch.int32)), checksum(tensor.view(2, 2))}) == 3


def through_data(weight: Tensor) -> None:
    weight.data[1, 1] += 1


def through_numpy(weight: Tensor) -> None:
    weight.detach().numpy()[1, 1] += 1


def through_a_view(weight: Tensor) -> None:
    weight.detach().view(-1)[4].add_(1)


def in_place(weight: Tensor) -> None:
    with torch.no_grad():
        weight.mul_(-1)


def by_one_bit(weight: Tensor) -> None:
    weight.detach().numpy().view(np.uint8)[-1, -1] ^= 1


class TestLiveContent:
    @pytest.fixture
    def module(self) -> torch.nn.Module:
        return torch.nn.Linear(3, 3)

    @pytest.mark.parametrize("change", [through_data, through_numpy, through_a_view, in_place, by_one_bit])
    def test_a_change_is_noticed_however_it_was_made(
        self, change: Callable[[Tensor], None], module: torch.nn.Linear
    ) -> None:
        live = LiveContent(lambda: dict(module.named_parameters()))
        before = live.digests()

        change(module.weight)

        assert live.digests() == {"weight": tensor_digest(module.weight), "bias": before["bias"]}
        assert live.digests()["weight"] != before["weight"]

    def test_a_rebound_tensor_is_noticed(self, module: torch.nn.Linear) -> None:
        live = LiveContent(lambda: dict(module.named_parameters()))
        before = live.digests()

        module.weight = torch.nn.Parameter(module.weight.detach() * 2)

        assert live.digests()["weight"] != before["weight"]

    def test_a_change_taken_back_gives_the_old_digest(self, module: torch.nn.Linear) -> None:
        live = LiveContent(lambda: dict(module.named_parameters()))
        before = live.digests()

        module.weight.data.neg_()
        live.digests()
        module.weight.data.neg_()

        assert live.digests() == before

    def test_sha256_is_computed_again_only_for_what_moved(
        self, module: torch.nn.Linear, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hashed: list[int] = []

        def counted(tensor: Tensor) -> str:
            hashed.append(tensor.numel())
            return tensor_digest(tensor)

        monkeypatch.setattr(content, "SMALL", 0)
        monkeypatch.setattr(content, "tensor_digest", counted)
        live = LiveContent(lambda: dict(module.named_parameters()))

        live.digests()
        live.digests()
        module.bias.data[0] += 1
        live.digests()

        assert hashed == [9, 3, 3]

    def test_a_tensor_that_is_gone_has_no_digest(self) -> None:
        tensors = {"a": torch.zeros(2), "b": torch.zeros(2)}
        live = LiveContent(lambda: tensors)
        live.digests()

        del tensors["a"]

        assert list(live.digests()) == ["b"]
