"""The engine passes what every engine must."""

from __future__ import annotations

import pytest

from evseq.engines import conformance
from evseq.engines.transformers import loader


@pytest.mark.parametrize("target", ["new/gemma3_text", "new/bloom"])
def test_the_engine_conforms(target: str) -> None:
    assert conformance.check(loader(target)) == ()
