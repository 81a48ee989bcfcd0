"""Most faults are made of what every engine has: they load and run in models of transformers too."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from evseq.engines.protocol import Batch, Loader
from evseq.engines.registry import find
from evseq.faults.catalogue import FAULTS
from evseq.geometry import Dtype, Layout

THERE = [
    (name, target) for name, fault in FAULTS.items() for target in fault.shows if target.startswith("transformers:")
]

PADDED = Batch(
    tokens=torch.tensor([[3, 1, 4, 1], [0, 5, 9, 2]]),
    mask=torch.tensor([[True, True, True, True], [False, True, True, True]]),
    positions=torch.tensor([[0, 1, 2, 3], [0, 0, 1, 2]]),
)
"""Two rows, the second with a left pad."""

NEXT = Batch(
    tokens=torch.tensor([[5], [6]]),
    mask=torch.tensor([[True], [True]]),
    positions=torch.tensor([[4], [3]]),
)
"""One more token for each."""

healthy = cache(find)
"""The loader of a target; a new model is built once."""


def test_far_more_than_35_faults_apply_to_transformers() -> None:
    assert len(THERE) > 100


@pytest.mark.parametrize(("name", "target"), THERE)
def test_it_loads_and_runs(name: str, target: str) -> None:
    engine = FAULTS[name].plant(healthy(target), target=target).load(Dtype.FLOAT64, {})
    session = engine.open(Layout(rows=2, capacity=8, depth=0, cache="dynamic"))

    with torch.no_grad():
        logits = session.prefill(PADDED), session.append(NEXT)

    assert [part.shape for part in logits] == [(2, 4, 256), (2, 1, 256)]


def test_a_loader_of_a_fault_describes_and_tokenizes_as_the_healthy_one() -> None:
    loader: Loader = find("reference:full")

    broken = FAULTS["pads-seen"].plant(loader, target="reference:full")

    assert broken.describe() == loader.describe()
    assert broken.tokenize("word") == loader.tokenize("word")
