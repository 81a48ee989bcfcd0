"""Support: why a target cannot play a plan that is possible in itself."""

from __future__ import annotations

from evseq.geometry import Description
from evseq.script.steps import Crop, Feed, Load, Plan, Step

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
        return f"no cache kind {plan.cache!r}"
    feeds = _feeds(plan)
    token = max((token for feed in feeds for row in feed.tokens for token in row), default=0)
    if token >= geometry.vocab:
        return f"token {token} is not in a vocabulary of {geometry.vocab}"
    position = max((place for feed in feeds for row in feed.positions for place in row), default=0)
    if geometry.max_positions is not None and position >= geometry.max_positions:
        return f"needs {position + 1} positions, has {geometry.max_positions}"
    if not kind.crops_past_window and geometry.window is not None and _crops_past(plan.steps, geometry.window):
        return f"cache {kind.name!r} cannot crop once fed more than its window"
    return None


def _feeds(plan: Plan) -> list[Feed]:
    feeds = [step for step in plan.steps if isinstance(step, Feed)]
    damages = [step.damage for step in plan.steps if isinstance(step, Load)]
    return feeds + [feed for damage in damages if damage is not None for feed in damage.right]


def _crops_past(steps: tuple[Step, ...], window: int) -> bool:
    return any(isinstance(step, Crop) and step.after.furthest > window for step in steps)
