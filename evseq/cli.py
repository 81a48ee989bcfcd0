"""The command line: flags in, the pipeline, its result out. A command imports what it needs when it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evseq import flags
from evseq.audit_command import audit
from evseq.config import Config, configure
from evseq.ending import ended
from evseq.errors import Exit, UsageError
from evseq.golden_commands import golden
from evseq.settings import SETTINGS

if TYPE_CHECKING:
    from evseq.pipeline import Settings
    from evseq.report.terminal import Terminal
    from evseq.report.watchers import View

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; every error a person can mend is printed without a traceback."""
    return ended(lambda: cli.main(arguments, prog_name="evseq", standalone_mode=False))


_GOLDENS = ("goldens", "revision", "require-goldens", "golden-form")
_RUN = ("target", "arm", "arms", "threads", "workers", "scheduler", "jsonl", "record", "known", *_GOLDENS)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"{flags.BEGIN}\n\n{flags.EXITS}",
)
@click.version_option(package_name="evseq", prog_name="evseq")
def cli() -> None:
    """Decide from numbers whether a decoder's cached step equals its uncached forward.

    An event script says what is done to a cache: prefill, append, beam-select, crop, fork, serialize, reload. evseq
    replays it on an inference engine and compares every logit with a forward that recomputes everything.
    """


cli.add_command(golden)
cli.add_command(audit)


@cli.command(epilog=flags.endings("evseq run crop.evseq.yaml --target reference:window --arm dtype=float64"))
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


@cli.command(epilog=flags.endings("evseq qualify --target transformers:models/small --jsonl run.jsonl"))
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


@cli.command(epilog=flags.endings("evseq check scripts/", "evseq check scripts/ --target reference:window"))
@flags.scripts
@flags.settings("target", "arms")
def check(scripts: tuple[str, ...], *, suite: bool, **given: Any) -> Exit:
    """Check SCRIPTS without running them.

    No model is loaded. With --target every length, position and count is computed for that decoder. Without it they
    stay symbolic, even where a script names targets of its own.
    """
    from evseq import checking

    config = configure(given)
    parsed = checking.read_scripts(_named(scripts, suite=suite), suite=suite)
    asked = config.open_names() if given["target"] else ()
    for target in asked or (None,):
        checking.check(parsed, target, mode=config.arms)
    on = f" on {', '.join(asked)}" if asked else ""
    click.echo(f"{len(parsed)} scripts are fine{on}" if len(parsed) != 1 else f"1 script is fine{on}")
    return Exit.PASSED


@cli.command(epilog=flags.endings("evseq fmt scripts/", "evseq fmt --diff scripts/"))
@flags.scripts
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit 1 if a script is not in normal form.")
@click.option("--diff", is_flag=True, help="Write nothing; show what would change, and exit 1 if anything would.")
def fmt(scripts: tuple[str, ...], *, suite: bool, only_check: bool, diff: bool) -> Exit:
    """Rewrite SCRIPTS in the normal form; comments stay."""
    from evseq import checking
    from evseq.script.fmt import changes

    changed = changes(checking.read_scripts(_named(scripts, suite=suite), suite=suite))
    for change in changed:
        if diff:
            click.echo(change.diff(), nl=False)
        elif only_check:
            click.echo(f"{change.file}: not in normal form")
        else:
            change.write()
            click.echo(f"{change.file}: rewritten")
    return Exit.FAILED if changed and (only_check or diff) else Exit.PASSED


@cli.command(epilog=flags.endings("evseq new crop-then-append --dir scripts", "evseq new issue-12 --bug beam"))
@click.argument("name")
@click.option("--dir", "folder", default=".", metavar="FOLDER", show_default=True, help="Where to write it.")
@click.option("--bug", metavar="beam|reuse|window|caller|lossy", help="Start from this kind of bug.")
def new(name: str, folder: str, bug: str | None) -> Exit:
    """Write NAME.evseq.yaml, a script to begin with.

    It passes as it stands and shows the shape of the language in a dozen lines. With --bug it starts from a bug report:
    comments say which lines take the reporter's numbers. Nothing is ever overwritten.
    """
    from evseq.script.new import create

    file = create(name, Path(folder), bug=bug)
    click.echo(f"{file}: written\n  help: evseq run {file}")
    return Exit.PASSED


@cli.command(epilog=flags.endings("evseq events prefill reload"))
@click.argument("words", nargs=-1)
def events(words: tuple[str, ...]) -> Exit:
    """Tell the events of the language with their keys.

    Name WORDS to be told only those.
    """
    from evseq.script.guide import WORDS, guide

    click.echo(guide(words or WORDS))
    return Exit.PASSED


@cli.command(epilog=flags.endings("evseq schema --write evseq.schema.json"))
@click.option("--write", "file", metavar="FILE", help="Write it to this file instead.")
def schema(file: str | None) -> Exit:
    """Print the JSON schema of scripts, for editors.

    Many editors look for it by the first line of a script: # yaml-language-server: $schema=evseq.schema.json
    """
    import json

    from evseq.script.schema import editor_schema

    text = json.dumps(editor_schema(), indent=2)
    if file is None:
        click.echo(text)
        return Exit.PASSED
    try:
        Path(file).write_text(text + "\n", encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}\n  help: name another file") from None
    click.echo(f"{file}: written")
    return Exit.PASSED


@cli.command(epilog=flags.endings("evseq inspect main.cache.safetensors"))
@click.argument("file")
def inspect(file: str) -> Exit:
    """Show what a sealed FILE says before its tensors.

    That is its kind and version, the fingerprint and fields of its identity, and names, shapes and digests of tensors.
    """
    from evseq.report.sealed import header_text

    click.echo(header_text(Path(file)))
    return Exit.PASSED


@cli.command(epilog=flags.endings("evseq run --suite --record kept && evseq judge kept/*"))
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


@cli.command("config", epilog=flags.endings("EVSEQ_THREADS=2 evseq config"))
def show_config() -> Exit:
    """Print every setting with its value and who says so.

    A setting is its default, unless [tool.evseq] of the nearest pyproject.toml says another, unless EVSEQ_NAME of the
    environment does, unless a flag does.
    """
    config = configure()
    shown = [(name, setting.show(getattr(config, setting.attribute))) for name, setting in SETTINGS.items()]
    for name, named in config.targets.items():
        shown += [(f"targets.{name}", named.target), (f"targets.{name}.revision", named.revision or "-")]
        shown.append((f"targets.{name}.golden", named.golden))
    names, values = (max(len(row[column]) for row in shown) for column in (0, 1))
    for name, value in shown:
        click.echo(f"{name:<{names}}  {value:<{values}}  {config.origins[name]}")
    return Exit.PASSED


def _named(scripts: tuple[str, ...], *, suite: bool) -> tuple[str, ...]:
    """Return `scripts`. Raises UsageError where there is nothing to read."""
    if not scripts and not suite:
        raise UsageError("no scripts are named\n  help: name files or folders, or say --suite")
    return scripts


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
    parsed = pipeline.read_scripts(_named(scripts, suite=suite or quick), suite=suite, quick=quick)
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
