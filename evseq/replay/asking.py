"""Asking for reuse: what a request claims against what a sealed file holds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from evseq.cache.claim import RequestRow, cache_identity, claimed_cache, numbering, request_identity
from evseq.cache.guard import Refused, admit
from evseq.cache.identity import Difference, Identity
from evseq.cache.sealed import Sealed, SealedKind, open_sealed, seal
from evseq.cache.state import CacheState, Scalar
from evseq.engines.protocol import Engine, Session
from evseq.errors import EngineError
from evseq.geometry import Description, Keep, Layout
from evseq.history import MASKED
from evseq.script.steps import Request

__all__ = ["Answer", "Claim", "ask", "force", "save"]


AXES = ("row", "kv_head", "slot", "head_dim")
"""The axes of exported keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who asks: a request in a layout of a described target."""

    description: Description
    layout: Layout
    request: Request
    furthest: int  # most columns the cache ever held

    @property
    def rows(self) -> tuple[RequestRow, ...]:
        """The request's rows as identity reads them."""
        return tuple(
            RequestRow(
                name=row.name,
                tokens=tuple(token for token in row.slots if token != MASKED),
                mask=tuple(token != MASKED for token in row.slots),
                positions=row.positions,
                text=row.text,
            )
            for row in self.request.rows
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`session` is None where reuse was refused; `forwarded` counts token columns run meanwhile."""

    session: Session | None
    differences: tuple[Difference, ...]
    forwarded: int
    seconds: float


def save(path: Path, *, engine: Engine, session: Session, claim: Claim) -> None:
    """Seal the session's cache under the identity its engine, request and exported tensors have now.

    Raises EngineError where the engine exports no keys, or probes other rows than the request has.
    """
    state, probe = session.export(), session.probe()
    shapes = [_shape(state, layer) for layer in range(len(claim.description.geometry.layers))]
    names = [row.name for row in claim.rows]
    counts = {len(probe.lengths), *(len(layer) for layer in probe.visible)}
    if counts != {len(names)}:
        told = " or ".join(map(str, sorted(counts)))
        raise EngineError(f"probe: {told} rows, the request has {len(names)}\n  help: count every row in every layer")
    cache = cache_identity(
        description=claim.description,
        dtype=", ".join(sorted({_dtype(state, layer) for layer in range(len(shapes))})),
        kind=state.kind,
        shapes=shapes,
        lengths=dict(zip(names, probe.lengths, strict=True)),
        visible={name: [layer[row] for layer in probe.visible] for row, name in enumerate(names)},
        eviction=[_base(claim, layer, slots=shape[2]) for layer, shape in enumerate(shapes)],
    )
    seal(
        path,
        kind=SealedKind.CACHE,
        identity=Identity(values={**_asker(engine, claim), **cache}),
        tensors=state.tensors,
        scalars=state.scalars,
    )


def _shape(state: CacheState, layer: int) -> tuple[int, ...]:
    name = f"layer.{layer}.keys"
    shape = tuple(state.tensors[name].shape) if name in state.tensors else None
    if shape is None or len(shape) != len(AXES):
        found = "is missing" if shape is None else f"has shape {list(shape)}"
        raise EngineError(f"export: {name} {found}\n  help: name every layer's keys so, with axes {' '.join(AXES)}")
    return shape


def _dtype(state: CacheState, layer: int) -> str:
    """Return the dtype the layer's keys and values really have; both where they differ, which no request claims."""
    parts = (state.tensors.get(f"layer.{layer}.{part}") for part in ("keys", "values"))
    return ", ".join(sorted({str(part.dtype).removeprefix("torch.") for part in parts if part is not None}))


def _base(claim: Claim, layer: int, *, slots: int) -> int:
    """Return the first slot a layer that holds `slots` still has. Buffers allocated at once keep theirs in a crop."""
    description = claim.description
    kind = description.cache(claim.layout.cache)
    assert kind is not None
    keep = kind.full if description.geometry.layers[layer].window is None else kind.sliding
    fed = len(claim.rows[0].mask) if keep in (Keep.EVERY, Keep.TAIL) else claim.furthest
    return max(0, fed - slots)


def ask(path: Path, *, engine: Engine, claim: Claim) -> Answer:
    """Open the sealed file, let the engine's rule or else evseq's guard decide, restore only what is admitted.

    Raises CacheError for a damaged file and EngineError where the engine cannot take the state over.
    """
    started, before = time.perf_counter(), engine.forwarded
    sealed = open_sealed(path, kind=SealedKind.CACHE)
    cache = claimed_cache(
        description=claim.description,
        layout=claim.layout,
        dtype=engine.dtype,
        rows=claim.rows,
        furthest=claim.furthest,
    )
    rule = getattr(engine, "reuse", admit)  # an engine may have none of its own
    verdict = rule(sealed.identity, Identity(values={**_asker(engine, claim), **cache}))
    session = None
    differences: tuple[Difference, ...] = ()
    if isinstance(verdict, Refused):
        differences = verdict.differences
    else:
        session = _restored(sealed, engine=engine, layout=claim.layout)
    return Answer(
        session=session,
        differences=differences,
        forwarded=engine.forwarded - before,
        seconds=time.perf_counter() - started,
    )


def force(path: Path, *, engine: Engine, layout: Layout) -> Session:
    """Restore the sealed file into a new session without asking the guard."""
    return _restored(open_sealed(path, kind=SealedKind.CACHE), engine=engine, layout=layout)


def _restored(sealed: Sealed, *, engine: Engine, layout: Layout) -> Session:
    session = engine.open(layout)
    session.restore(CacheState(kind=layout.cache, tensors=sealed.tensors, scalars=sealed.scalars))
    return session


def _asker(engine: Engine, claim: Claim) -> dict[str, Scalar]:
    request = request_identity(
        rows=claim.rows,
        rule=numbering(claim.description.geometry, claim.layout),
        padding=claim.request.padding,
        salt=claim.request.salt,
    )
    return {**engine.identity(), **request}
