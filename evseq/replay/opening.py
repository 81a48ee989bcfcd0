"""Opening: what a loader says of its target, its failures told as errors a person reads. Loads no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evseq.errors import EngineError, EvseqError, TargetError
from evseq.geometry import Description

if TYPE_CHECKING:
    from evseq.engines.protocol import Loader

__all__ = ["RAISED", "UnusableError", "described", "tokenized", "told"]

RAISED = (Exception, SystemExit)
"""What an engine may raise. One that ends the process has failed too; only interrupts end a run."""


class UnusableError(EngineError):
    """A target was described but cannot be loaded, or its uncached side fails: nothing can be compared with it."""


def described(text: str, loader: Loader) -> Description:
    """Return a target's description. Raises TargetError for whatever its loader raises."""
    try:
        found: object = loader.describe()
    except EvseqError:
        raise
    except RAISED as error:
        raise TargetError(
            f"{text}: describing it raised {told(error)}\n  help: `describe` of its loader must work without weights"
        ) from error
    if not isinstance(found, Description):
        raise TargetError(
            f"{text}: describing it gave a {type(found).__name__}\n"
            "  help: `describe` of its loader must return an evseq.geometry.Description"
        )
    return found


def tokenized(text: str, loader: Loader, words: str) -> tuple[int, ...]:
    """Return the ids of `words`. Raises TargetError for whatever the target's loader raises."""
    try:
        return tuple(int(token) for token in loader.tokenize(words))
    except EvseqError:
        raise
    except RAISED as error:
        raise TargetError(
            f"{text}: tokenizing raised {told(error)}\n"
            "  help: `tokenize` of its loader must work without weights, or leave out the capability `text`"
        ) from error


def told(error: BaseException) -> str:
    """Return an error's type and words."""
    return f"{type(error).__name__}: {error}"
