"""The commands `evseq golden ...`: see, review, adopt, throw away and compare goldens.

None of them needs a model, a device, or a script.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from evseq import flags
from evseq.config import Config, configure
from evseq.errors import Exit, UsageError
from evseq.golden.terms import Limits, Relation
from evseq.report.figures import counted
from evseq.store_commands import COMMANDS

if TYPE_CHECKING:
    from evseq.golden.root import Place, Root

__all__ = ["golden"]

Command = TypeVar("Command", bound=Callable[..., Any])

QUANTISED = (
    "evseq golden accept --revision v2-int8 --reason 'weights in 8 bits' --parent v2 --relation approximated \\\n"
    "      --max-kl 0.05 --max-flips 3 --flip-margin 0.5"
)


def _chosen(command: Command) -> Command:
    """Give a command a choice of candidates."""
    command = click.option("--revision", metavar="LABEL", help="Only candidates of this revision.")(command)
    command = click.option("--model", metavar="NAME", help="Only candidates of this model.")(command)
    return click.argument("scripts", nargs=-1)(flags.settings("goldens")(command))


def _parent(text: str, *, required: bool = False) -> Callable[[Command], Command]:
    """Return a decorator that gives a command the revision before."""
    return click.option("--parent", metavar="LABEL", required=required, help=text)


def _relation(command: Command) -> Command:
    """Give a command what a revision is to its parent, and the limits of an approximation."""
    for name, kind, text in (
        ("--flip-margin", float, "Logits a next token must have led by before its change counts."),
        ("--max-flips", int, "Most such changes over all scripts."),
        ("--max-kl", float, "Largest KL at any history, in nats."),
    ):
        command = click.option(name, type=kind, metavar="N", help=f"For approximated. {text}")(command)
    text = "What it is to its parent: exported again, off by float32's rounding, or within limits."
    return click.option("--relation", type=click.Choice([word.value for word in Relation]), help=text)(command)


@click.group(epilog=flags.endings("evseq qualify --update-goldens", "evseq golden review", "evseq golden status"))
def golden() -> None:
    """Keep accepted logits by model and revision.

    A run with --update-goldens writes candidates; here they are reviewed and become goldens, for a reason, or nothing.
    SCRIPTS are names of scripts or shell patterns, all if left out; models and revisions may be patterns too.
    """


for one in COMMANDS:
    golden.add_command(one)


@golden.command(epilog=flags.endings("evseq golden status"))
@flags.settings("goldens")
def status(**given: Any) -> Exit:
    """Tell what goldens there are, and what is not in order.

    The exit code is 1 if anything is not: a golden that nobody accepted or no script uses, one that is gone or damaged,
    a candidate that waits, an edited ledger. It is 5 where there is no folder of goldens.
    """
    from evseq.golden.scripts import known_scripts
    from evseq.golden.status import status as read
    from evseq.golden.telling import table

    config = _config(given)
    root = config.root()
    if not root.folder.is_dir():
        click.echo(
            f"{root.folder}: no such folder, so no goldens\n  help: evseq qualify --update-goldens, or --goldens"
        )
        return Exit.NOTHING
    found = read(root, scripts=known_scripts(config.folder), audit=True)
    for line in table(found):
        click.echo(line)
    for path, message in found.problems:
        click.echo(f"{path}: {message}")
    click.echo(counted(len(found.problems), "problem") if found.problems else f"{found.root.folder}: all in order")
    return Exit.FAILED if found.problems else Exit.PASSED


@golden.command(epilog=flags.endings("evseq golden diff", "evseq golden diff 'crop-*' --model reference-window"))
@_chosen
@_parent("Compare with this revision instead of the golden before.")
def diff(scripts: tuple[str, ...], *, parent: str | None, **given: Any) -> Exit:
    """Tell what candidates change, a line for each event that moved.

    The exit code is 1 if there are candidates.
    """
    from evseq.decisions import told
    from evseq.golden.telling import brief

    root = _config(given).root()
    places = _candidates(root, scripts, given, parent=parent)
    for place in places:
        click.echo(told(root, place, brief, parent=parent)[0])
    if places:
        click.echo(f"{counted(len(places), 'candidate')}\n  help: evseq golden review")
    return Exit.FAILED if places else Exit.PASSED


@golden.command(epilog=flags.endings("evseq golden review", "evseq golden review --revision v2 --parent v1"))
@_chosen
@_parent("Compare with this revision instead of the golden before.")
def review(scripts: tuple[str, ...], *, parent: str | None, **given: Any) -> Exit:
    """Walk through candidates and decide on each.

    By event it tells what moved, by how many allowances, the worst element, which next tokens change and which arms
    agree. On a terminal a key accepts, rejects or skips a candidate, and the reason is asked for at the end. Elsewhere
    all are told, and nothing is decided.
    """
    from evseq import decisions
    from evseq.golden.telling import whole

    root = _config(given).root()
    places = _candidates(root, scripts, given, parent=parent)
    if places and decisions.on_terminal():
        decisions.walk(root, places, parent=parent)
        return Exit.PASSED
    fine = True
    for place in places:
        text, read = decisions.told(root, place, whole, parent=parent)
        click.echo(f"{text}\n")
        fine = fine and read
    if places:
        click.echo(f"{counted(len(places), 'candidate')}\n  help: evseq golden accept --reason TEXT, or reject")
    return Exit.PASSED if fine else Exit.FAILED


@golden.command(epilog=flags.endings("evseq golden accept --reason 'weights of June'", QUANTISED))
@_chosen
@click.option("--reason", default="", metavar="TEXT", help="Why these logits are right now; the ledger keeps it.")
@_parent("The revision that this one was made from.")
@_relation
def accept(scripts: tuple[str, ...], *, reason: str, parent: str | None, **given: Any) -> Exit:
    """Make goldens of candidates, for a reason.

    Refused are all, where CI decides, where tracked files outside the goldens have changed, or where a candidate is not
    finite, did not repeat, or another check found something.
    """
    from evseq import decisions
    from evseq.golden.choice import chosen, finished

    root = _config(given).root()
    where = {"model": given["model"], "revision": given["revision"]}
    done = finished(root, scripts, **where)
    for name in done:
        click.echo(f"{name}: accepted already")
    left = [name for name in scripts if name not in done]
    if done and not left:
        return Exit.PASSED
    places = chosen(root, scripts=left, **where)
    relation = _said(given)
    decisions.accept(root, places, reason=reason, parent=parent, relation=relation, limits=_limits(given, relation))
    return Exit.PASSED


@golden.command(epilog=flags.endings("evseq golden reject 'crop-*'"))
@_chosen
def reject(scripts: tuple[str, ...], **given: Any) -> Exit:
    """Throw candidates away; goldens stay."""
    from evseq import decisions
    from evseq.golden.choice import chosen

    root = _config(given).root()
    decisions.reject(root, chosen(root, scripts=scripts, model=given["model"], revision=given["revision"]))
    return Exit.PASSED


@golden.command(epilog=flags.endings("evseq golden prune", "evseq golden prune --delete --reason 'now in crop-twice'"))
@click.option("--delete", is_flag=True, help="Delete them and say so in the ledger.")
@click.option("--reason", default="", metavar="TEXT", help="Why they are needed no more; the ledger keeps it.")
@flags.settings("goldens")
def prune(*, delete: bool, reason: str, **given: Any) -> Exit:
    """Tell or delete goldens whose script is gone.

    That is, no script of that name is left in suite or project. Another revision is never unused.
    """
    from evseq.decisions import today, travel
    from evseq.golden.scripts import known_scripts
    from evseq.golden.status import prune as unused

    if reason and not delete:
        raise UsageError("--reason: of what?\n  help: say --delete too, or leave it out")
    config = _config(given)
    root = config.root()
    scripts = known_scripts(config.folder)
    places = unused(root, scripts=scripts, reason=reason, delete=delete, environment=os.environ, today=today())
    for place in places:
        click.echo(f"{place}: {'deleted' if delete else 'would be deleted'}")
    if not places:
        click.echo(f"{root.folder}: no golden is unused")
    else:
        click.echo(f"  help: {travel(root) if delete else 'evseq golden prune --delete --reason TEXT'}")
        if root.store is not None:
            click.echo(f"{root.store.url} keeps their files: older commits need them")
    return Exit.PASSED


@golden.command(
    epilog=flags.endings("evseq golden compare v2 --parent v1", "evseq golden compare v2 --parent v1 --relation same")
)
@click.argument("revision")
@_parent("The revision to compare with.", required=True)
@click.option("--model", metavar="NAME", help="Only this model.")
@flags.settings("goldens")
@_relation
def compare(revision: str, *, parent: str, model: str | None, **given: Any) -> Exit:
    """Tell how far goldens of REVISION are from its parent's.

    The exit code is 1 if no script has a golden at both, or if a relation is named that does not hold.
    """
    from evseq.golden.comparison import between
    from evseq.golden.relation import exceeded
    from evseq.golden.telling import compared

    root = _config(given).root()
    relation = _said(given)
    limits = _limits(given, relation)
    held = []
    for one in between(root, revision, parent, model=model):
        click.echo("\n".join(compared(one)))
        held.append(bool(one.drifts))
        if relation is not None and one.drifts:
            beyond = exceeded(relation, limits, one.drifts, layers=one.layers)
            click.echo(f"{one.model}: {revision} is {'' if beyond is None else 'not '}{relation}")
            held[-1] = beyond is None
            if beyond is not None:
                click.echo(f"  {beyond}\n  help: mend how it was made, or name the --relation that it has")
    return Exit.PASSED if all(held) else Exit.FAILED


def _config(given: Mapping[str, Any]) -> Config:
    return configure({"goldens": given["goldens"]})


def _candidates(
    root: Root, scripts: Sequence[str], given: Mapping[str, Any], *, parent: str | None
) -> tuple[Place, ...]:
    """Return the candidates chosen. Raises UsageError for a parent that one of their models has not."""
    from evseq.golden.before import known
    from evseq.golden.choice import chosen
    from evseq.golden.ledger import Ledger

    if next(root.candidates(), None) is None:
        click.echo(f"{root.folder}: no candidates\n  help: evseq qualify --update-goldens")
        return ()
    places = chosen(root, scripts=scripts, model=given["model"], revision=given["revision"])
    if parent is not None:
        for model in dict.fromkeys(place.model for place in places):
            known(root, model, Ledger.read(root.ledger(model)), parent)
    return places


def _said(given: Mapping[str, Any]) -> Relation | None:
    return None if given["relation"] is None else Relation(given["relation"])


def _limits(given: Mapping[str, Any], relation: Relation | None) -> Limits | None:
    """Return the limits of an approximation. Raises UsageError where some are missing, or nothing is approximated."""
    from evseq.golden.refusals import finite, limited

    said = {name: given[name] for name in ("max_kl", "max_flips", "flip_margin")}
    lost = [f"--{name.replace('_', '-')}" for name, value in said.items() if value is None]
    limited(relation, limits=len(lost) < len(said))
    if relation is not Relation.APPROXIMATED:
        return None
    if lost:
        raise UsageError(f"--relation approximated: no {', '.join(lost)}\n  help: say all three limits")
    limits = Limits(max_kl=said["max_kl"], max_flips=said["max_flips"], margin=said["flip_margin"])
    finite(limits)
    return limits
