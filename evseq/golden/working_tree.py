"""Working tree: the commit a folder stands at, and what of it is not committed. Asks git, where there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from evseq.errors import UsageError

__all__ = ["commit", "unclean"]

OUTSIDE = "not a git repository"


def commit(folder: Path) -> str | None:
    """Return the commit checked out around `folder`; None outside a repository, before its first commit, without git.

    `folder` need not be there yet. One that is linked from elsewhere, or a repository of its own inside another,
    belongs to what is around it.
    """
    done = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    return done.stdout.strip() if done is not None and done.returncode == 0 else None


def unclean(folder: Path, *, besides: Path) -> tuple[str, ...]:
    """Return the tracked files of the repository around `folder` with changes, staged or not, sorted.

    Left out are those under `besides` and all untracked ones. Names are relative to the top of the repository, its
    submodules are told by theirs. Nothing is unclean outside a repository. Raises UsageError where git will not say, or
    is not there to be asked.
    """
    top = _git(folder, "rev-parse", "--show-toplevel")
    if top is None or (top.returncode != 0 and OUTSIDE in top.stderr):
        here = _around(folder)
        held = next((up for up in (here, *here.parents) if (up / ".git").exists()), None)
        if held is None:
            return ()
        said = "no git is installed" if top is None else " ".join(top.stderr.split())
        raise UsageError(f"{held}: git does not say what is uncommitted: {said}\n  help: make `git status` work there")
    # Null-terminated names are never quoted; without renames there is one a record: `XY name`.
    arguments = ("--porcelain", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=untracked")
    done = _git(folder, "status", *arguments) if top.returncode == 0 else top
    if done is None or done.returncode != 0:
        said = " ".join((done or top).stderr.split())
        raise UsageError(f"{folder}: git does not say what is uncommitted: {said}\n  help: do what git asks for")
    names = [record[3:] for record in done.stdout.split("\0") if record]
    inside = Path(top.stdout.removesuffix("\n"))
    apart = (besides.resolve(), _around(besides) / besides.name)  # as git sees a link, and where it leads
    if inside in apart:
        raise UsageError(
            f"{besides}: is the whole repository, so nothing tells goldens from the rest\n"
            "  help: keep them in a folder of their own"
        )
    return tuple(sorted(name for name in names if not any((inside / name).is_relative_to(path) for path in apart)))


def _around(folder: Path) -> Path:
    """Return the nearest folder above `folder` that is there; itself only where it is the top of a repository."""
    if (folder / ".git").is_dir():
        return folder.resolve()
    above = folder.absolute().parent.resolve()
    return next(up for up in (above, *above.parents) if up.is_dir())


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str] | None:
    """Run git around `folder`; None where no git is installed."""
    program = shutil.which("git")
    if program is None:
        return None
    # A hook, or a shell inside one, says by GIT_DIR and others that all git is about another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    return subprocess.run(
        [program, *arguments],
        cwd=_around(folder),
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="backslashreplace",
        check=False,
    )
