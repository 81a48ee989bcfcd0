"""Check the array shapes of a signature, and nothing else of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_args

from beartype import beartype
from jaxtyping import AbstractArray

P = ParamSpec("P")
R = TypeVar("R")


def modules(package: Path) -> list[str]:
    """Name the modules of `package` whose signatures carry shapes; the others need not pay for the check."""
    files = (file for file in package.rglob("*.py") if "from jaxtyping import" in file.read_text(encoding="utf-8"))
    return [".".join(file.relative_to(package.parent).with_suffix("").parts) for file in files]


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap `function` so that its array arguments are checked; the hook of jaxtyping hands it every function.

    Other annotations are mypy's: checking them too costs more than the code under test, asks every protocol to be
    checkable at run time, and cannot resolve recursive types.
    """
    hints = function.__annotations__
    function.__annotations__ = {name: hint if _holds_array(hint) else Any for name, hint in hints.items()}
    return beartype(function)


def _holds_array(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(map(_holds_array, get_args(hint)))
