"""JSON lines: a run as data for other programs, version 1.

Every line is one JSON object and ends with a line feed; text is UTF-8, characters beyond ASCII are escaped. `type`
tells the lines apart. A reader ignores keys it does not know: a new key does not raise the version, a changed or
removed one does. A number that is infinite or none stands as the text "Infinity", "-Infinity" or "NaN". Seconds are
floats, sizes are bytes, deviations are logits.

One line of type `run` comes first:
  version       version of this format: 1
  evseq         version of evseq
  started       date and time, ISO 8601, UTC
  targets       the targets asked for
  scripts       the script files asked for; "suite" is the shipped one, "quick" its smallest part
  settings      arms, arm, threads, record and those of goldens as they held
  libraries     version by name of python, torch, safetensors, transformers, null where not installed

One line of type `case` follows for each case when it ends:
  id, script, file, target, arms (value by name)
  outcome       passed, failed, known (failed exactly as known.yaml says, which fails no run) or unsupported
  reason        why it is unsupported, or null
  promise       what the cache kind promises: exact, masked or lossy
  golden        the revision whose golden it was held to, or null
  golden_share  the largest share of an allowance by which a logit was off the golden's, or null
  dtype         the number format of weights, cache and logits
  observations  compared next-token distributions
  findings      a list of {check, place, event, step, row, index, message, actual, expected, cause}, first divergence
                first; row, index, actual, expected and cause may be null, and so may further keys: round is that of
                the repeat the event stands in, share how many allowances a logit is off by
  allowed       a list of {check, place, because, within, findings, share}: each `allow` of the script, how many
                findings it tolerated here, and the largest of them in allowances, null where there are none
  known         a list of {place, check, link, reason}: the entries of known.yaml that mean this case
  notes         a list of {kind, message}
  margin        {deviation, err, allowed, fraction} of the observation that used most of its allowance, or null; of a
                lossy cache the deviation is that from its row alone
  envelope      the largest share of its declared envelope around the uncached forward that a logit of a lossy cache
                used, null for any other
  errors        {cached, uncached, ratio}, the largest distance from truth of either side; ratio is null where the
                uncached side is truth itself, as in float64; null where nothing was observed, or of a lossy cache
  witnessed     {file, drift, written}: how far errors of this script drifted from those its witness has, as a share of
                the allowance, null where no witness tells of it; null without a golden
  first_token_seconds, later_token_seconds    medians, or null
  peak_cache_bytes, replay_forwards, seconds
  replay        the command that replays just this case

One line of type `script` follows the cases of each script on each target:
  script, file, target
  cases         how many there are
  stamp         a digest of all that these cases depend on: script, target, arms, settings, goldens, versions
  leaves, oracle_forwards, reference_forwards
  once          number of further reference forwards by what for; a run makes them once for all its scripts
  candidates    the files of candidate goldens that were written

One line of type `summary` closes a run that came to its end:
  passed, failed, known, unsupported          numbers of cases
  allowed       how many findings were tolerated
  unmatched     the entries of known.yaml, by place, that mean no case of this run
  findings      those that belong to no case
  judged        a list of {target, judged, not_judged}: number formats, and kernels as "option value", that the target
                offers, by whether any case ran in it
  leaves, oracle_forwards, reference_forwards, replay_forwards, seconds
  unjudged      the targets asked for on which no case was judged
  candidates    the files of candidate goldens that were written
  unwritten     what could not be written, and why
  interrupted   whether a person stopped it
  cancelled     the cases, by id, that were not judged for it
  lost          what became of processes that ended before their work did
  exit          the exit code

A file without `summary` is of a run that was killed; its lines so far are whole, but for a last one without a line
feed. What is done stands before a `script` line; `--resume` takes it from there and runs the rest.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TextIO

from evseq import versions
from evseq.cache.replacing import replacing
from evseq.part import ScriptResult
from evseq.report.output import fixed, refused
from evseq.verdict.result import Case, Outcome, Result

__all__ = ["VERSION", "JsonLines"]

VERSION = 1
"""The version of the format described above."""


class JsonLines:
    """Watches a run and writes it to a file, each line whole and at once."""

    def __init__(
        self,
        path: Path,
        *,
        targets: Sequence[str],
        scripts: Sequence[str],
        settings: Mapping[str, Any],
        resumes: bool = False,
    ) -> None:
        """Write the `run` line, over whatever the file held. Raises UsageError where it cannot be written.

        Where the file is that of a run that this one `resumes`, it stays as it is until what is kept of it is known; a
        link to it stays one.
        """
        self._path = path.resolve() if resumes else path
        self._file: TextIO | None = None
        self._run = _text(
            {
                "type": "run",
                "version": VERSION,
                "evseq": versions.evseq(),
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "targets": list(targets),
                "scripts": list(scripts),
                "settings": dict(settings),
                "libraries": versions.libraries(),
            }
        )
        if resumes:
            fixed(self._path)
        else:
            self._open("w")
            self._write(self._run)

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):  # every line was flushed; what could not be was told then
            if self._file is not None:
                self._file.close()

    def kept(self, results: Sequence[ScriptResult]) -> None:
        """Write the lines of what was done before; in place of those of a run that is resumed, all at once."""
        lines = [_text(line) for result in results for line in (*map(_case, result.cases), _script(result))]
        if self._file is not None:
            self._write("".join(lines))
            return
        with replacing(self._path) as file:
            file.write("".join([self._run, *lines]).encode())
        self._open("a")

    def planned(self, cases: int) -> None:
        """Write nothing: the summary has the numbers."""

    def started(self, script: str, target: str) -> None:
        """Write nothing: each case names its script and target."""

    def finished(self, case: Case) -> None:
        """Write the line of a case."""
        self._write(_text(_case(case)))

    def ended(self, result: ScriptResult) -> None:
        """Write the line that says the cases of a script are all there; none where it could not be judged."""
        if result.cases:
            self._write(_text(_script(result)))

    def report(self, result: Result) -> None:
        """Write the closing line."""
        line = _text(
            {
                "type": "summary",
                **{str(outcome): result.counts[outcome] for outcome in Outcome},
                "allowed": sum(allowed.findings for case in result.cases for allowed in case.allowed),
                "unmatched": list(result.unmatched),
                "findings": [asdict(finding) for finding in result.findings],
                "judged": [asdict(judged) for judged in result.judged],
                "leaves": result.forwards.leaves,
                "oracle_forwards": result.forwards.oracle,
                "reference_forwards": result.forwards.reference,
                "replay_forwards": result.replay_forwards,
                "seconds": result.seconds,
                "unjudged": list(result.unjudged),
                "candidates": list(result.candidates),
                "unwritten": list(result.unwritten),
                "interrupted": result.interrupted,
                "cancelled": list(result.cancelled),
                "lost": list(result.lost),
                "exit": int(result.exit),
            }
        )
        self._write(line)

    def _open(self, mode: Literal["w", "a"]) -> None:
        try:
            self._file = self._path.open(mode, encoding="utf-8", newline="\n")
        except OSError as error:
            raise refused(self._path, error) from None

    def _write(self, text: str) -> None:
        assert self._file is not None
        try:
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            self.close()
            raise refused(self._path, error) from None


def _case(case: Case) -> Mapping[str, Any]:
    line = asdict(case)
    latency = line.pop("latency")
    margin = case.margin
    return {
        "type": "case",
        **line,
        "margin": {**line["margin"], "fraction": margin.fraction} if margin else None,
        "errors": {**line["errors"], "ratio": case.errors.ratio} if case.errors else None,
        "first_token_seconds": latency["first"],
        "later_token_seconds": latency["later"],
    }


def _script(result: ScriptResult) -> Mapping[str, Any]:
    first = result.cases[0]
    return {
        "type": "script",
        "script": first.script,
        "file": first.file,
        "target": first.target,
        "cases": len(result.cases),
        "stamp": result.stamp,
        "leaves": result.forwards.leaves,
        "oracle_forwards": result.forwards.oracle,
        "reference_forwards": result.forwards.reference,
        "once": dict(result.forwards.once),
        "candidates": list(result.candidates),
    }


def _text(line: Mapping[str, Any]) -> str:
    return json.dumps(_finite(line), allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """Return `value` with what JSON has no number for as text."""
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case Mapping():
            return {str(key): _finite(part) for key, part in value.items()}
        case list() | tuple():
            return [_finite(part) for part in value]
        case _:
            return value
