"""The goldens of a run: where they are looked for, and why one that is there is not used."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from accepting import accepted, held, terms
from evseq.cache.canonical import Scalar
from evseq.golden.golden import read, write
from evseq.golden.ledger import Ledger, append
from evseq.golden.root import Place, Root
from evseq.golden.terms import Need, Terms
from evseq.pipeline import Settings, read_scripts, run
from evseq.script.library import SUITE
from evseq.verdict.result import Outcome
from playing import DOUBLE, lines, script

FULL, WINDOW = "reference:full", "reference:window"

APPEND = script("""\
rows:
  a: {random: {length: 10, seed: 1}}
events:
  - prefill: {rows: {a: 7}}
  - append: {next: 2}
""")

GREEDY = script("""\
rows:
  a: {random: {length: 4, seed: 1}}
events:
  - prefill: [a]
  - append: {greedy: 2}
""")

START = "case.evseq.yaml:7:5: prefill: golden:"
UPDATE = "--update-goldens writes a candidate"
PLACE = Place(model="small", revision="v1", script="case")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """Return a folder with a golden of `reference:full` under the model `small`."""
    accepted([APPEND], FULL, terms(tmp_path / "goldens", FULL))
    return Root(folder=tmp_path / "goldens")


def told(root: Root, target: str = FULL, *, need: Need = Need.OPTIONAL, revision: str | None = None) -> list[str]:
    """Return the findings of a run under the model `small`."""
    return lines(held([APPEND], target, replace(terms(root.folder, target, need=need), revision=revision)))


def test_a_golden_of_this_model_is_used_without_a_word(root: Root) -> None:
    assert told(root, need=Need.REQUIRED) == []


def test_other_weights_under_the_label_have_their_own_message(root: Root) -> None:
    (line,) = told(root, WINDOW)
    assert line == (
        f"{START} the model changed under the label 'v1': its weights.source is 3b492084f01f, that of the golden "
        "77a0c42a5850; open the model of this revision, or give this one a label of its own with --revision"
    )


def test_another_tokenizer_is_refused_field_by_field(root: Root) -> None:
    path = root.golden(PLACE)
    golden = read(path)
    values: dict[str, Scalar] = {
        **golden.identity.values,
        "tokenizer.merges": ["a b"],
        "tokenizer.normaliser": {"case": "upper"},
    }
    write(path, replace(golden, identity=replace(golden.identity, values=values)))
    _vouch(root)

    (line,) = told(root)
    assert line == (
        f"{START} the golden of small/v1/case is another model's: tokenizer.merges: index 0: recorded 'a b', now "
        "nothing; tokenizer.normaliser: key 'case': recorded 'upper', now 'lower'; give this one a label of its own "
        "with --revision"
    )


def test_a_file_that_nobody_accepted_is_not_used(root: Root) -> None:
    golden = read(root.golden(PLACE))
    write(root.golden(PLACE), replace(golden, layers=golden.layers + 1))

    (line,) = told(root)
    assert line == (
        f"{START} {root.golden(PLACE)} is not the file that {root.ledger('small')} says was accepted: take it from "
        "version control, or accept it with `evseq golden accept`"
    )


def test_a_golden_whose_ledger_is_gone_is_not_used(root: Root) -> None:
    root.ledger("small").unlink()

    assert "is not the file that" in told(root)[0]


def test_an_edited_ledger_vouches_for_nothing(root: Root) -> None:
    ledger = root.ledger("small")
    ledger.write_text(ledger.read_text().replace("reason: a test", "reason: another"))

    assert f"{START} {ledger}:2: revision 'v1' of 2026-11-29: a line of this entry was edited" in told(root)[0]


def test_a_golden_that_was_accepted_and_is_gone_is_no_matter_of_choice(root: Root) -> None:
    root.golden(PLACE).unlink()

    (line,) = told(root)
    assert line == (
        f"{START} {root.golden(PLACE)} is not there, though {root.ledger('small')} says it was accepted: take it from "
        "version control"
    )


def test_a_label_somebody_names_must_have_a_golden(root: Root) -> None:
    (line,) = told(root, WINDOW, revision="v9")
    assert line == f"{START} no golden of small/v9/case; other weights have some as revision v1; {UPDATE}"


def test_a_model_that_does_not_say_what_it_is_fails_where_a_golden_is_required(tmp_path: Path) -> None:
    result = held([APPEND], "planted.sides:nobody", terms(tmp_path, "planted.sides:nobody"))

    told = "the model does not say whose goldens it is to be held to: its identity has no weights.source"
    assert lines(result) == [f"{START} {told}"]


def test_ids_that_a_golden_forces_are_forced_in_no_other_script(tmp_path: Path) -> None:
    root = Root(folder=tmp_path)
    accepted([GREEDY], FULL, terms(tmp_path, FULL))
    golden = read(root.golden(PLACE))
    write(
        root.golden(PLACE),
        replace(golden, greedy={prefix: (token + 1) % 64 for prefix, token in golden.greedy.items()}),
    )
    _vouch(root)
    other = script(GREEDY.source.text.partition("about: A test.\n")[2], name="other")

    result = held([GREEDY, other], FULL, terms(tmp_path, FULL, need=Need.OPTIONAL))

    assert {case.script: case.outcome for case in result.cases} == {"case": Outcome.FAILED, "other": Outcome.PASSED}


def test_a_damaged_golden_is_told_by_its_error(root: Root) -> None:
    path = root.golden(PLACE)
    path.write_bytes(path.read_bytes()[:-1])

    assert f"{START} {path}: " in told(root)[0]


def test_the_label_of_known_weights_is_named_where_the_asked_one_has_none(root: Root) -> None:
    assert told(root, need=Need.REQUIRED, revision="v2") == [
        f"{START} no golden of small/v2/case; these weights have one as revision v1: --revision v1"
    ]


def test_a_label_nobody_chose_is_the_digest_of_the_weights(tmp_path: Path) -> None:
    said = Terms(root=tmp_path, require=True)

    result = run([APPEND], [FULL], settings=Settings(only=DOUBLE, goldens=said))

    assert lines(result) == [
        f"{START} no golden of reference-full/77a0c42a5850/case; --update-goldens writes a candidate"
    ]


def test_several_revisions_live_side_by_side(tmp_path: Path) -> None:
    for target, revision in ((FULL, "v1"), (WINDOW, "v2")):
        labelled = replace(terms(tmp_path, target), revision=revision)
        accepted([APPEND], target, labelled)

    for target, revision in ((FULL, "v1"), (WINDOW, "v2")):
        assert lines(held([APPEND], target, replace(terms(tmp_path, target), revision=revision))) == []


def test_greedy_ids_of_the_golden_are_fed_in_place_of_the_models_choice(tmp_path: Path) -> None:
    root = Root(folder=tmp_path)
    accepted([GREEDY], FULL, terms(tmp_path, FULL))
    golden = read(root.golden(PLACE))
    (first, chosen), *_ = sorted(golden.greedy.items(), key=lambda item: len(item[0]))
    write(root.golden(PLACE), replace(golden, greedy={**golden.greedy, first: (chosen + 1) % 64}))
    _vouch(root)

    result = held([GREEDY], FULL, terms(tmp_path, FULL))

    assert lines(result)[0].startswith(
        "case.evseq.yaml:8:5: append: row 'a' index 4: golden: the golden of revision v1 has no such history"
    )


def test_what_ships_with_evseq_is_looked_into_after_the_project(tmp_path: Path) -> None:
    scripts = read_scripts([SUITE / "crop-to-the-start.evseq.yaml"])

    assert lines(run(scripts, [FULL], settings=Settings(only=DOUBLE, goldens=Terms(root=tmp_path)))) == []


def test_what_ships_with_evseq_is_not_about_a_script_of_the_same_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.evseq.yaml"
    shutil.copy(SUITE / "crop-to-the-start.evseq.yaml", file)

    result = run(read_scripts([file]), [FULL], settings=Settings(only=DOUBLE, goldens=Terms(root=tmp_path)))

    assert {note.kind for case in result.cases for note in case.notes} == {"not recorded"}


def _vouch(root: Root) -> None:
    """Make the ledger vouch for the golden as it is now."""
    ledger = root.ledger("small")
    entry = Ledger.read(ledger).entries[-1]
    ledger.unlink()
    append(ledger, entry.model_copy(update={"scripts": {"case": read(root.golden(PLACE)).seal}}))
