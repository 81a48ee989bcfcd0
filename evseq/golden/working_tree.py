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

    `folder` need not be there yet.
    """
    done = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    return done.stdout.strip() if done is not None and done.returncode == 0 else None


def unclean(folder: Path, *, besides: Path) -> tuple[str, ...]:
    """Return the tracked files of the repository around `folder` with changes, staged or not, sorted.

    Left out are those under `besides` and all untracked ones. Names are relative to the top of the repository, its
    submodules are told by theirs. Nothing is unclean outside a repository or without git. Raises UsageError where git
    will not say.
    """
    top = _git(folder, "rev-parse", "--show-toplevel")
    if top is None or (top.returncode != 0 and OUTSIDE in top.stderr):
        return ()
    # Null-terminated names are never quoted; without renames there is one a record: `XY name`.
    arguments = ("--porcelain", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=untracked")
    done = _git(folder, "status", *arguments) if top.returncode == 0 else top
    if done is None or done.returncode != 0:
        said = " ".join((done or top).stderr.split())
        raise UsageError(f"{folder}: git does not say what is uncommitted: {said}\n  help: do what git asks for")
    names = [record[3:] for record in done.stdout.split("\0") if record]
    inside, apart = Path(top.stdout.removesuffix("\n")), besides.resolve()
    return tuple(sorted(name for name in names if not (inside / name).is_relative_to(apart)))


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str] | None:
    """Run git in the nearest folder that is there; None where no git is installed."""
    program = shutil.which("git")
    if program is None:
        return None
    here = folder.resolve()
    there = next(up for up in (here, *here.parents) if up.is_dir())
    # A hook, or a shell inside one, says by GIT_DIR and others that all git is about another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    return subprocess.run(
        [program, *arguments],
        cwd=there,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="backslashreplace",
        check=False,
    )
