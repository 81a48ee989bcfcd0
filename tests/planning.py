"""Scripts written in a test, planned for a decoder that is described and never loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from evseq.errors import Problem, ScriptError
from evseq.geometry import (
    CacheKind,
    Capability,
    Deciding,
    Description,
    Dtype,
    Geometry,
    Keep,
    Layer,
    PositionRule,
    WindowCounts,
)
from evseq.history import Tree
from evseq.script.cases import CaseArms
from evseq.script.document import Script, parse
from evseq.script.lower import lower
from evseq.script.source import parse_yaml
from evseq.script.steps import Feed, Plan
from evseq.script.texts import Greedy, Tokenize

S = TypeVar("S")

GROWING = CacheKind(name="growing", full=Keep.EVERY, sliding=Keep.EVERY)
RING = CacheKind(name="ring", full=Keep.CAPACITY, sliding=Keep.RING)

FULL = Description(
    geometry=Geometry(layers=(Layer(kv_heads=2, head_dim=4),), vocab=64, position_rule=PositionRule.MASK),
    capabilities=frozenset(Capability),
    caches=(GROWING, RING),
    dtypes=(Dtype.FLOAT64, Dtype.FLOAT32),
    deciding=Deciding.PURE,
    options={"attention": ("sdpa", "eager")},
)
"""A decoder that sees everything and can do everything."""

ROWS = {"a": "[10, 11, 12, 13, 14, 15, 16, 17]", "b": "[20, 21, 22, 23, 24]"}


SHORT = """\
evseq: 1
name: short
about: Short forms are read.
rows: {a: [1, 2], b: [3]}
events:
  - prefill: [a, b]
"""


def parsed(text: str, *, file: str = "x.evseq.yaml") -> Script:
    """Parse a whole script."""
    return parse(parse_yaml(text, file=file))


def decoder(
    *windows: int | None,
    rule: PositionRule = PositionRule.MASK,
    counts: WindowCounts = WindowCounts.POSITIONS,
    max_positions: int | None = None,
    vocab: int = 64,
    without: Sequence[Capability] = (),
) -> Description:
    """Describe a decoder with a layer for each window."""
    layers = tuple(Layer(kv_heads=2, head_dim=4, window=window) for window in windows or (None,))
    geometry = Geometry(
        layers=layers, vocab=vocab, position_rule=rule, window_counts=counts, max_positions=max_positions
    )
    return replace(FULL, geometry=geometry, capabilities=frozenset(Capability) - frozenset(without))


def script(
    *events: str,
    rows: str | Mapping[str, str] = ROWS,
    arms: str = "",
    needs: str = "",
    file: str = "x.evseq.yaml",
) -> Script:
    """Parse events written as in a script, without their dashes; they begin in line 7.

    Of a mapping of rows those are there that a prefill names.
    """
    if not isinstance(rows, str):
        named = {word for event in events if event.startswith("prefill") for word in re.findall(r"\w+", event)}
        rows = ", ".join(f"{name}: {source}" for name, source in rows.items() if name in named)
    head = ["evseq: 1", "name: x", "about: A test.", f"rows: {{{rows}}}"]
    head += [f"arms: {{{arms}}}" if arms else "# no arms", f"needs: [{needs}]" if needs else "# no needs"]
    lines = [*head, "events:", *(f"  - {event}" for event in events), ""]
    return parse(parse_yaml("\n".join(lines), file=file))


def planned(
    what: Script,
    *,
    arms: Mapping[str, int | str] | None = None,
    on: Description | None = FULL,
    tokenize: Tokenize | None = None,
    greedy: Greedy | None = None,
) -> Plan:
    """Return the plan of one case."""
    return grown(what, arms=arms, on=on, tokenize=tokenize, greedy=greedy)[0]


def grown(
    what: Script,
    *,
    arms: Mapping[str, int | str] | None = None,
    on: Description | None = FULL,
    tokenize: Tokenize | None = None,
    greedy: Greedy | None = None,
) -> tuple[Plan, Tree]:
    """Return the plan of one case and the tree of its histories."""
    lowered = lower(what, [CaseArms(arms=arms or {})], description=on, tokenize=tokenize, greedy=greedy)
    (plan,) = lowered.plans
    assert isinstance(plan, Plan), plan
    return plan, lowered.tree


def reason(
    what: Script,
    *,
    arms: Mapping[str, int | str] | None = None,
    on: Description = FULL,
    tokenize: Tokenize | None = None,
) -> str:
    """Return why the decoder cannot play the one case."""
    (plan,) = lower(what, [CaseArms(arms=arms or {})], description=on, tokenize=tokenize).plans
    assert isinstance(plan, str), plan
    return plan


def problems(
    what: Script, *, arms: Mapping[str, int | str] | None = None, on: Description | None = None
) -> tuple[Problem, ...]:
    """Return what is wrong with the one case, nothing if it is planned."""
    try:
        planned(what, arms=arms, on=on)
    except ScriptError as error:
        return error.problems
    return ()


def told(what: Script, *, arms: Mapping[str, int | str] | None = None, on: Description | None = None) -> list[str]:
    """Return place, message and help of all that is wrong with the one case."""
    return [f"{p.place.line}:{p.place.column} {p.message} | {p.help}" for p in problems(what, arms=arms, on=on)]


def feeds(plan: Plan, session: str | None = None) -> list[Feed]:
    """Return the forwards of a plan, or of one of its sessions."""
    return [step for step in plan.steps if isinstance(step, Feed) and session in (None, step.session)]


def the(kind: type[S], plan: Plan) -> S:
    """Return the only step of a kind."""
    (step,) = (step for step in plan.steps if isinstance(step, kind))
    return step
