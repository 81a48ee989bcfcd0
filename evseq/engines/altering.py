"""Altering: what engines share that really change a live thing, and put it back bit for bit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import torch
from torch import Tensor

from evseq.errors import EngineError, nearest

__all__ = ["Change", "entered", "nudged", "number_format", "rounded"]

E = TypeVar("E")

Change = Callable[[E, Mapping[str, Any]], Iterator[str | None]]
"""Changes an engine by an operand, yields the key that changes, where one does, and puts it back."""


def entered(
    changes: Mapping[str, Change[E]], engine: E, field: str, operand: Mapping[str, Any]
) -> AbstractContextManager[str | None]:
    """Return what changes a field of `engine` while it is entered. Raises EngineError for one not in `changes`."""
    change = changes.get(field)
    if change is None:
        close = nearest(field, changes)
        hint = f"did you mean {close!r}?" if close else f"known are {', '.join(changes)}"
        raise EngineError(f"altered: no field {field!r} to change\n  help: {hint}")
    return contextlib.contextmanager(change)(engine, operand)


@contextlib.contextmanager
def nudged(weight: Tensor, operand: Mapping[str, Any]) -> Iterator[None]:
    """Add to the first value of a matrix: in place, through `.data`, or through a numpy view."""
    before, way = weight[0, 0].clone(), operand.get("to", "in-place")
    ways: dict[str, Callable[[], Any]] = {
        "in-place": lambda: weight,
        "data": lambda: weight.data,
        "numpy": lambda: weight.detach().numpy(),
    }
    if way not in ways:
        raise EngineError(f"altered: no way {way!r} to write a weight\n  help: known are {', '.join(ways)}")
    ways[way]()[0, 0] += 0.5
    try:
        yield
    finally:
        weight[0, 0] = before


@contextlib.contextmanager
def rounded(tensors: Iterable[Tensor], operand: Mapping[str, Any]) -> Iterator[None]:
    """Hold the numbers of `tensors` in another format."""
    dtype = number_format(operand)
    held = [(tensor, tensor.data) for tensor in tensors]
    for tensor, data in held:
        tensor.data = data.to(dtype)
    try:
        yield
    finally:
        for tensor, data in held:
            tensor.data = data


def number_format(operand: Mapping[str, Any]) -> torch.dtype:
    """Return the number format an operand names, bfloat16 where it names none."""
    dtype = getattr(torch, operand.get("to", "bfloat16"), None)
    if not isinstance(dtype, torch.dtype):
        raise EngineError(f"altered: no number format {operand['to']!r}\n  help: name one, such as bfloat16")
    return dtype
