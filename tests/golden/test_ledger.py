from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evseq.cache.damage import IsALink
from evseq.golden.ledger import Action, Entry, Figures, Ledger, LedgerError, append
from evseq.golden.terms import Limits, Relation

HELP = "\n  help: take the file back from version control; entries are only added, by `evseq golden accept` and `prune`"


def entry(revision: str = "v1", **says: Any) -> Entry:
    usual: dict[str, Any] = {
        "date": dt.date(2026, 3, 1),
        "reason": "first release",
        "action": Action.ACCEPTED,
        "weights": "3f" * 32,
        "scripts": {"one": "aa" * 32},
    }
    return Entry(**(usual | {"revision": revision} | says))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "small" / "LEDGER.yaml"


@pytest.fixture
def three(path: Path) -> Path:
    """Return a ledger of three entries."""
    for revision in ("v1", "v2", "v3"):
        append(path, entry(revision, reason=f"release {revision}"))
    return path


def blocks(path: Path) -> list[str]:
    """Return the comment on top and the text of each entry."""
    head, *entries = path.read_text().split("- revision:")
    return [head, *(f"- revision:{text}" for text in entries)]


class TestAppend:
    def test_a_person_can_read_it(self, path: Path) -> None:
        append(
            path,
            entry(
                "123456789012",
                reason="quantised: smaller, é",
                parent="v1",
                relation=Relation.APPROXIMATED,
                limits=Limits(max_kl=0.01, max_flips=2, margin=0.5),
                scripts={"one": "aa" * 32, "two": "bb" * 32},
                commit="c0ffee",
                libraries={"evseq": "0.1.0", "torch": "2.13.0"},
                processor="cpu, x86_64",
                drift={"one": Figures(share=1.5, kl=1e-05, flips=1)},
            ),
        )

        assert (
            path.read_text()
            == f"""\
# Goldens of this model that a person accepted. Written by `evseq golden`, only ever at the end.
- revision: '123456789012'
  date: 2026-03-01
  reason: 'quantised: smaller, é'
  action: accepted
  parent: v1
  relation: approximated
  limits:
    max_kl: 0.01
    max_flips: 2
    margin: 0.5
  weights: {"3f" * 32}
  scripts:
    one: {"aa" * 32}
    two: {"bb" * 32}
  commit: c0ffee
  libraries:
    evseq: 0.1.0
    torch: 2.13.0
  processor: cpu, x86_64
  drift:
    one:
      share: 1.5
      kl: 1.0e-05
      flips: 1
  entry: {Ledger.read(path).entries[0].entry}
"""
        )

    @pytest.mark.parametrize(
        "reason", ["two\nlines", "  : - #", "long " * 60, "'\"\\", "\u2028 \t", "no", "2026-01-01"]
    )
    def test_any_reason_and_figure_reads_back(self, path: Path, reason: str) -> None:
        written = append(path, entry(reason=reason, drift={"one": Figures(share=float("inf"), kl=1e-300, flips=0)}))
        assert Ledger.read(path).entries == (written,)

    def test_equal_entries_give_equal_bytes(self, path: Path, three: Path, tmp_path: Path) -> None:
        again = tmp_path / "again" / "LEDGER.yaml"
        for revision in ("v1", "v2", "v3"):
            append(again, entry(revision, reason=f"release {revision}"))
        assert again.read_bytes() == three.read_bytes()

    def test_what_stands_there_stays_comments_too(self, three: Path) -> None:
        before = three.read_text().replace("- revision: v2", "# a word of mine\n- revision: v2")
        three.write_text(before)

        append(three, entry("v4"))

        assert three.read_text().startswith(before)
        assert [one.revision for one in Ledger.read(three).entries] == ["v1", "v2", "v3", "v4"]

    def test_a_last_line_without_an_end_is_ended(self, three: Path) -> None:
        three.write_text(three.read_text().rstrip("\n"))
        append(three, entry("v4"))
        assert [one.revision for one in Ledger.read(three).entries] == ["v1", "v2", "v3", "v4"]

    def test_a_broken_ledger_is_left_as_it_is(self, three: Path) -> None:
        three.write_text(text := three.read_text().replace("release v2", "release v9"))
        with pytest.raises(LedgerError, match="a line of this entry was edited"):
            append(three, entry("v4"))
        assert three.read_text() == text

    def test_a_ledger_that_nothing_can_be_added_to_is_left_as_it_is(self, path: Path) -> None:
        path.parent.mkdir()
        path.write_text("[]\n")
        with pytest.raises(LedgerError, match=r"LEDGER.yaml:2: no YAML"):
            append(path, entry())
        assert path.read_text() == "[]\n"

    def test_many_writers_at_once_all_land(self, path: Path) -> None:
        code = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_ledger import append, entry
for one in range(3):
    if os.fork() == 0:
        for number in range(8):
            append(Path(sys.argv[1]), entry(f"{{one}}.{{number}}"))
        os._exit(0)
print([os.wait()[1] for _ in range(3)])
"""
        done = subprocess.run([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True, check=True)

        revisions = sorted(one.revision for one in Ledger.read(path).entries)
        assert done.stdout == "[0, 0, 0]\n"
        assert revisions == [f"{one}.{number}" for one in range(3) for number in range(8)]
        assert os.listdir(path.parent) == ["LEDGER.yaml"]  # noqa: PTH208 - names are what is claimed


class TestTampering:
    def test_a_sound_ledger_is_read_without_a_word(self, three: Path) -> None:
        assert [one.reason for one in Ledger.read(three).entries] == ["release v1", "release v2", "release v3"]

    def test_no_file_and_an_empty_one_hold_nothing(self, path: Path) -> None:
        nothing = Ledger.read(path)
        path.parent.mkdir()
        path.write_text("# only a word\n")
        assert (nothing.entries, Ledger.read(path).entries) == ((), ())

    def test_an_edited_line_is_named(self, three: Path) -> None:
        recorded = Ledger.read(three).entries[1].entry
        three.write_text(three.read_text().replace("release v2", "release v9"))

        with pytest.raises(LedgerError) as caught:
            Ledger.read(three)

        found = str(caught.value)
        now = found.partition("its chain is ")[2][:12]
        assert found == (
            f"{three}:17: revision 'v2' of 2026-03-01: a line of this entry was edited, or entries before it were "
            f"removed or reordered: its chain is {now}, recorded {recorded[:12]}{HELP}"
        )
        assert caught.value.exit_code == 4

    @pytest.mark.parametrize(
        ("line", "edited"),
        [
            ("revision: v1", "revision: v0"),
            ("date: 2026-03-01", "date: 2026-03-02"),
            ("action: accepted", "action: pruned"),
            (f"weights: {'3f' * 32}", f"weights: {'3e' * 32}"),
            (f"one: {'aa' * 32}", f"one: {'ab' * 32}"),
            (f"one: {'aa' * 32}", f"two: {'aa' * 32}"),
            ("parent: null", "parent: v0"),
            ("processor: null", "processor: cpu"),
        ],
    )
    def test_any_line_of_any_entry_counts(self, three: Path, line: str, edited: str) -> None:
        assert line in three.read_text()
        three.write_text(three.read_text().replace(line, edited, 1))
        with pytest.raises(LedgerError, match="a line of this entry was edited"):
            Ledger.read(three)

    @pytest.mark.parametrize(("key", "value"), [("commit", "null"), ("parent", "null"), ("libraries", "{}")])
    def test_a_missing_line_that_said_nothing_is_noticed_too(self, three: Path, key: str, value: str) -> None:
        three.write_text(three.read_text().replace(f"  {key}: {value}\n", "", 1))
        with pytest.raises(LedgerError, match=rf"LEDGER.yaml:2: {key}: field required"):
            Ledger.read(three)

    @pytest.mark.parametrize("kept", [(0, 2, 3), (0, 1, 3), (0, 2, 1, 3), (0, 1, 3, 2), (0, 1, 1, 2, 3), (0, 3)])
    def test_entries_removed_reordered_or_repeated_are_noticed(self, three: Path, kept: tuple[int, ...]) -> None:
        parts = blocks(three)
        three.write_text("".join(parts[place] for place in kept))
        with pytest.raises(LedgerError, match="entries before it were removed or reordered"):
            Ledger.read(three)

    def test_lines_cut_off_the_end_leave_goldens_without_a_word(self, three: Path) -> None:
        three.write_text("".join(blocks(three)[:3]))
        found = Ledger.read(three)
        assert (found.seal("v2", "one"), found.seal("v3", "one")) == ("aa" * 32, None)

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("- a: [\n", "2: no YAML: did not find expected node content"),
            ("- a\n<<<<<<< HEAD\n- b\n", "3: no YAML: could not find expected ':'"),
            ("- !!python/name:os.system x\n", "1: no YAML: could not determine a constructor for the tag "),
            ("a: 1\n", "1: not a list of entries"),
            ("#\n- one\n", "2: entry: input should be a valid dictionary or instance of entry"),
            ("- revision: 7\n", "1: revision: input should be a valid string"),
            ("- revision: v1\n  date: 2026-13-01\n", "1: no YAML: month must be in 1..12"),
            ("- revision: v1\n  colour: red\n", "1: date: field required"),
        ],
    )
    def test_a_file_of_another_shape_is_named(self, path: Path, text: str, found: str) -> None:
        path.parent.mkdir()
        path.write_text(text)
        with pytest.raises(LedgerError) as caught:
            Ledger.read(path)
        assert str(caught.value).startswith(f"{path}:{found}")
        assert str(caught.value).endswith(HELP)

    def test_an_unknown_key_is_named(self, three: Path) -> None:
        three.write_text(three.read_text().replace("  parent:", "  colour: red\n  parent:", 1))
        with pytest.raises(LedgerError) as caught:
            Ledger.read(three)
        assert str(caught.value) == f"{three}:2: colour: extra inputs are not permitted{HELP}"

    def test_bytes_that_are_no_text_are_named(self, path: Path) -> None:
        path.parent.mkdir()
        path.write_bytes(b"- \xff\n")
        with pytest.raises(LedgerError, match=r"LEDGER.yaml:1: no YAML: "):
            Ledger.read(path)

    def test_what_cannot_be_read_is_named(self, path: Path) -> None:
        path.mkdir(parents=True)
        with pytest.raises(LedgerError) as caught:
            Ledger.read(path)
        assert str(caught.value) == f"{path}: not a regular file\n  help: name the file itself"


class TestWords:
    def test_the_last_word_on_a_script_counts(self) -> None:
        ledger = Ledger(
            entries=(
                entry("v1", scripts={"one": "aa", "two": "bb"}),
                entry("v1", scripts={"one": "cc"}),
                entry("v1", action=Action.PRUNED, scripts={"two": None}),
                entry("v2", scripts={"one": "dd"}),
            )
        )
        asked = [("v1", "one"), ("v1", "two"), ("v1", "three"), ("v2", "one"), ("v3", "one")]
        assert [ledger.seal(*of) for of in asked] == ["cc", None, None, "dd", None]

    def test_words_are_found_once(self) -> None:
        assert (ledger := Ledger(entries=(entry("v1"),))).words("v1") is ledger.words("v1")

    def test_labels_are_those_that_still_stand_for_the_weights(self) -> None:
        ledger = Ledger(
            entries=(
                entry("old", weights="w"),
                entry("moved", weights="w"),
                entry("gone", weights="w"),
                entry("new", weights="w"),
                entry("other", weights="x"),
                entry("moved", weights="x"),
                entry("gone", action=Action.PRUNED, scripts={"one": None}),
                entry("old", weights="w", scripts={"two": "bb"}),
            )
        )
        assert (ledger.labels("w"), ledger.labels("x"), ledger.labels("y")) == (("new", "old"), ("other", "moved"), ())

    def test_the_latest_other_revision_has_goldens(self) -> None:
        ledger = Ledger(entries=(entry("v1"), entry("v2"), entry("v2", action=Action.PRUNED, scripts={"one": None})))
        assert [ledger.latest_revision(other_than=label) for label in ("v3", "v1")] == ["v1", None]


def test_a_key_given_twice_is_no_way_around_the_chain(three: Path) -> None:
    three.write_text(three.read_text().replace("  reason: release v1\n", "  reason: release v1\n  reason: a lie\n"))
    with pytest.raises(LedgerError, match="the key 'reason' is said twice"):
        Ledger.read(three)


def test_a_key_that_is_said_twice_is_told(tmp_path: Path) -> None:
    path = tmp_path / "LEDGER.yaml"
    path.write_text("- revision: v1\n  reason: a lie\n  reason: the truth\n")

    with pytest.raises(LedgerError) as refused:
        Ledger.read(path)

    assert str(refused.value).startswith(f"{path}:3: the key 'reason' is said twice\n  help: ")


def test_a_linked_ledger_stays_a_link(tmp_path: Path) -> None:
    append(tmp_path / "real.yaml", entry("v1"))
    (tmp_path / "LEDGER.yaml").symlink_to("real.yaml")
    before = (tmp_path / "real.yaml").read_bytes()

    with pytest.raises(IsALink, match=r"a link to real\.yaml, which a file would replace"):
        append(tmp_path / "LEDGER.yaml", entry("v2"))

    assert ((tmp_path / "LEDGER.yaml").is_symlink(), (tmp_path / "real.yaml").read_bytes()) == (True, before)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- [[[[x]]]]\n", ":1: nested more than 4 deep\n"),
        ("- &all [x]\n- *all\n", ":1: a reference, 'all': no ledger has one\n"),
        ("- ? [a]\n  : b\n", ":1: a key that is no word\n"),
    ],
)
def test_what_could_fill_a_memory_is_refused_before_it_is_built(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "LEDGER.yaml").write_text(text)

    with pytest.raises(LedgerError) as caught:
        Ledger.read(tmp_path / "LEDGER.yaml")

    assert str(caught.value).startswith(f"{tmp_path}/LEDGER.yaml{message}")


def test_a_name_that_leads_out_of_the_folder_is_no_revision(three: Path) -> None:
    three.write_text(three.read_text().replace("revision: v2", "revision: ../../v2"))

    with pytest.raises(LedgerError, match=r"revision: value error, name '\.\./\.\./v2': is no name of a folder"):
        Ledger.read(three)
