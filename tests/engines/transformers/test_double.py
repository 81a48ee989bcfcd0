"""True double: every request for float32 is one for float64, and nothing of it stays behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from evseq.engines.transformers import configurations
from evseq.engines.transformers.double import TrueDouble, cast
from evseq.engines.transformers.newborn import build, configure
from evseq.geometry import Dtype
from evseq.history import Path

ONE = torch.ones(1, dtype=torch.float64)


class Singles(TorchDispatchMode):
    """Note each operation that gives float32."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.found += [str(func)] * (isinstance(out, Tensor) and out.dtype is torch.float32)
        return out


@pytest.mark.parametrize(
    "request_single",
    [
        pytest.param(ONE.float, id="float"),
        pytest.param(lambda: ONE.to(torch.float32), id="to"),
        pytest.param(lambda: ONE.to(dtype=torch.float), id="to dtype"),
        pytest.param(lambda: ONE.type(torch.float32), id="type"),
        pytest.param(lambda: torch.softmax(ONE, -1, torch.float32), id="softmax"),
        pytest.param(lambda: torch.nn.functional.softmax(ONE, dim=-1, dtype=torch.float32), id="functional softmax"),
        pytest.param(lambda: ONE.sum(dtype=torch.float32), id="sum"),
        pytest.param(lambda: torch.zeros(1, dtype=torch.float32), id="zeros"),
        pytest.param(lambda: torch.tensor(0.1), id="default dtype"),
        pytest.param(lambda: torch.arange(3) / 7, id="quotient of integers"),
    ],
)
def test_a_request_for_float32_gives_float64(request_single: Callable[[], Tensor]) -> None:
    with TrueDouble():
        assert request_single().dtype is torch.float64


def test_other_dtypes_stay() -> None:
    with TrueDouble():
        assert ONE.to(torch.bfloat16).dtype is torch.bfloat16
        assert torch.arange(3).dtype is torch.int64


def test_everything_is_as_before_after_an_error() -> None:
    with pytest.raises(RuntimeError), TrueDouble():
        raise RuntimeError
    assert torch.get_default_dtype() is torch.float32
    assert ONE.float().dtype is torch.float32


@pytest.mark.parametrize("target", configurations())
def test_no_operation_of_a_forward_gives_float32(engine: Callable[..., Any], target: str) -> None:
    loaded = engine(target)
    with Singles() as singles:
        loaded.uncached(Path(tokens=(-1, 5, 80, 200), positions=(0, 0, 1, 2)))
    assert singles.found == []


def test_the_watch_sees_a_float32_operation(engine: Callable[..., Any]) -> None:
    loaded = engine("new/llama", Dtype.FLOAT32)
    with Singles() as singles:
        loaded.uncached(Path(tokens=(5, 80), positions=(0, 1)))
    assert singles.found != []


def test_rotary_frequencies_are_computed_anew() -> None:
    model: Any = build(configure("llama", {}))
    cast(model, Dtype.FLOAT64)
    exact = 1.0 / 10000.0 ** (torch.arange(0, 16, 2, dtype=torch.float64) / 16)
    assert torch.equal(model.model.rotary_emb.inv_freq, exact)


def test_rotary_frequencies_someone_changed_are_kept() -> None:
    model: Any = build(configure("llama", {}))
    model.model.rotary_emb.inv_freq.mul_(0.3)
    live = model.model.rotary_emb.inv_freq.clone()
    cast(model, Dtype.FLOAT64)
    assert torch.equal(model.model.rotary_emb.inv_freq, live.double())


def test_rotary_frequencies_stay_float32_below() -> None:
    model: Any = build(configure("llama", {}))
    live = model.model.rotary_emb.inv_freq.clone()
    cast(model, Dtype.BFLOAT16)
    assert torch.equal(model.model.rotary_emb.inv_freq, live)
    assert model.model.norm.weight.dtype is torch.bfloat16


def test_tied_weights_stay_tied() -> None:
    model: Any = build(configure("gpt2", {}))
    cast(model, Dtype.FLOAT64)
    assert model.lm_head.weight is model.transformer.wte.weight


def test_a_module_the_library_keeps_in_float32_stays_so() -> None:
    model: Any = build(configure("llama", {}))
    model._keep_in_fp32_modules_strict = {"norm"}
    cast(model, Dtype.BFLOAT16)
    assert model.model.norm.weight.dtype is torch.float32
    assert model.lm_head.weight.dtype is torch.bfloat16


def test_experts_run_eager_in_float64(engine: Callable[..., Any]) -> None:
    mixture = engine("new/mixtral")
    assert mixture.identity()["numeric.attention"] == "eager, experts eager"
    assert mixture.uncached(Path(tokens=(5, 80), positions=(0, 1))).dtype is torch.float64
