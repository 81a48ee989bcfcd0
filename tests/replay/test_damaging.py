"""Files damaged on purpose, by scripts that say which region: refused by name, nothing opened, nobody disturbed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evseq.cache.regions import ERRORS, Region
from evseq.replay.contents import same_bits
from evseq.replay.keep import kept
from evseq.replay.recording import Recording
from evseq.script.events import Reload
from evseq.script.library import SUITE, read_all
from evseq.verdict.result import Exit
from playing import lines, played, recorded

FULL = "reference:full"

WHOLE = """\
rows:
  a: {random: {length: 11, seed: 1}}
  b: [17, 4, 59, 3, 8, 21]
events:
  - prefill: {rows: {a: 7, b: 3}}
  - serialize: {to: mid}
  - append: {next: 1}
"""

REST = """\
  - reload: {from: mid, as: sound}
  - append: {next: 1, on: sound}
  - append: {next: 1}
"""


def asking(region: Region, *, more: str = "") -> str:
    """Return a script with a damaged reload in line 11."""
    error = ERRORS[region].__name__
    return f"{WHOLE}  - reload: {{from: mid, as: no, damage: {region}{more}, expect: {{malformed: {error}}}}}\n{REST}"


@pytest.fixture(scope="module")
def healthy() -> Recording:
    return recorded(WHOLE + REST, FULL)


@pytest.mark.parametrize("region", Region)
def test_each_region_is_refused_by_its_error_before_any_forward(region: Region) -> None:
    result = played(asking(region), FULL)
    assert (lines(result), result.exit) == ([], Exit.PASSED)

    damaged = recorded(asking(region), FULL).damaged
    assert {(one.error, one.forwarded) for one in damaged} == {(ERRORS[region].__name__, 0)}


@pytest.mark.parametrize("region", Region)
def test_nothing_is_opened_and_every_session_continues_bit_for_bit(region: Region, healthy: Recording) -> None:
    recording = recorded(asking(region), FULL)

    assert "no" not in {probed.session for probed in recording.probed}
    assert recording.moved == []
    assert [fed.session for fed in recording.fed] == [fed.session for fed in healthy.fed]
    assert all(same_bits(one.logits, other.logits) for one, other in zip(recording.fed, healthy.fed, strict=True))


def test_a_fresh_process_refuses_by_the_same_name(tmp_path: Path) -> None:
    result = played(asking(Region.TENSOR, more=", process: fresh"), FULL, record=tmp_path)
    (file,) = tmp_path.iterdir()
    (recording,) = kept(file).group.recordings

    assert lines(result) == []
    assert isinstance(recording, Recording)
    assert {one.error for one in recording.damaged} == {"DigestMismatch"}


def test_the_suite_damages_every_region() -> None:
    (script,) = read_all([SUITE / "damaged-files.evseq.yaml"])
    assert [event.damage for event in script.events if isinstance(event, Reload) and event.damage] == list(Region)


class TestReaders:
    def test_an_engine_with_a_sound_reader_of_its_own_passes(self) -> None:
        assert lines(played(asking(Region.TENSOR), "planted.readers:sound")) == []

    def test_a_reader_that_skips_digests_is_found_at_the_first_tensor(self) -> None:
        found = lines(played(asking(Region.TENSOR), "planted.readers:digests_skipped"))
        assert re.fullmatch(
            r"case\.evseq\.yaml:11:5: reload: refusal: a damaged file \(tensor 'layer\.0\.keys', byte \d+\) "
            r"was admitted, expected DigestMismatch",
            found[0],
        )
        assert len(found) == len(recorded(asking(Region.TENSOR), FULL).damaged)

    def test_it_is_found_in_a_fresh_process_too(self) -> None:
        found = lines(played(asking(Region.TENSOR, more=", process: fresh"), "planted.readers:digests_skipped"))
        assert "was admitted, expected DigestMismatch" in found[0]

    def test_such_a_reader_still_refuses_a_broken_header(self) -> None:
        assert lines(played(asking(Region.SEAL), "planted.readers:digests_skipped")) == []

    def test_another_error_is_a_finding(self) -> None:
        first, *_ = lines(played(asking(Region.TRUNCATED), "planted.readers:errors_alike"))
        assert first == (
            "case.evseq.yaml:11:5: reload: refusal: a damaged file (truncated after byte 4) is told as "
            "HeaderDamaged: something is wrong, expected Truncated"
        )

    def test_a_reader_that_takes_nothing_fails_at_the_sound_file(self) -> None:
        (found,) = lines(played(asking(Region.HEADER), "planted.readers:nothing_read"))
        assert found.startswith("case.evseq.yaml:12:5: reload: completed: session 'sound': HeaderDamaged: ")


def test_what_was_damaged_is_judged_again_without_the_model(tmp_path: Path) -> None:
    from evseq.pipeline import judge

    result = played(asking(Region.TENSOR), "planted.readers:digests_skipped", record=tmp_path)
    (file,) = tmp_path.iterdir()
    assert lines(judge(file)) == lines(result) != []
