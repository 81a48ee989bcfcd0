"""Lossy caches: held to the same row alone, and to a declared envelope around truth. Never called parity."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from evseq.geometry import Deciding, Dtype, Promise
from evseq.replay.recording import Fed
from evseq.verdict.allowance import allowance
from evseq.verdict.compare import beyond, deviation, share
from evseq.verdict.evidence import Evidence
from evseq.verdict.result import Check, Finding, Margin

__all__ = ["envelope", "envelope_share", "solo", "solo_margin"]


def solo(evidence: Evidence) -> Iterator[Finding]:
    """Find observations further than rounding from what the same row gives alone, fed in the same pieces."""
    recording = evidence.recording
    if evidence.kind.promise is not Promise.LOSSY:
        return
    if recording.alone is not None:
        yield evidence.finding(Check.SOLO, 0, f"a row replayed alone raised {recording.alone}")
        return
    for fed in recording.fed:
        alone, usable = recording.solo[fed.lineage], fed.logits.isfinite().all(-1)  # the others are told by `finite`
        for one in beyond(fed.logits, alone, _limits(evidence, fed), usable=usable):
            yield evidence.too_far(Check.SOLO, fed, one, against="with its row alone")


def _limits(evidence: Evidence, fed: Fed) -> Float[Tensor, " observation"]:
    """Return how far each observation may be from its row alone, in logits.

    Two forwards that differ by rounding may put a number on either side of a step of the quantisation. In float64 none
    does; in a coarser dtype a whole step may be between them, and what all steps together cost bounds it.
    """
    references, dtype = evidence.references, evidence.recording.dtype
    places = references.places(fed.nodes)
    limits: Tensor = allowance(dtype, references)[places]
    if dtype is Dtype.FLOAT64 and references.deciding is Deciding.PURE:
        return limits
    return limits.maximum(deviation(evidence.recording.solo[fed.lineage], references.truth[places]).largest)


def envelope(evidence: Evidence) -> Iterator[Finding]:
    """Find observations further from truth than the cache kind itself declares."""
    for fed, off, limits in _enveloped(evidence):
        usable = fed.logits.isfinite().all(-1)
        for place in (~(off <= limits) & usable).nonzero().flatten().tolist():
            yield evidence.finding(
                Check.ENVELOPE,
                fed.step,
                f"off by {float(off[place]):.3g} from the uncached forward, cache {evidence.kind.name!r} declares at "
                f"most {float(limits[place]):.3g}, {evidence.kind.envelope:g} of the largest logit",
                row=fed.rows[place],
                index=fed.indices[place],
                actual=float(off[place]),
                expected=f"at most {float(limits[place]):.3g}",
                share=float(share(off[place], limits[place])),
            )


def envelope_share(evidence: Evidence) -> float | None:
    """Return the largest share of the declared envelope that an observation used; None where none is declared."""
    shares = [float(share(off, limits).max()) for _, off, limits in _enveloped(evidence)]
    return max(shares, default=None)


def _enveloped(
    evidence: Evidence,
) -> Iterator[tuple[Fed, Float[Tensor, " observation"], Float[Tensor, " observation"]]]:
    """Yield each forward with its distances from truth and what is declared for them; nothing without an envelope."""
    references, declared = evidence.references, evidence.kind.envelope
    if evidence.kind.promise is not Promise.LOSSY or declared is None:
        return
    for fed in evidence.recording.fed:
        places = references.places(fed.nodes)
        if places:  # a chunk may hold nothing but masked slots
            yield fed, deviation(fed.logits, references.truth[places]).largest, declared * references.scale[places]


def solo_margin(evidence: Evidence) -> Margin | None:
    """Return the observation that used the largest share of what it may be from its row alone."""
    worst: Margin | None = None
    for fed in evidence.recording.fed if evidence.recording.alone is None else ():
        if not fed.nodes:
            continue
        off, limits = deviation(fed.logits, evidence.recording.solo[fed.lineage]).largest, _limits(evidence, fed)
        place = int(torch.argmax(share(off, limits)))
        err = evidence.references.err[evidence.recording.dtype][evidence.references.places(fed.nodes)[place]]
        margin = Margin(deviation=float(off[place]), err=float(err), allowed=float(limits[place]))
        if worst is None or margin.fraction > worst.fraction:
            worst = margin
    return worst
