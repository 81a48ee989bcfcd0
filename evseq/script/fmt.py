"""Normal form: which script files differ from it, and how to bring them into it."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from evseq.cache.replacing import replacing
from evseq.errors import Problem, ScriptError
from evseq.script.comments import lost_comments
from evseq.script.document import Script, unparse

__all__ = ["Change", "changes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A script file whose text is not in normal form."""

    file: Path
    before: str
    after: str

    def diff(self) -> str:
        """Return what would change, as a unified diff."""
        lines = (self.before.splitlines(keepends=True), self.after.splitlines(keepends=True))
        return "".join(difflib.unified_diff(*lines, fromfile=str(self.file), tofile=str(self.file)))

    def write(self) -> None:
        """Replace the file whole; a link stays one, and who may read it. Raises CacheError where the system refuses."""
        with replacing(self.file.resolve()) as out:
            os.fchmod(out.fileno(), stat.S_IMODE(self.file.stat().st_mode))
            out.write(self.after.encode())


def changes(scripts: Iterable[Script]) -> tuple[Change, ...]:
    """Return those of `scripts` whose files are not in normal form, byte for byte.

    Raises ScriptError where a comment has no place in the normal form; then nothing is to be written.
    """
    found: list[Change] = []
    lost: list[Problem] = []
    for script in scripts:
        file, after = Path(script.source.file), unparse(script)
        before = file.read_bytes().decode("utf-8")
        lost += lost_comments(script.source, after)
        if before != after:
            found.append(Change(file=file, before=before, after=after))
    if lost:
        raise ScriptError(lost)
    return tuple(found)
