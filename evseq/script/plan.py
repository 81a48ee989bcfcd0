"""Plan: a script in one arm, every length, position, slot, window and parent computed before a model loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from evseq.errors import ScriptError
from evseq.geometry import Description, Layout
from evseq.history import Tree
from evseq.script import events as ev
from evseq.script import steps as st
from evseq.script.batching import join, retire
from evseq.script.compose import Keys
from evseq.script.desk import Desk
from evseq.script.document import Script
from evseq.script.feeding import append, prefill
from evseq.script.lint import lint
from evseq.script.mutating import mutate, of_request, permitted, restore
from evseq.script.noting import ImpossibleError
from evseq.script.pooling import draw
from evseq.script.reshaping import beam_select, crop, drop, fork
from evseq.script.reusing import append_refused, reload, reuse, serialize
from evseq.script.speculating import speculate
from evseq.script.texts import Greedy, RowText
from evseq.script.turns import MAX_TURNS, Turn

__all__ = ["plan"]

Mutation = ev.Mutate | ev.Restore
Planned = (
    ev.Prefill
    | ev.Append
    | ev.BeamSelect
    | ev.Crop
    | ev.Speculate
    | ev.Retire
    | ev.Join
    | ev.Fork
    | ev.Serialize
    | ev.Reload
    | ev.Reuse
    | ev.Probe
    | ev.Drop
    | Mutation
)
"""Events that are something to do; a mutation of a request is part of what asks next."""

ASKING: Mapping[str, tuple[type[ev.Event], ...]] = {
    "refused": (ev.Reload, ev.Reuse, ev.Append),
    "reused": (ev.Reload, ev.Reuse),
    "malformed": (ev.Reload,),
}
"""The events that can expect what only a question can be answered with."""


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
    _do(desk, script.events, ("events",), ())
    lint(desk)
    if desk.problems:
        raise ScriptError(desk.problems)
    return _finished(desk)


def _do(desk: Desk, events: Sequence[ev.Event], path: Keys, rounds: tuple[int, ...]) -> None:
    """Plan events that stand side by side at `path`, in a round of every repeat around them."""
    for place, event in enumerate(events):
        turn = Turn(event=event, path=(*path, place), rounds=rounds)
        if isinstance(event, ev.Repeat):
            _repeat(desk, event, turn)
            continue
        desk.begin(turn)
        _expected(desk, event)
        if isinstance(event, ev.MutatePrefixToken) or (isinstance(event, ev.Mutate) and of_request(desk, event)):
            desk.pending.append((desk.event, event))
        elif event.expect is not None and event.expect.invalid:
            _must_be_invalid(desk, event)
        else:
            _attempt(desk, event)


def _repeat(desk: Desk, event: ev.Repeat, turn: Turn) -> None:
    """Plan a repeat's events as often as it says; once where only a target knows, and nothing is certain then."""
    desk.turn, desk.guessed = turn, False
    path = (*turn.word, "events")
    try:
        times = desk.number(event.times, ("times",))
        if times == 0:
            desk.refuse(("times",), "repeat: repeats nothing", "repeat at least once, or leave it out")
    except ImpossibleError:
        times = None
    for number in range(1 if times is None else times):
        if len(desk.turns) >= MAX_TURNS:
            if not desk.overlong:
                desk.overlong, desk.turn = True, replace(turn, rounds=())
                advice = "repeat less often; a long tail is one `append` of many tokens"
                desk.note(("times",), f"repeat: makes more than {MAX_TURNS} events of this script", advice)
            return
        _do(desk, event.events, path, (*turn.rounds, number + 1))
    if times is None:
        for name in desk.sessions:
            desk.doubt(name)


def _finished(desk: Desk) -> st.Plan:
    """Return the plan; only meaningful without problems."""
    homes = [group if group.within is None else desk.groups[group.within] for group in desk.groups]
    layouts = tuple(
        Layout(
            rows=group.rows,
            capacity=desk.capacity or home.capacity,
            depth=home.depth,
            cache=str(desk.arms.get("cache", "")),
            positions=home.positions or desk.rules.positions,
            pooled=home.pooled,
        )
        for group, home in zip(desk.groups, homes, strict=True)
    )
    return st.Plan(
        arms=dict(desk.arms),
        steps=tuple(desk.steps),
        layouts=layouts,
        needs=frozenset(desk.needs),
        turns=tuple(desk.turns),
        loud=frozenset(desk.loud),
    )


def _expected(desk: Desk, event: ev.Event) -> None:
    """Note expectations and allowances that are not for this event."""
    if event.allow is not None and (_idle(event) or (event.expect is not None and event.expect.invalid)):
        message = f"{desk.word}: nothing is done here that a check could find wrong"
        desk.note(("allow",), message, "put the allowance where the findings are, or take it out")
    if event.expect is None:
        return
    if event.expect.loud:
        desk.loud.add(desk.event)
        if isinstance(event, ev.MutatePrefixToken | Mutation):
            message = f"{desk.word}: asks nothing of an engine, so `loud` cannot fail"
            desk.note(("expect",), message, "put the expectation at the reload")
    for word, kinds in ASKING.items():
        if getattr(event.expect, word) is not None and not isinstance(event, kinds):
            message = f"{desk.word}: only a reload can expect `{word}`"
            desk.note(("expect", word), message, "move the expectation to the reload")


def _idle(event: ev.Event) -> bool:
    """Tell whether an event only prepares another."""
    return isinstance(event, ev.MutatePrefixToken)


def _attempt(desk: Desk, event: Planned) -> None:
    before = len(desk.steps)
    try:
        _plan_event(desk, event)
    except ImpossibleError:
        del desk.steps[before:]  # an event of several steps is done whole or not at all
        _give_up(desk, event)


def _give_up(desk: Desk, event: Planned) -> None:
    """Let later events not be blamed for what an impossible one would have made or changed."""
    match event:
        case ev.Prefill() | ev.Fork() | ev.Reload() | ev.Reuse():
            name = desk.resolved(event.as_)
            desk.broken.add(name)
            desk.doubt(name)
        case ev.Serialize():
            desk.broken.add(desk.resolved(event.to))
        case ev.BeamSelect() | ev.Retire() | ev.Join():
            name = desk.resolved(event.on)
            desk.broken.add(name)
            desk.sessions.pop(name, None)
        case ev.Append() | ev.Crop() | ev.Speculate() | ev.Probe() | ev.Drop():
            desk.doubt(desk.resolved(event.on))
        case ev.Mutate() | ev.Restore():  # changed, or not, nobody is asked by it
            pass
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
    if isinstance(event, ev.Reload | ev.Reuse):
        desk.pending = []  # it was the next to ask for reuse


def _plan_event(desk: Desk, event: Planned) -> None:
    permitted(desk, event)
    match event:
        case ev.Prefill():
            prefill(desk, event)
        case ev.Append(expect=ev.Expect(refused=str())):
            append_refused(desk, event)
        case ev.Append():
            append(desk, event)
        case ev.BeamSelect() | ev.Crop() | ev.Speculate() | ev.Retire() | ev.Join() | ev.Fork():
            _plan_change(desk, event)
        case ev.Serialize() | ev.Reload() | ev.Reuse() | ev.Mutate() | ev.Restore():
            _plan_question(desk, event)
        case ev.Probe():
            session = desk.live(desk.resolved(event.on))
            session.opened_by = None
            desk.emit(st.Read(event=desk.event, session=session.name, after=session.state(desk.rules)))
        case ev.Drop():
            drop(desk, event)
        case _:
            assert_never(event)


def _plan_change(desk: Desk, event: ev.BeamSelect | ev.Crop | ev.Speculate | ev.Retire | ev.Join | ev.Fork) -> None:
    """Plan what changes which rows and tokens there are."""
    match event:
        case ev.BeamSelect():
            beam_select(desk, event)
        case ev.Crop():
            crop(desk, event)
        case ev.Speculate():
            speculate(desk, event)
        case ev.Retire():
            retire(desk, event)
        case ev.Join():
            join(desk, event)
        case ev.Fork():
            fork(desk, event)
        case _:
            assert_never(event)


def _plan_question(desk: Desk, event: ev.Serialize | ev.Reload | ev.Reuse | Mutation) -> None:
    """Plan what is saved, what asks for it, and what is changed before that."""
    match event:
        case ev.Serialize():
            serialize(desk, event)
        case ev.Reload():
            reload(desk, event)
        case ev.Reuse(pool=True):
            draw(desk, event)
        case ev.Reuse():
            reuse(desk, event)
        case ev.Mutate():
            mutate(desk, event)
        case ev.Restore():
            restore(desk, event)
        case _:
            assert_never(event)
