"""The commands `evseq run`, `qualify` and `judge`: flags in, the pipeline, its result out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evseq import flags
from evseq.config import Config, configure
from evseq.errors import Exit, UsageError
from evseq.settings import SETTINGS

if TYPE_CHECKING:
    from evseq.pipeline import Settings
    from evseq.report.terminal import Terminal
    from evseq.report.watchers import View

__all__ = ["judge", "qualify", "run"]

_GOLDENS = ("goldens", "revision", "require-goldens", "golden-form")
_RUN = ("target", "arm", "arms", "threads", "workers", "scheduler", "jsonl", "record", "known", *_GOLDENS)


@click.command(epilog=flags.endings("evseq run crop.evseq.yaml --target reference:window --arm dtype=float64"))
@flags.scripts
@flags.quick
@flags.settings(*_RUN)
@flags.resumes
@flags.updates
@flags.verbosity
def run(scripts: tuple[str, ...], *, suite: bool, verbose: bool, quiet: bool, **given: Any) -> Exit:
    """Replay SCRIPTS and judge them.

    SCRIPTS are files, or folders of *.evseq.yaml. Each combination of a script's arms on each target is one case and
    one line: how it ended, what its cache kind promises, seconds to the first logits, seconds for a later token, the
    most bytes its caches held, and the largest share of its allowance that any logit used.
    """
    return _run(scripts, suite=suite, verbose=verbose, quiet=quiet, given=given)


@click.command(epilog=flags.endings("evseq qualify --target transformers:models/small --jsonl run.jsonl"))
@flags.quick
@flags.settings(*_RUN)
@flags.resumes
@flags.updates
@flags.verbosity
def qualify(*, verbose: bool, quiet: bool, **given: Any) -> Exit:
    """Decide whether a target may ship.

    One head's arithmetic comes first, then the shipped suite. The project's goldens must be in order too: none without
    a script, no candidate that waits; with --quick nobody looks.
    """
    whole = not given["quick"]
    return _run((), suite=whole, verbose=verbose, quiet=quiet, given=given, tidy=whole)


@click.command(epilog=flags.endings("evseq run --suite --record kept && evseq judge kept/*"))
@click.argument("files", nargs=-1, required=True)
@flags.verbosity
def judge(files: tuple[str, ...], *, verbose: bool, quiet: bool) -> Exit:
    """Judge recordings FILES again, without the model.

    `evseq run --record FOLDER` keeps them.
    """
    from evseq import pipeline

    config = configure()
    goldens = config.terms()
    exits = []
    terminals = [_terminal(verbose=verbose, quiet=quiet) for _ in files]
    for file, terminal in zip(files, terminals, strict=True):
        result = pipeline.judge(Path(file), goldens=goldens, known=config.known)
        click.echo(f"{file}:")
        terminal.report(result)
        exits.append(result.exit)
    return next((code for code in (Exit.FAILED, Exit.PASSED) if code in exits), Exit.NOTHING)


def _run_settings(config: Config, *, update: bool = False, witness: bool = False) -> Settings:
    from evseq.pipeline import Settings

    goldens = config.terms(update=update, witness=witness)
    return Settings(
        mode=config.arms,
        only=dict(config.arm),
        threads=config.threads,
        record=config.record,
        goldens=goldens,
        known=config.known,
        workers=config.workers,
        scheduler=config.cluster,
    )


def _terminal(*, verbose: bool, quiet: bool) -> Terminal:
    from evseq.report.terminal import Terminal, Verbosity

    if verbose and quiet:
        raise UsageError("-v and -q exclude each other\n  help: keep one of them")
    return Terminal(verbosity=Verbosity.VERBOSE if verbose else Verbosity.QUIET if quiet else Verbosity.NORMAL)


def _run(
    scripts: tuple[str, ...],
    *,
    suite: bool,
    verbose: bool,
    quiet: bool,
    given: Mapping[str, Any],
    tidy: bool = False,
) -> Exit:
    """Run under the watch of the terminal and, where asked, of a file; then report."""
    from evseq import pipeline
    from evseq.report.jsonl import JsonLines
    from evseq.report.kept import kept
    from evseq.report.watchers import Watchers
    from evseq.script.filters import check_filters

    flags.refuse_idle(given, suite=suite, named=suite or bool(scripts))
    config = configure(given)
    settings = _run_settings(config, update=given["update"], witness=given["witness"])
    quick = given["quick"]
    parsed = pipeline.read_scripts(flags.named(scripts, suite=suite or quick), suite=suite, quick=quick)
    check_filters(parsed, config.arm, targets=config.open_names(), said=str(config.origins["arm"]))
    views: list[View] = [_terminal(verbose=verbose, quiet=quiet)]
    resumed = Path(given["resume"]) if given["resume"] else None
    before = kept(resumed) if resumed else None
    file = config.jsonl or resumed
    if file is not None:
        names = [*scripts, *(("suite",) if suite else ()), *(("quick",) if quick else ())]
        held = [SETTINGS[name] for name in ("arms", "arm", "threads", "record", "known", *_GOLDENS)]
        said = {setting.name: setting.show(getattr(config, setting.attribute)) for setting in held}
        resumes = resumed is not None and file.resolve() == resumed.resolve()
        targets = config.open_names()
        views.append(JsonLines(file, targets=targets, scripts=names, settings=said, resumes=resumes))
    with Watchers(*views) as watch:
        result = pipeline.run(
            parsed,
            config.open_names(),
            settings=settings,
            watch=watch,
            standing=config.standing,
            said=str(config.origins["arm"]),
            tidy=tidy,
            kept=before,
        )
        watch.report(result)
    return result.exit
