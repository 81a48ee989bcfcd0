"""Same history, same logits: the checks that compare observations of one history."""

from __future__ import annotations

from collections.abc import Iterator

from evseq.geometry import Dtype, Promise
from evseq.replay.recording import Fed
from evseq.script.steps import Feed
from evseq.verdict.allowance import allowance, suspect
from evseq.verdict.compare import beyond, deviation, differing
from evseq.verdict.evidence import Evidence
from evseq.verdict.result import Check, Finding

__all__ = ["continuity", "finite", "isolation", "parity", "reference", "rerouted"]


def reference(evidence: Evidence) -> Iterator[Finding]:
    """Find an uncached side that is not causal, not plausible in this dtype, or changed while others ran."""
    references, dtype = evidence.references, evidence.recording.dtype
    if references.causal_gap:
        yield evidence.finding(
            Check.REFERENCE,
            0,
            f"the uncached forward is not causal: a later token moved earlier logits by {references.causal_gap:.3g}",
        )
    if len(references.nodes) > 1 and _insensitive(evidence):
        yield evidence.finding(
            Check.REFERENCE, 0, "truth is the same for every history: no fault can show in a model that never changes"
        )
    if dtype in references.changed:
        yield evidence.finding(Check.REFERENCE, 0, references.changed[dtype])
    # The deciding dtype has an err of its own only where it is float32: there padding is what may widen the bound.
    besides = "behind pads" if dtype is references.deciding.dtype else "from truth"
    share = suspect(dtype, references)
    worst = int(share.argmax())
    # A router between two experts that are as good as equal chooses by rounding: told in a note, as `rerouted` says it.
    if share[worst] > 1 and (dtype is references.deciding.dtype or not evidence.description.geometry.routed):
        yield evidence.finding(
            Check.REFERENCE,
            0,
            f"the uncached {dtype} forward is off by {references.err[dtype][worst]:.3g} {besides}, "
            f"{share[worst]:.3g} times what rounding explains",
        )


def rerouted(evidence: Evidence) -> str | None:
    """Say at how many histories rounding chose another expert, so that little can be judged there in this dtype."""
    references, dtype = evidence.references, evidence.recording.dtype
    off = suspect(dtype, references) > 1
    if dtype is references.deciding.dtype or not evidence.description.geometry.routed or not off.any():
        return None
    worst = references.err[dtype].masked_fill(~off, 0.0)
    return (
        f"{dtype} at {int(off.sum())} of {len(off)} histories: off by up to {float(worst.max()):.2g} uncached, as when "
        f"rounding decides a near tie of a router for another expert; {references.deciding.dtype} judges logic there"
    )


def _insensitive(evidence: Evidence) -> bool:
    """Return whether truth moves between histories by no more than the deciding dtype's allowance."""
    references = evidence.references
    spread = (references.truth - references.truth[:1]).abs().max()
    return bool(spread <= allowance(references.deciding.dtype, references).max())


def finite(evidence: Evidence) -> Iterator[Finding]:
    """Find logits that are infinite or not a number, on either side."""
    references, dtype = evidence.references, evidence.recording.dtype
    uncached = dict.fromkeys((dtype, references.deciding.dtype))
    for fed in evidence.recording.fed:
        for place in (~fed.logits.isfinite().all(-1)).nonzero().flatten().tolist():
            entry = int((~fed.logits[place].isfinite()).nonzero()[0])
            yield evidence.finding(
                Check.FINITE,
                fed.step,
                f"logit {entry} is {float(fed.logits[place, entry])}",
                row=fed.rows[place],
                index=fed.indices[place],
            )
        nodes = references.places(fed.nodes)
        for side in uncached:
            for place in (~references.finite[side][nodes]).nonzero().flatten().tolist():
                yield evidence.finding(
                    Check.FINITE,
                    fed.step,
                    f"the uncached {side} forward of this history is not finite",
                    row=fed.rows[place],
                    index=fed.indices[place],
                )


def parity(evidence: Evidence) -> Iterator[Finding]:
    """Find observations further from the truth of their history than they are allowed.

    A cache kind of promise `masked` has a truth of its own; a lossy one has none, and is not held to any here.
    """
    if evidence.kind.promise is Promise.LOSSY:
        return
    references, dtype = evidence.references, evidence.recording.dtype
    allowed = allowance(dtype, references)
    for fed in evidence.recording.fed:
        places = references.places(fed.nodes)
        expected = references.truth[places]
        known = references.finite[dtype][places] & references.finite[references.deciding.dtype][places]
        usable = fed.logits.isfinite().all(-1) & known  # the others are told by `finite`
        for one in beyond(fed.logits, expected, allowed[places], usable=usable):
            yield evidence.too_far(Check.PARITY, fed, one, against="expected")


def continuity(evidence: Evidence) -> Iterator[Finding]:
    """Find copies that do not go on bit for bit as their source did.

    Bit-equality is due where rows, step widths, physical length, kind, dtype and threads are the same since the copy,
    and where the engine, asked twice, repeats itself.
    """
    recording = evidence.recording
    if not recording.repeats:
        return
    sources: dict[int, Fed] = {}
    for fed in recording.fed:
        source = sources.setdefault(fed.lineage, fed)
        for place in differing(fed.logits, source.logits) if source is not fed else ():
            off = deviation(fed.logits[place : place + 1], source.logits[place : place + 1])
            entry = int(off.entry[0])
            actual, wanted = float(fed.logits[place, entry]), float(source.logits[place, entry])
            digits = 17 if recording.dtype is Dtype.FLOAT64 else 9  # enough to tell any two numbers apart
            yield evidence.finding(
                Check.CONTINUITY,
                fed.step,
                f"logit {entry} is {actual:.{digits}g} in session {fed.session!r}, {wanted:.{digits}g} in "
                f"{source.session!r} which it copies: must be bit-equal, off by {float(off.largest[0]):.3g}",
                row=fed.rows[place],
                index=fed.indices[place],
                actual=actual,
                expected=wanted,
            )


def isolation(evidence: Evidence) -> Iterator[Finding]:
    """Find cached tokens that moved: by another session, another row, or a later token.

    A lossy cache may round what it holds whenever it is fed.
    """
    lossy = evidence.kind.promise is Promise.LOSSY
    for moved in evidence.recording.moved:
        step = evidence.step(moved.step)
        acting = step.session
        if lossy and acting == moved.session and isinstance(step, Feed):
            continue
        whose = "its own step" if acting == moved.session else f"a step of session {acting!r}"
        yield evidence.finding(
            Check.ISOLATION,
            moved.step,
            f"keys or values of session {moved.session!r} moved in layer {moved.layer} by {whose}",
            row=moved.row,
            index=moved.position,
        )
