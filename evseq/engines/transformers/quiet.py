"""Quiet: transformers without progress bars, log lines and warnings, and as it was afterwards."""

# mypy: disable-error-code="no-untyped-call"
# Parts of transformers and torch have no types.

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging as library

__all__ = ["quiet"]


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the library while it configures, builds or loads; what matters comes back as an error."""
    verbosity, progress = library.get_verbosity(), library.is_progress_bar_enabled()
    library.set_verbosity(logging.CRITICAL)
    library.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        library.set_verbosity(verbosity)
        if progress:
            library.enable_progress_bar()
