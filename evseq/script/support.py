"""Support: why a target cannot play a plan that is possible in itself."""

from __future__ import annotations

from dataclasses import replace

from evseq.geometry import CacheKind, Description, Keep, Positions, Promise
from evseq.script.steps import Alter, Crop, Draw, Feed, Join, Load, Plan, Step, Stow

__all__ = ["unsupported"]


def unsupported(plan: Plan, description: Description) -> str | None:
    """Return the first reason why the described target cannot play `plan`, or None."""
    geometry = description.geometry
    missing = sorted(plan.needs - description.capabilities)
    if missing:
        return f"needs {', '.join(missing)}"
    if plan.dtype not in description.dtypes:
        return f"no {plan.dtype}"
    for name, value in plan.arms.items():
        _, dot, option = name.rpartition(".")
        if dot and str(value) not in description.options.get(option, ()):
            return f"no {option} {value!r}" if option in description.options else f"no option {option!r}"
    kind = description.cache(plan.cache)
    if kind is None:
        reason = dict(description.absent).get(plan.cache)
        return f"no cache kind {plan.cache!r}" + (f": {reason}" if reason else "")
    if reason := _unkept(plan, kind):
        return reason
    feeds = _feeds(plan)
    token = max((token for feed in feeds for row in feed.tokens for token in row), default=0)
    if token >= geometry.vocab:
        return f"token {token} is not in a vocabulary of {geometry.vocab}"
    position = max((place for feed in feeds for row in feed.positions for place in row), default=0)
    if geometry.max_positions is not None and position >= geometry.max_positions:
        return f"needs {position + 1} positions, has {geometry.max_positions}"
    if not kind.crops_past_window and geometry.window is not None and _crops_past(plan, geometry.window):
        return f"cache {kind.name!r} cannot crop once fed more than its window"
    return next(filter(None, (_unchangeable(step, plan, kind, description) for step in plan.steps)), None)


def _unkept(plan: Plan, kind: CacheKind) -> str | None:
    """Return why a cache of this kind cannot do what the plan asks of it, or None."""
    quiet = [step for step in plan.steps if step.event not in plan.loud]
    if not kind.crops and any(isinstance(step, Crop) for step in quiet):
        return f"cache {kind.name!r} cannot crop"
    if not kind.joins and any(isinstance(step, Join) for step in quiet):
        return f"cache {kind.name!r} takes no rows in"
    if kind.promise is not Promise.EXACT and any(isinstance(step, Draw | Stow) for step in plan.steps):
        return f"cache {kind.name!r} is {kind.promise}: a pool serves exact ones alone"
    if kind.promise is Promise.LOSSY and any(isinstance(step, Load) and step.whole is not None for step in plan.steps):
        return (
            f"cache {kind.name!r} is lossy: what it holds depends on how it was fed, and no part of it serves another"
        )
    return None


def _unchangeable(step: Step, plan: Plan, kind: CacheKind, description: Description) -> str | None:
    """Return why what a step changes cannot be changed here, or None."""
    match step:
        case Alter(field=field) if field not in description.alterable:
            return f"cannot change {field} while it lives"
        case Alter(field="cache.quantisation") if not kind.quantisation:
            return f"cache {kind.name!r} holds numbers as they are computed"
        case Alter(field="cache.eviction") if {kind.full, kind.sliding} - {Keep.EVERY, Keep.TAIL}:
            return f"cache {kind.name!r} has all its slots from the beginning"
        case Alter(field="cache.eviction") if all(layer.window for layer in description.geometry.layers):
            return "every layer evicts by itself what it no longer sees"
        case Load(refused="position.ids") if _numbers(plan, step.group):
            return "positions left to the engine cannot be asked for"
        case Draw(changed=changed) if "position.ids" in changed and _numbers(plan, step.group):
            return "positions left to the engine cannot be asked for"
        case Load() if step.asks.cache is not None and description.cache(step.asks.cache) is None:
            return f"no cache kind {step.asks.cache!r}"
        case Load() if step.asks.cache == kind.name:
            return f"the cache is {kind.name!r} already"
        case Load() if step.asks.room:
            layout, columns = plan.layouts[step.group], step.state.columns
            wider = replace(layout, capacity=layout.capacity + step.asks.room)
            sizes = {
                kind.slots(layer, fed=columns, layout=wider) - kind.slots(layer, fed=columns, layout=layout)
                for layer in description.geometry.layers
            }
            return None if sizes - {0} else f"cache {kind.name!r} takes no room before it is filled"
        case _:
            return None


def _numbers(plan: Plan, group: int) -> bool:
    """Tell whether the engine numbers the tokens of a group's sessions itself."""
    return plan.layouts[group].positions is Positions.ENGINE


def _feeds(plan: Plan) -> list[Feed]:
    feeds = [step for step in plan.steps if isinstance(step, Feed)]
    loads = [step for step in plan.steps if isinstance(step, Load)]
    rights = [load.damage.right for load in loads if load.damage is not None]
    feeds += [step.whole for step in plan.steps if isinstance(step, Draw)]
    return [*feeds, *(feed for load in loads for feed in load.feeds), *(feed for right in rights for feed in right)]


def _crops_past(plan: Plan, window: int) -> bool:
    quiet = (step for step in plan.steps if isinstance(step, Crop) and step.event not in plan.loud)
    return any(step.after.furthest > window for step in quiet)
