"""Asking for reuse: what a request claims against what a sealed file holds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evseq.cache.claim import RequestRow, cache_identity, claimed_cache, numbering, request_identity
from evseq.cache.guard import Admitted, Refused, admit
from evseq.cache.identity import Difference, Identity
from evseq.cache.sealed import Sealed, SealedKind, open_sealed, seal
from evseq.cache.state import CacheState, Scalar
from evseq.engines.protocol import Engine, Session
from evseq.errors import EngineError
from evseq.geometry import Description, Keep, Layout
from evseq.history import MASKED
from evseq.replay.altering import Made, made
from evseq.script.request import Request

__all__ = ["Answer", "Claim", "ask", "ask_live", "belongs", "force", "request_rows", "save"]


AXES = ("row", "kv_head", "slot", "head_dim")
"""The axes of exported keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who asks: a request in a layout of a described target. Without `opens` only the answer is wanted."""

    description: Description
    layout: Layout
    request: Request
    furthest: int  # most columns the cache ever held
    opens: bool = True

    @property
    def rows(self) -> tuple[RequestRow, ...]:
        """The request's rows as identity reads them."""
        return request_rows(self.request)


def request_rows(request: Request) -> tuple[RequestRow, ...]:
    """Return the rows of a request as identity and pools read them."""
    return tuple(
        RequestRow(
            name=row.name,
            tokens=tuple(token for token in row.slots if token != MASKED),
            mask=tuple(token != MASKED for token in row.slots),
            positions=row.positions,
            text=row.text,
        )
        for row in request.rows
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`session` is None where reuse was refused; `forwarded` counts token columns run meanwhile.

    Of each row the session holds at least the first `tokens`, and more of it is not to be used; None means all.
    """

    session: Session | None
    differences: tuple[Difference, ...]
    forwarded: int
    seconds: float
    by: str
    tokens: Mapping[str, int] | None = None


def save(path: Path, *, engine: Engine, session: Session, claim: Claim) -> None:
    """Seal the session's cache under the identity its engine, request and exported tensors have now.

    Raises EngineError where the engine exports no keys, or probes other rows than the request has.
    """
    state = session.export()
    identity = belongs(state, engine=engine, session=session, claim=claim)
    seal(path, kind=SealedKind.CACHE, identity=identity, tensors=state.tensors, scalars=state.scalars)


def belongs(state: CacheState, *, engine: Engine, session: Session, claim: Claim, by: Made | None = None) -> Identity:
    """Return what the session's exported cache belongs to: to what it was made `by`, which is the engine as it is now.

    Raises EngineError where the engine exports no keys, or probes other rows than the request has.
    """
    by, probe = by or made(engine), session.probe()
    description = by.description or claim.description
    layers = description.geometry.layers
    shapes = [_shape(state, number, attends=layer.attends) for number, layer in enumerate(layers)]
    names = [row.name for row in claim.rows]
    counts = {len(probe.lengths), *(len(layer) for layer in probe.visible)}
    if counts != {len(names)}:
        told = " or ".join(map(str, sorted(counts)))
        raise EngineError(f"probe: {told} rows, the request has {len(names)}\n  help: count every row in every layer")
    cache = cache_identity(
        description=description,
        dtype=", ".join(sorted({_dtype(state, number) for number, layer in enumerate(layers) if layer.attends})),
        kind=state.kind,
        shapes=shapes,
        lengths=dict(zip(names, probe.lengths, strict=True)),
        visible={name: [layer[row] for layer in probe.visible] for row, name in enumerate(names)},
        eviction=[_base(claim, description, layer, slots=shape[2]) for layer, shape in enumerate(shapes)],
        quantisation=state.scalars.get("quantisation"),
    )
    return Identity(values={**by.fields, **_request(claim), **cache})


def _shape(state: CacheState, layer: int, *, attends: bool) -> tuple[int, ...]:
    """Return the shape of the layer's keys; of a state alone, which has no slots, how many rows it has."""
    if not attends:
        rows = {len(tensor) for name, tensor in state.tensors.items() if name.startswith(f"layer.{layer}.")}
        if len(rows) != 1:
            raise EngineError(
                f"export: layer {layer} has no state with one entry for each row\n"
                f"  help: name its tensors layer.{layer}.ATTRIBUTE, rows first"
            )
        return (*rows, 0, 0, 0)
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


def _base(claim: Claim, description: Description, layer: int, *, slots: int) -> int:
    """Return the first slot a layer that holds `slots` still has. Buffers allocated at once keep theirs in a crop."""
    kind = description.cache(claim.layout.cache)
    assert kind is not None
    sizes = description.geometry.layers[layer]
    if not sizes.attends:
        return 0
    keep = kind.full if sizes.window is None else kind.sliding
    fed = len(claim.rows[0].mask) if keep in (Keep.EVERY, Keep.TAIL) else claim.furthest
    return max(0, fed - slots)


def ask(path: Path, *, engine: Engine, claim: Claim) -> Answer:
    """Open the sealed file, let the engine's rule or else evseq's guard decide, restore only what is admitted.

    Raises CacheError for a damaged file and EngineError where the engine cannot take the state over.
    """
    started, before = time.perf_counter(), engine.forwarded
    unseal = getattr(engine, "unseal", open_sealed)  # an engine may have a reader of its own
    sealed = unseal(path, kind=SealedKind.CACHE)
    verdict, by = _decided(sealed.identity, engine=engine, claim=claim)
    restored = isinstance(verdict, Admitted) and claim.opens
    return _answer(
        verdict,
        by=by,
        session=_restored(sealed, engine=engine, layout=claim.layout) if restored else None,
        forwarded=engine.forwarded - before,
        seconds=time.perf_counter() - started,
    )


def ask_live(session: Session, recorded: Identity, *, engine: Engine, claim: Claim) -> Answer:
    """Ask for the cache of a live session that belongs to `recorded`; what is admitted is a fork of it."""
    started, before = time.perf_counter(), engine.forwarded
    verdict, by = _decided(recorded, engine=engine, claim=claim)
    return _answer(
        verdict,
        by=by,
        session=session.fork() if isinstance(verdict, Admitted) and claim.opens else None,
        forwarded=engine.forwarded - before,
        seconds=time.perf_counter() - started,
    )


def _decided(recorded: Identity, *, engine: Engine, claim: Claim) -> tuple[Admitted | Refused, str]:
    """Let the engine's rule, or evseq's guard where it has none, decide; return who did."""
    cache = claimed_cache(
        description=_described(engine, claim),
        layout=claim.layout,
        dtype=getattr(engine, "cache_dtype", engine.dtype),
        rows=claim.rows,
        furthest=claim.furthest,
    )
    now = Identity(values={**engine.identity(), **_request(claim), **cache})
    rule = getattr(engine, "reuse", None)
    return (admit(recorded, now), "evseq's guard") if rule is None else (rule(recorded, now), "the engine's own rule")


def _answer(verdict: Admitted | Refused, *, by: str, session: Session | None, forwarded: int, seconds: float) -> Answer:
    return Answer(
        session=session,
        differences=verdict.differences if isinstance(verdict, Refused) else (),
        forwarded=forwarded,
        seconds=seconds,
        by=by,
        tokens=verdict.tokens if isinstance(verdict, Admitted) else None,
    )


def force(path: Path, *, engine: Engine, layout: Layout) -> Session:
    """Restore the sealed file into a new session without asking the guard."""
    return _restored(open_sealed(path, kind=SealedKind.CACHE), engine=engine, layout=layout)


def _restored(sealed: Sealed, *, engine: Engine, layout: Layout) -> Session:
    session = engine.open(layout)
    session.restore(CacheState(kind=layout.cache, tensors=sealed.tensors, scalars=sealed.scalars))
    return session


def _request(claim: Claim) -> dict[str, Scalar]:
    return request_identity(
        rows=claim.rows,
        rule=numbering(claim.description.geometry, claim.layout),
        padding=claim.request.padding,
        salt=claim.request.salt,
    )


def _described(engine: Engine, claim: Claim) -> Description:
    """Return what the live engine says of itself, or the target's description where it says nothing."""
    live: Description = getattr(engine, "description", claim.description)
    return live
