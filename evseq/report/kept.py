"""Kept: what a file of JSON lines says was done, as the run that wrote it had it. See `jsonl` for the format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from evseq.cache.damage import Damage, NotThere
from evseq.cache.opening import whole
from evseq.errors import UsageError
from evseq.part import ScriptResult
from evseq.report.jsonl import VERSION
from evseq.verdict.result import Case, Forwards, Latency

__all__ = ["KeptError", "kept"]

AGAIN = "run without --resume, which begins anew"

BEGINNING = b'{"type": "run"'
"""How every file of a run begins, however little of it was written."""

MAX_BYTES = 1 << 28
"""Most bytes of a file: half a million cases."""

_CASE = TypeAdapter(Case)
_LATENCY = TypeAdapter(Latency)
_FORWARDS = TypeAdapter(Forwards)
_CANDIDATES = TypeAdapter(tuple[str, ...])


class KeptError(UsageError):
    """A file to resume is none, is damaged, or is of another kind. Name the one that `--jsonl` wrote, or begin anew."""


def kept(path: Path) -> tuple[ScriptResult, ...]:
    """Return the results of the scripts that are done whole.

    The lines of a script that was not, and a last line that a killed writer left without its end, are passed over; of
    one killed before its first line had an end nothing is kept.
    Raises KeptError, with its line, for anything that a run does not write.
    """
    try:
        content = whole(path, most=MAX_BYTES)
        lines, end, rest = content.rpartition(b"\n")
        if not end and BEGINNING.startswith(rest[: len(BEGINNING)]):
            return ()
        text = lines.decode("utf-8")
    except NotThere:
        raise KeptError(f"{path}: cannot be read: No such file or directory\n  help: name the file of a run") from None
    except Damage as error:
        raise KeptError(f"{path}: {error.evidence}\n  help: name the file of a run") from None
    except UnicodeDecodeError as error:
        raise KeptError(f"{path}: byte {error.start} is not UTF-8\n  help: {AGAIN}") from None
    read = _lines(path, text)
    number, first = next(read, (1, {}))
    if first.get("type") != "run":
        raise _refused(path, number, "it does not begin with the line of a run", "name a file that --jsonl wrote")
    if first.get("version") != VERSION:
        said = f"version {first.get('version')!r} of the format, this evseq reads {VERSION}"
        raise _refused(path, number, said, AGAIN)
    results: list[ScriptResult] = []
    cases: list[Case] = []
    for number, line in read:
        try:
            match line.get("type"):
                case "case":
                    cases.append(_case(line))
                case "script":
                    results.append(_result(line, cases))
                    cases = []
                case "summary":
                    break
                case other:
                    raise _refused(path, number, f"no line of a run has the type {other!r}", AGAIN)
        except (KeyError, TypeError, ValueError) as error:
            raise _refused(path, number, _told(error), AGAIN) from None
    return tuple(results)


def _lines(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n") if text else (), start=1):
        try:
            read = json.loads(line)
        except (ValueError, RecursionError):
            raise _refused(path, number, "no JSON", AGAIN) from None
        if not isinstance(read, dict):
            raise _refused(path, number, "no JSON object", AGAIN)
        yield number, read


def _case(line: Mapping[str, Any]) -> Case:
    latency = {"first": line["first_token_seconds"], "later": line["later_token_seconds"]}
    return _CASE.validate_python({**line, "latency": _LATENCY.validate_python(latency)})


def _result(line: Mapping[str, Any], cases: list[Case]) -> ScriptResult:
    told = {(case.script, case.file, case.target) for case in cases}
    if len(cases) != line["cases"] or told != {(line["script"], line["file"], line["target"])}:
        raise ValueError(f"it closes {line['cases']} cases of {line['script']!r}, not those before it")
    forwards = {
        "leaves": line["leaves"],
        "oracle": line["oracle_forwards"],
        "reference": line["reference_forwards"],
        "once": line["once"],
    }
    return ScriptResult(
        cases=tuple(cases),
        forwards=_FORWARDS.validate_python(forwards),
        candidates=_CANDIDATES.validate_python(line["candidates"]),
        stamp=str(line["stamp"]),
    )


def _told(error: Exception) -> str:
    match error:
        case ValidationError():
            first = error.errors()[0]
            return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        case KeyError():
            return f"no {error.args[0]!r}"
        case _:
            return str(error)


def _refused(path: Path, number: int, what: str, help: str) -> KeptError:
    return KeptError(f"{path}:{number}: {what}\n  help: {help}")
