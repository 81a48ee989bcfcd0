"""Same history, same logits: the checks that compare observations of one history."""

from __future__ import annotations

from collections.abc import Iterator

from evseq.replay.recording import Fed
from evseq.verdict.allowance import allowance, implausible
from evseq.verdict.compare import deviation, differing
from evseq.verdict.evidence import Evidence
from evseq.verdict.result import Check, Finding

__all__ = ["continuity", "finite", "isolation", "parity", "reference", "repeats"]


def reference(evidence: Evidence) -> Iterator[Finding]:
    """Find an uncached side that is not causal, not plausible in this dtype, or changed while others ran."""
    references, dtype = evidence.references, evidence.recording.dtype
    if references.causal_gap:
        yield evidence.finding(
            Check.REFERENCE,
            0,
            f"the uncached forward is not causal: a later token moved earlier logits by {references.causal_gap:.3g}",
        )
    if dtype in references.changed:
        yield evidence.finding(
            Check.REFERENCE, 0, f"the uncached {dtype} forward gives other bits after the replay than before it"
        )
    if dtype is not references.deciding.dtype:
        share = implausible(dtype, references)
        worst = int(share.nan_to_num(nan=0, posinf=0).argmax())
        if share[worst] > 1:
            yield evidence.finding(
                Check.REFERENCE,
                0,
                f"the uncached {dtype} forward is {references.err[dtype][worst]:.3g} from truth, "
                f"{share[worst]:.3g} times what rounding explains",
            )


def finite(evidence: Evidence) -> Iterator[Finding]:
    """Find logits that are infinite or not a number, on either side."""
    references, dtype = evidence.references, evidence.recording.dtype
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
        for place, node in zip(range(len(fed.nodes)), references.places(fed.nodes), strict=True):
            if not references.finite[dtype][node]:
                yield evidence.finding(
                    Check.FINITE,
                    fed.step,
                    f"the uncached {dtype} forward of this history is not finite",
                    row=fed.rows[place],
                    index=fed.indices[place],
                )


def parity(evidence: Evidence) -> Iterator[Finding]:
    """Find observations further from the truth of their history than they are allowed."""
    references, dtype = evidence.references, evidence.recording.dtype
    allowed = allowance(dtype, references)
    for fed in evidence.recording.fed:
        places = references.places(fed.nodes)
        expected = references.truth[places]
        off = deviation(fed.logits, expected)
        limits = allowed[places]
        usable = fed.logits.isfinite().all(-1) & references.finite[dtype][places]
        for place in ((off.largest > limits) & usable).nonzero().flatten().tolist():
            entry = int(off.entry[place])
            actual, wanted = float(fed.logits[place, entry]), float(expected[place, entry])
            yield evidence.finding(
                Check.PARITY,
                fed.step,
                f"logit {entry} is {actual:.6g}, expected {wanted:.6g}: off by {float(off.largest[place]):.3g}, "
                f"allowed {float(limits[place]):.3g} in {dtype}",
                row=fed.rows[place],
                index=fed.indices[place],
                actual=actual,
                expected=wanted,
            )


def continuity(evidence: Evidence) -> Iterator[Finding]:
    """Find copies that do not go on bit for bit as their source did.

    Bit-equality is due where rows, step widths, physical length, kind, dtype and threads are the same since the copy,
    and where the engine, asked twice, repeats itself.
    """
    recording = evidence.recording
    if not repeats(evidence):
        return
    sources: dict[int, Fed] = {}
    for fed in recording.fed:
        source = sources.setdefault(fed.lineage, fed)
        for place in differing(fed.logits, source.logits) if source is not fed else ():
            off = deviation(fed.logits[place : place + 1], source.logits[place : place + 1])
            entry = int(off.entry[0])
            actual, wanted = float(fed.logits[place, entry]), float(source.logits[place, entry])
            yield evidence.finding(
                Check.CONTINUITY,
                fed.step,
                f"logit {entry} is {actual:.9g} in session {fed.session!r}, {wanted:.9g} in {source.session!r} which "
                f"it copies: must be bit-equal, off by {float(off.largest[0]):.3g}",
                row=fed.rows[place],
                index=fed.indices[place],
                actual=actual,
                expected=wanted,
            )


def repeats(evidence: Evidence) -> bool:
    """Return whether this engine, measured, gives the same bits when asked twice."""
    return evidence.references.repeats.get((evidence.recording.dtype, evidence.recording.plan.cache), False)


def isolation(evidence: Evidence) -> Iterator[Finding]:
    """Find cached tokens that moved: by another session, another row, or a later token."""
    for moved in evidence.recording.moved:
        acting = evidence.step(moved.step).session
        whose = "its own step" if acting == moved.session else f"a step of session {acting!r}"
        yield evidence.finding(
            Check.ISOLATION,
            moved.step,
            f"keys or values of session {moved.session!r} moved in layer {moved.layer} by {whose}",
            row=moved.row,
            index=moved.position,
        )
