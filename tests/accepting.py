"""Goldens made and accepted in a test, as a person would."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evseq.golden.acceptance import accept
from evseq.golden.root import Root
from evseq.golden.terms import Need, TargetTerms, Terms
from evseq.pipeline import Settings, run
from evseq.script.document import Script
from evseq.verdict.result import Result
from playing import DOUBLE

TODAY = dt.date(2026, 11, 29)


def terms(root: Path, *targets: str, model: str = "small", need: Need = Need.REQUIRED) -> Terms:
    """Return terms under which all `targets` are one model, so that each is held to the goldens of another."""
    return Terms(root=root, targets={target: TargetTerms(model=model, revision="v1", need=need) for target in targets})


def held(scripts: Sequence[Script], target: str, terms: Terms) -> Result:
    """Run scripts in the deciding arm under `terms`."""
    return run(scripts, [target], settings=Settings(only=DOUBLE, goldens=terms))


def accepted(scripts: Sequence[Script], target: str, terms: Terms) -> None:
    """Make goldens of `target` and accept them."""
    assert terms.root is not None
    root = Root(folder=terms.root)
    held(scripts, target, replace(terms, update=True))
    accept(root, list(root.candidates()), reason="a test", environment={}, today=TODAY)
