"""Plan: a script in one arm, every length, position, slot, window and parent computed before a model loads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from evseq.errors import ScriptError
from evseq.geometry import Description, Layout
from evseq.history import Tree
from evseq.script import events as ev
from evseq.script import steps as st
from evseq.script.desk import Desk, ImpossibleError
from evseq.script.document import Script
from evseq.script.feeding import append, prefill
from evseq.script.lint import lint
from evseq.script.reshaping import beam_select, crop, drop, fork
from evseq.script.reusing import reload, serialize
from evseq.script.texts import Greedy, RowText

__all__ = ["plan"]

Planned = ev.Prefill | ev.Append | ev.BeamSelect | ev.Crop | ev.Fork | ev.Serialize | ev.Reload | ev.Probe | ev.Drop
"""Events that are something to do; a mutation is part of the reload that follows."""


def plan(
    script: Script,
    arms: Mapping[str, int | str],
    *,
    words: Mapping[str, int | None],
    texts: Mapping[str, RowText],
    tree: Tree,
    description: Description | None = None,
    greedy: Greedy | None = None,
) -> st.Plan:
    """Lower `script` in one arm to steps.

    `words` are the number words of this case, `texts` its rows. Histories are interned in `tree`, which the plans of
    all arms share. Without `description` everything that only a target can tell stays nominal and is not complained of;
    without `greedy` chosen tokens are symbolic (below -1). Raises ScriptError with every problem of this arm.
    """
    desk = Desk(script, arms, words=words, texts=texts, tree=tree, description=description, greedy=greedy)
    for number, event in enumerate(script.events):
        desk.event, desk.word, desk.guessed = number, event.word, False
        _expected(desk, event)
        if isinstance(event, ev.MutatePrefixToken):
            desk.pending.append((number, event))
        elif event.expect is not None and event.expect.invalid:
            _must_be_invalid(desk, event)
        else:
            _attempt(desk, event)
    lint(desk)
    if desk.problems:
        raise ScriptError(desk.problems)
    return _finished(desk)


def _finished(desk: Desk) -> st.Plan:
    """Return the plan; only meaningful without problems."""
    layouts = tuple(
        Layout(
            rows=group.rows,
            capacity=desk.capacity or group.capacity,
            depth=group.depth,
            cache=str(desk.arms.get("cache", "")),
            positions=desk.rules.positions,
        )
        for group in desk.groups
    )
    return st.Plan(
        arms=dict(desk.arms),
        steps=tuple(desk.steps),
        layouts=layouts,
        needs=frozenset(desk.needs),
        loud=frozenset(desk.loud),
    )


def _expected(desk: Desk, event: ev.Event) -> None:
    """Note expectations that are not for this event."""
    if event.expect is None:
        return
    if event.expect.loud:
        desk.loud.add(desk.event)
        if isinstance(event, ev.MutatePrefixToken):
            message = f"{desk.word}: asks nothing of an engine, so `loud` cannot fail"
            desk.note(("expect",), message, "put the expectation at the reload")
    for word in ("refused", "reused"):
        if getattr(event.expect, word) is not None and not isinstance(event, ev.Reload):
            message = f"{desk.word}: only a reload can expect `{word}`"
            desk.note(("expect", word), message, "move the expectation to the reload")


def _attempt(desk: Desk, event: Planned) -> None:
    try:
        _plan_event(desk, event)
    except ImpossibleError:
        _give_up(desk, event)


def _give_up(desk: Desk, event: Planned) -> None:
    """Let later events not be blamed for what an impossible one would have made or changed."""
    match event:
        case ev.Prefill() | ev.Fork() | ev.Reload():
            name = desk.resolved(event.as_)
            desk.broken.add(name)
            desk.doubt(name)
        case ev.Serialize():
            desk.broken.add(desk.resolved(event.to))
        case ev.BeamSelect():
            name = desk.resolved(event.on)
            desk.broken.add(name)
            desk.sessions.pop(name, None)
        case ev.Append() | ev.Crop() | ev.Probe() | ev.Drop():
            desk.doubt(desk.resolved(event.on))
        case _:
            assert_never(event)


def _must_be_invalid(desk: Desk, event: Planned) -> None:
    back = desk.snapshot()
    try:
        _plan_event(desk, event)
    except ImpossibleError:
        back()
    else:
        certain = desk.certain
        back()
        if certain:
            desk.possible()
    if isinstance(event, ev.Reload):
        desk.pending = []  # it was the next to ask for reuse


def _plan_event(desk: Desk, event: Planned) -> None:
    match event:
        case ev.Prefill():
            prefill(desk, event)
        case ev.Append():
            append(desk, event)
        case ev.BeamSelect():
            beam_select(desk, event)
        case ev.Crop():
            crop(desk, event)
        case ev.Fork():
            fork(desk, event)
        case ev.Serialize():
            serialize(desk, event)
        case ev.Reload():
            reload(desk, event)
        case ev.Probe():
            session = desk.live(desk.resolved(event.on))
            session.opened_by = None
            desk.emit(st.Read(event=desk.event, session=session.name, after=session.state(desk.rules)))
        case ev.Drop():
            drop(desk, event)
        case _:
            assert_never(event)
