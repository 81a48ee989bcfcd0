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
  promise       what the cache kind promises
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
  margin        {deviation, err, allowed, fraction} of the observation that used most of its allowance, or null
  errors        {cached, uncached, ratio}, the largest distance from truth of either side; ratio is null where the
                uncached side is truth itself, as in float64; null where nothing was observed
  witnessed     {file, drift, written}: how far errors of this script drifted from those its witness has, as a share of
                the allowance, null where no witness tells of it; null without a golden
  first_token_seconds, later_token_seconds    medians, or null
  peak_cache_bytes, replay_forwards, seconds
  replay        the command that replays just this case

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
  exit          the exit code

A file without `summary` is of a run that was killed; its lines so far are whole.
"""

from __future__ import annotations

import contextlib
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

from evseq.errors import UsageError
from evseq.verdict.result import Case, Outcome, Result

__all__ = ["VERSION", "JsonLines"]

VERSION = 1
"""The version of the format described above."""

_LIBRARIES = ("torch", "safetensors", "transformers")


class JsonLines:
    """Watches a run and writes it to a file, each line whole and at once."""

    def __init__(
        self, path: Path, *, targets: Sequence[str], scripts: Sequence[str], settings: Mapping[str, Any]
    ) -> None:
        """Write the `run` line, over whatever the file held. Raises UsageError where it cannot be written."""
        self._path = path
        try:
            self._file: TextIO = path.open("w", encoding="utf-8", newline="\n")
        except OSError as error:
            raise self._refused(error) from None
        self._write(
            {
                "type": "run",
                "version": VERSION,
                "evseq": _version("evseq"),
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "targets": list(targets),
                "scripts": list(scripts),
                "settings": dict(settings),
                "libraries": {"python": platform.python_version(), **{name: _version(name) for name in _LIBRARIES}},
            }
        )

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):  # every line was flushed; what could not be was told then
            self._file.close()

    def planned(self, cases: int) -> None:
        """Write nothing: the summary has the numbers."""

    def started(self, script: str, target: str) -> None:
        """Write nothing: each case names its script and target."""

    def finished(self, case: Case) -> None:
        """Write the line of a case."""
        line = asdict(case)
        latency = line.pop("latency")
        margin = case.margin
        self._write(
            {
                "type": "case",
                **line,
                "margin": {**line["margin"], "fraction": margin.fraction} if margin else None,
                "errors": {**line["errors"], "ratio": case.errors.ratio} if case.errors else None,
                "first_token_seconds": latency["first"],
                "later_token_seconds": latency["later"],
            }
        )

    def report(self, result: Result) -> None:
        """Write the closing line."""
        self._write(
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
                "exit": int(result.exit),
            }
        )

    def _write(self, line: Mapping[str, Any]) -> None:
        try:
            self._file.write(json.dumps(_finite(line), allow_nan=False) + "\n")
            self._file.flush()
        except OSError as error:
            self.close()
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> UsageError:
        return UsageError(
            f"{self._path}: cannot be written: {error.strerror}\n  help: name a file in a folder you may write to"
        )


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


def _version(name: str) -> str | None:
    """Return an installed version from the package's metadata, which loads no library."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
