"""Check the array shapes of a signature, and nothing else of it."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_args, no_type_check

from beartype import beartype
from jaxtyping import AbstractArray

P = ParamSpec("P")
R = TypeVar("R")

ENOUGH = 100
"""Calls of a function that one test has checked. A wrong shape shows in the first; the check costs more than most."""

_shaped: dict[tuple[str, str], bool] = {}
_calls: Counter[tuple[str, str]] = Counter()
_left: list[Callable[..., Any]] = []


def modules(package: Path) -> list[str]:
    """Name the modules of `package` whose signatures carry shapes; the others need not pay for the check."""
    files = (file for file in package.rglob("*.py") if "from jaxtyping import" in file.read_text(encoding="utf-8"))
    return [".".join(file.relative_to(package.parent).with_suffix("").parts) for file in files]


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap `function` so that its array arguments are checked; the hook of jaxtyping hands it every function.

    It hands over two of each, without a body: one has the parameters, the other the result too. Other annotations are
    mypy's: checking them too costs more than the code under test, asks every protocol to be checkable at run time, and
    cannot resolve recursive types.
    """
    name = function.__module__, function.__qualname__
    hints = function.__annotations__
    arrays = {key: hint if _holds_array(hint) else Any for key, hint in hints.items()}
    shaped = any(hint is not Any for hint in arrays.values())
    _shaped[name] = _shaped.get(name, False) or shaped
    function.__annotations__ = arrays
    check = beartype(function) if shaped else function

    @wraps(function)
    def counted(*args: P.args, **kwargs: P.kwargs) -> R:
        _calls[name] += 1
        if not _shaped[name] or _calls[name] == ENOUGH:
            _leave(name)
        return check(*args, **kwargs)

    return counted


def again() -> None:
    """Check as many calls again."""
    _calls.clear()
    while _left:
        del _left.pop().__no_type_check__  # type: ignore[attr-defined]


def _leave(name: tuple[str, str]) -> None:
    """Check no more calls of a function that has no shapes, or had enough of them.

    One inside another cannot be found and is checked on, as is what looks for the argument that was wrong.
    """
    module, path = name
    holder: Any = sys.modules[module]
    for word in path.split("."):
        if word not in vars(holder):
            return
        holder = vars(holder)[word]
    function: Callable[..., Any] = inspect.unwrap(getattr(holder, "fget", getattr(holder, "__func__", holder)))
    no_type_check(function)
    if _shaped[name]:
        _left.append(function)


def _holds_array(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(map(_holds_array, get_args(hint)))
