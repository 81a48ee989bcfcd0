"""Rules for an engine that can be changed while it lives."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from evseq.cache.canonical import canonical
from evseq.cache.mutations import MUTATIONS, Reach
from evseq.cache.state import Scalar
from evseq.engines.conformance.bench import Bench
from evseq.engines.conformance.rule import rule
from evseq.engines.conformance.trial import path

__all__ = ["altered"]


@rule(every_cache=False)
def altered(bench: Bench) -> Iterator[str]:
    """Change each field that the description says can be, while `altered` is entered, and put it back to the bit."""
    row = path(list(zip(bench.tokens(bench.span), range(bench.span), strict=True)))
    before, logits = _fields(bench), bench.engine.uncached(row).clone()  # position vocab
    for name in bench.description.alterable:
        mutation = MUTATIONS.get(name)
        if mutation is None or mutation.reach not in (Reach.ENGINE, Reach.SESSION):
            yield f"alterable: {name} is no field of an engine or of what a session holds"
            continue
        if mutation.reach is Reach.SESSION:
            continue  # what a session holds shows in a script
        with getattr(bench.engine, "altered")(name, {}):  # noqa: B009 - no member of the protocol
            changed = {field for field, value in _fields(bench).items() if value != before[field]}
        if name not in changed:
            yield f"altered: {name} is what it was"
        for field in sorted(changed - {name, *mutation.also}):
            yield f"altered: with {name} {field} changed too"
        if _fields(bench) != before or not torch.equal(bench.engine.uncached(row), logits):
            yield f"altered: {name} was not put back as it had been"
            return


def _fields(bench: Bench) -> dict[str, bytes]:
    """Return the canonical value of every field an engine answers for, windows, cache dtype and rounding among them."""
    engine = bench.engine
    described = getattr(engine, "description", bench.description)
    windows: Scalar = [layer.window for layer in described.geometry.layers]
    values: dict[str, Scalar] = {
        **engine.identity(),
        "cache.dtype": str(getattr(engine, "cache_dtype", engine.dtype)),
        "cache.quantisation": [[kind.name, dict(kind.quantisation)] for kind in described.caches],
        "window.policy": windows,
    }
    return {name: canonical(value) for name, value in values.items()}
