"""Filters of arms: what a person keeps must be there, or a misspelt word would quietly run something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import entry_points

from evseq.errors import UsageError, nearest
from evseq.geometry import Description
from evseq.script.arms import BUILT_IN, value_schema
from evseq.script.document import Script
from evseq.script.rows import Each
from evseq.script.texts import each_lines

__all__ = ["check_filters", "check_offered"]

FREE = ("cache", "chunk", "capacity")
"""Arms whose values a target or a number word decides, so that no list of them is complete."""

ENGINES = "evseq.engines"
"""The group of entry points that engines are installed under; asking for names imports none of them."""

IN_MEMORY = "memory"
"""The namespace of a loader given as an object."""

EVERY = "all"
"""The word for every cache kind of a target."""

LISTED = 12
"""Values a message lists; a row with a case per line may have thousands."""


def check_filters(
    scripts: Sequence[Script],
    only: Mapping[str, Sequence[str]],
    *,
    targets: Iterable[str | object] = (),
    said: str = "only",
) -> None:
    """Raise UsageError for a filter in `only` whose arm, or one of whose values, is nowhere in `scripts`.

    Arms of evseq are always there, with the values they may have. Rows with a case per line are arms too. An engine's
    own option, told by a dot, needs a script that has it, or an engine of that name: installed, or one of `targets`, or
    a target of a script. `said` is who says the filters, as a message begins.
    """
    for name, values in only.items():
        offered = [found for script in scripts if (found := _values(script, name)) is not None]
        if "." in name:
            engines = _engines(scripts, targets)
            known = name.partition(".")[0] in engines
            if not known and not offered:
                raise UsageError(f"{said}: {_no_option(name, scripts, engines)}")
            free = known and len(offered) < len(scripts)  # it is added to the scripts that lack it
        elif name in BUILT_IN:
            free = name in FREE
        elif offered:
            free = False
        else:
            raise UsageError(f"{said}: {_no_arm(name, scripts)}")
        valid = dict.fromkeys([*_built_in(name), *(value for found in offered for value in found)])
        missing = [value for value in values if not free and value not in valid]
        if missing:
            hint = _hint(nearest(missing[0], valid), "values", list(valid))
            raise UsageError(f"{said}: arm {name!r} has no value {missing[0]!r} in these scripts\n  help: {hint}")


def check_offered(
    scripts: Sequence[Script],
    only: Mapping[str, Sequence[str]],
    *,
    offered: Mapping[str, Description],
    said: str = "only",
) -> None:
    """Raise UsageError for a cache kind or a value of an engine's option in `only` that no case could ever have.

    Neither a script has it nor one of the targets, `offered` by their texts. Where no target is of the option's engine,
    it says nothing about any case.
    """
    for name, values in only.items():
        engine, dot, option = name.partition(".")
        if dot:
            described = [description for text, description in offered.items() if text.partition(":")[0] == engine]
            by_target = [description.options.get(option, ()) for description in described]
        elif name == "cache":
            by_target = [tuple(kind.name for kind in description.caches) for description in offered.values()]
        else:
            continue
        listed = [value for script in scripts for value in _values(script, name) or ()]
        listed += [] if dot else [EVERY]
        if dot and by_target and not any(by_target) and not listed:
            options = dict.fromkeys(f"{engine}.{known}" for description in described for known in description.options)
            hint = _hint(nearest(name, options), "options", list(options)) if options else "it has none"
            raise UsageError(f"{said}: no target has an option {name!r}\n  help: {hint}")
        known = dict.fromkeys(value for offers in by_target for value in offers)
        missing = [value for value in values if by_target and value not in (*known, *listed)]
        if missing:
            close = nearest(missing[0], known)
            hint = f"{f'did you mean {close!r}? ' if close else ''}targets offer {', '.join(known)}"
            raise UsageError(f"{said}: no target and no script has {name}={missing[0]}\n  help: {hint}")


def _values(script: Script, name: str) -> list[str] | None:
    """Return the values of an arm as a filter writes them, or None where `script` has no such arm."""
    if name in script.arms:
        return [str(value) for value in script.arms[name].values]
    row = script.rows.get(name)
    return [str(line + 1) for line in range(len(each_lines(script, row.each)))] if isinstance(row, Each) else None


def _built_in(name: str) -> list[str]:
    return [str(word) for word in value_schema(name).get("enum", ())]


def _engines(scripts: Sequence[Script], targets: Iterable[str | object]) -> list[str]:
    """Return the names before a colon or a dot that an engine's options may have."""
    named = [*targets, *(target for script in scripts for target in script.targets)]
    chosen = {target.partition(":")[0] if isinstance(target, str) else IN_MEMORY for target in named}
    return sorted({entry.name for entry in entry_points(group=ENGINES)} | chosen)


def _no_option(name: str, scripts: Sequence[Script], engines: Sequence[str]) -> str:
    namespace, _, option = name.partition(".")
    engine = nearest(namespace, engines)
    listed = sorted({arm for script in scripts for arm in script.arms if engine and arm.startswith(f"{engine}.")})
    close = nearest(name, listed) or (f"{engine}.{option}" if engine else None)
    return f"no engine {namespace!r} with options\n  help: {_hint(close, 'engines', engines)}"


def _no_arm(name: str, scripts: Sequence[Script]) -> str:
    lines = {row for script in scripts for row, source in script.rows.items() if isinstance(source, Each)}
    known = sorted({*BUILT_IN, *lines, *(arm for script in scripts for arm in script.arms)})
    return f"no arm {name!r} in these scripts\n  help: {_hint(nearest(name, known), 'arms', known)}"


def _hint(close: str | None, what: str, known: Sequence[str]) -> str:
    rest = ", ..." if len(known) > LISTED else ""
    return f"did you mean {close!r}?" if close else f"{what} are {', '.join(known[:LISTED])}{rest}"
