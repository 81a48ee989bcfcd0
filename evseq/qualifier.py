"""Qualifier: what the pytest fixture `evseq` gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evseq.config import Config
from evseq.verdict.result import Result

if TYPE_CHECKING:
    from evseq.pipeline import Settings

__all__ = ["Qualifier"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Qualifier:
    """What the fixture gives: call it to qualify a target or a model in memory, or assert that it passes."""

    config: Config
    settings: Settings
    written: list[str]
    """The candidates of goldens that were written so far; a session with any has failed."""

    def __call__(self, target: str | object, scripts: str | Sequence[str | Path] = "suite") -> Result:
        """Return the result of `scripts`, files, folders, "suite" or "quick", on `target`."""
        from evseq.pipeline import qualify

        named = self.config.opened(target) if isinstance(target, str) else target
        result = qualify(named, scripts, settings=self.settings)
        self.written.extend(result.candidates)
        return result

    def assert_qualified(self, target: str | object, scripts: str | Sequence[str | Path] = "suite") -> Result:
        """Fail the test with the report unless `target` passes; return the result if it does."""
        from evseq.report.terminal import text

        __tracebackhide__ = True
        result = self(target, scripts)
        if not result.passed:
            pytest.fail(text(result), pytrace=False)
        return result
