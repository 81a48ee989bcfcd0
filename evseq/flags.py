"""Flags: what commands have in common, and how their help ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from evseq.errors import UsageError
from evseq.settings import ON_PURPOSE, SETTINGS, UPDATE

__all__ = [
    "BEGIN",
    "EXITS",
    "endings",
    "named",
    "quick",
    "refuse_idle",
    "resumes",
    "scripts",
    "settings",
    "updates",
    "verbosity",
]

Command = TypeVar("Command", bound=Callable[..., Any])

EXITS = """\b
Exit codes, equal to pytest's:
  0  passed
  1  failed
  2  interrupted
  3  internal error; EVSEQ_TRACEBACK=1 shows where
  4  wrong usage, or an error in a script
  5  nothing to do, or nothing supported on a target that was named
"""

WITNESS = "Write this machine's witness: how far its rounding is from the truth."

BEGIN = """\b
Begin with:
  evseq qualify                                  the shipped suite on the engine in the package
  evseq run --suite --target transformers:DIR    the same on a model of yours
  evseq new my-first                             a script of a dozen lines to change
"""


def settings(*names: str) -> Callable[[Command], Command]:
    """Return a decorator that gives a command the flags of these settings."""

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            setting = SETTINGS[name]
            if setting.switch:  # left out, it says nothing: the environment or the project may
                command = click.option(f"--{name}", is_flag=True, default=None, help=setting.help)(command)
                continue
            usual = setting.show(setting.default)
            text = setting.help if usual == "-" else f"{setting.help} Default: {usual}."
            spelt = [f"-{setting.short}", f"--{name}"] if setting.short else [f"--{name}"]
            command = click.option(*spelt, metavar=setting.metavar, multiple=setting.many, help=text)(command)
        return command

    return decorate


def updates(command: Command) -> Command:
    """Give a command what it may write besides its report."""
    goldens, witness = ON_PURPOSE
    command = click.option(f"--{witness}", "witness", is_flag=True, help=WITNESS)(command)
    return click.option(f"--{goldens}", "update", is_flag=True, help=UPDATE)(command)


def resumes(command: Command) -> Command:
    """Give a command an earlier run to resume."""
    text = (
        "Run only what this file of an earlier run lacks, or has of another script, target or setting. It is written "
        "anew with all of it, or the file of --jsonl is."
    )
    return click.option("--resume", metavar="FILE", help=text)(command)


def refuse_idle(given: Mapping[str, Any], *, suite: bool, named: bool) -> None:
    """Raise UsageError for a flag of a run that would say nothing beside the others, or without another.

    `suite` is whether the suite was asked for in words, `named` whether any script but the quick set was.
    """
    if given["scheduler"] is not None and given["workers"] is not None:
        raise UsageError("--scheduler and -n exclude each other\n  help: keep one of them")
    if given["quick"] and suite:
        raise UsageError("--suite has every case of --quick\n  help: keep one of them")
    if given["quick"] and not named and given["arms"] is not None:
        raise UsageError("--quick has cases of its own, whatever --arms\n  help: keep one of them, or name an --arm")
    if given["golden_form"] is not None and not given["update"]:
        raise UsageError("--golden-form says nothing without --update-goldens\n  help: say both, or neither")


def scripts(command: Command) -> Command:
    """Give a command the names of scripts."""
    command = click.option("--suite", is_flag=True, help="The shipped release suite, besides any SCRIPTS.")(command)
    return click.argument("scripts", nargs=-1)(command)


def named(scripts: tuple[str, ...], *, suite: bool) -> tuple[str, ...]:
    """Return the `scripts` a command was given. Raises UsageError where there is nothing to read."""
    if not scripts and not suite:
        raise UsageError("no scripts are named\n  help: name files or folders, or say --suite")
    return scripts


def quick(command: Command) -> Command:
    """Give a command the choice of the quick set."""
    text = "The cheapest cases of the suite that catch every planted fault, nearly all in the dtype that decides."
    return click.option("--quick", is_flag=True, help=text)(command)


def verbosity(command: Command) -> Command:
    """Give a command the choice of how much is told."""
    command = click.option("-q", "--quiet", is_flag=True, help="Only failures and the verdict.")(command)
    return click.option("-v", "--verbose", is_flag=True, help="Every failure whole, and every note.")(command)


def endings(*examples: str) -> str:
    """Return the end of a command's help: examples, then the exit codes."""
    listed = "\n".join(f"  {example}" for example in examples)
    return f"\b\nExamples:\n{listed}\n\n{EXITS}"
