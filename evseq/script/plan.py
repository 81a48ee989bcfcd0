"""Plan: a script in one arm, every length, position, slot, window and parent computed before a model loads."""

from __future__ import annotations

import copy
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
from evseq.script.reshaping import beam_select, crop, drop, fork
from evseq.script.reusing import reload, serialize
from evseq.script.texts import Greedy, RowText

__all__ = ["plan"]


def plan(
    script: Script,
    arms: Mapping[str, int | str],
    *,
    texts: Mapping[str, RowText],
    tree: Tree,
    description: Description | None = None,
    greedy: Greedy | None = None,
) -> st.Plan:
    """Lower `script` in one arm to steps.

    Histories are interned in `tree`, which the plans of all arms share. Without `description` everything that only a
    target can tell stays nominal and is not complained of; without `greedy` chosen tokens are symbolic (below -1).
    Raises ScriptError with every problem of this arm.
    """
    desk = Desk(script, arms, texts=texts, tree=tree, description=description, greedy=greedy)
    for number, event in enumerate(script.events):
        desk.event, desk.word = number, event.word
        if event.expect is not None and event.expect.invalid:
            _must_be_invalid(desk, event)
        else:
            _attempt(desk, event)
    _lint(desk)
    if desk.problems:
        raise ScriptError(desk.problems)
    return _finished(desk)


def _finished(desk: Desk) -> st.Plan:
    """Return the plan; only meaningful without problems."""
    capacity = desk.capacity()
    layouts = tuple(
        Layout(
            rows=group.rows,
            capacity=capacity or group.capacity,
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


def _attempt(desk: Desk, event: ev.Event) -> None:
    if event.expect is not None and event.expect.loud:
        desk.loud.add(desk.event)
    try:
        _plan_event(desk, event)
    except ImpossibleError:
        if isinstance(event, ev.Prefill | ev.Fork | ev.Reload):
            desk.broken.add(event.as_)
        if isinstance(event, ev.Serialize):
            desk.broken.add(event.to)


def _must_be_invalid(desk: Desk, event: ev.Event) -> None:
    before = copy.deepcopy((desk.sessions, desk.kept, desk.saved, desk.pending, desk.groups, desk.needs))
    problems, steps = len(desk.problems), len(desk.steps)
    try:
        _plan_event(desk, event)
    except ImpossibleError:
        del desk.problems[problems:]
    else:
        desk.note((), f"{desk.word}: expected to be invalid, but this event is possible", "drop the expectation")
    del desk.steps[steps:]
    desk.sessions, desk.kept, desk.saved, desk.pending, desk.groups, desk.needs = before


def _plan_event(desk: Desk, event: ev.Event) -> None:
    if event.expect is not None and not isinstance(event, ev.Reload):
        _only_reload(desk, event.expect)
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
        case ev.MutatePrefixToken():
            desk.pending.append((desk.event, event))
        case ev.Probe():
            session = desk.live(event.on)
            session.opened_by = None
            desk.emit(st.Read(event=desk.event, session=event.on, after=session.state(desk.rules)))
        case ev.Drop():
            drop(desk, event)
        case _:
            assert_never(event)


def _only_reload(desk: Desk, expect: ev.Expect) -> None:
    for word in ("refused", "reused"):
        if getattr(expect, word) is not None:
            desk.refuse(
                ("expect", word), f"{desk.word}: only a reload can be {word}", "move the expectation to the reload"
            )


def _lint(desk: Desk) -> None:
    for session in desk.sessions.values():
        desk.vacuous(session)
    for number, event in desk.pending:
        desk.event, desk.word = number, event.word
        desk.note(
            (),
            f"{desk.word}: nobody asks for reuse afterwards",
            "follow it with a `reload` that expects prefix.tokens to be refused",
        )
