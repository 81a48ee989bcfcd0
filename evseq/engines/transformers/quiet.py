"""Quiet: transformers without progress bars, log lines and warnings, and as it was afterwards."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging

__all__ = ["quiet"]


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the library while it configures, builds or loads; what matters comes back as an error."""
    verbosity, progress = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if progress:
            logging.enable_progress_bar()
