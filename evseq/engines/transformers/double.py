"""True double precision in a model that was written for single."""

# mypy: disable-error-code="no-untyped-call"
# Parts of transformers and torch have no types.

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from evseq.geometry import Dtype

__all__ = ["TORCH", "TrueDouble", "cast"]

TORCH = {
    Dtype.FLOAT64: torch.float64,
    Dtype.FLOAT32: torch.float32,
    Dtype.BFLOAT16: torch.bfloat16,
    Dtype.FLOAT16: torch.float16,
}
"""evseq's dtypes as torch names them."""


class TrueDouble(TorchFunctionMode):
    """Turn every request for float32 into one for float64 while active.

    Norms, rotary tables and eager softmax ask for float32 by name, whatever the weights are. The default dtype is
    float64 as well, because quotients of integers and factories without a dtype take it.
    """

    def __enter__(self) -> Self:
        self.default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        super().__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        torch.set_default_dtype(self.default)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call `func` with float64 wherever float32 is an argument."""
        if func is Tensor.float:
            func = Tensor.double
        for argument in args:
            if argument is torch.float32:
                args = tuple(torch.float64 if value is torch.float32 else value for value in args)
                break
        if not kwargs:
            return func(*args)
        if kwargs.get("dtype") is torch.float32:
            kwargs = {**kwargs, "dtype": torch.float64}
        return func(*args, **kwargs)


def cast(model: nn.Module, dtype: Dtype) -> None:
    """Bring the floating weights of `model` to `dtype`, in place.

    Buffers that no checkpoint holds (rotary frequencies) stay float32 below float64, as they do when transformers loads
    a checkpoint in another dtype. In float64 they are computed anew, unless someone changed them: what is live counts.
    """
    target = TORCH[dtype]
    kept = _kept_single(model, target)
    for name, parameter in model.named_parameters():
        if parameter.is_floating_point():
            single = any(part in name.split(".") for part in kept)
            parameter.data = parameter.data.to(torch.float32 if single else target)
    for module in model.modules():
        transient = module._non_persistent_buffers_set
        doubled = _doubled(module) if dtype is Dtype.FLOAT64 else {}
        for name, buffer in module._buffers.items():
            if buffer is None or not buffer.is_floating_point():
                continue
            if dtype is Dtype.FLOAT64 or name not in transient:
                module._buffers[name] = doubled.get(name, buffer.to(target))


def _kept_single(model: nn.Module, target: torch.dtype) -> set[str]:
    """Return the module names transformers keeps in float32 when it loads a checkpoint in `target`."""
    kept: set[str] = set()
    if target is torch.float16:
        kept |= set(getattr(model, "_keep_in_fp32_modules", None) or ())
    if target in (torch.float16, torch.bfloat16):
        kept |= set(getattr(model, "_keep_in_fp32_modules_strict", None) or ())
    return kept


def _doubled(module: nn.Module) -> dict[str, Tensor]:
    """Return the transient buffers of `module` computed in float64, as far as its own class and config give them."""
    config = getattr(module, "config", None)
    if config is None or not module._non_persistent_buffers_set:
        return {}
    try:
        single = type(module)(config=config)
        with TrueDouble():
            double = type(module)(config=config)
    except TypeError:  # it needs more than its config: the live values are cast
        return {}
    found: dict[str, Tensor] = {}
    for name in module._non_persistent_buffers_set:
        live, born = module._buffers[name], single._buffers.get(name)
        exact = double._buffers.get(name)
        if live is not None and born is not None and exact is not None and torch.equal(live, born.to(live)):
            found[name] = exact.to(live.device)
    return found
