"""The command line: all commands, and those for authors of scripts. Each imports what it needs when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from evseq import flags
from evseq.audit_command import audit
from evseq.config import configure
from evseq.ending import ended
from evseq.errors import Exit
from evseq.golden_commands import golden
from evseq.run_commands import judge, qualify, run
from evseq.settings import SETTINGS

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; every error a person can mend is printed without a traceback."""
    return ended(lambda: cli.main(arguments, prog_name="evseq", standalone_mode=False))


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


for command in (run, qualify, judge, golden, audit):
    cli.add_command(command)


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
    parsed = checking.read_scripts(flags.named(scripts, suite=suite), suite=suite)
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

    changed = changes(checking.read_scripts(flags.named(scripts, suite=suite), suite=suite))
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

    from evseq.report.output import put
    from evseq.script.schema import editor_schema

    text = json.dumps(editor_schema(), indent=2)
    if file is None:
        click.echo(text)
        return Exit.PASSED
    put(Path(file), text + "\n")
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
