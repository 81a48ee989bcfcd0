"""The editor schema comes from the classes that parse, and says the same."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import evseq
from evseq.errors import ScriptError
from evseq.script.document import Script, unparse
from evseq.script.events import EVENTS
from evseq.script.schema import editor_schema
from evseq.script.source import Source, parse_yaml, read

SUITE = sorted(Path(evseq.__file__).parent.glob("script/suite/*.evseq.yaml"))
BROKEN = sorted((Path(__file__).parent / "broken").glob("*.evseq.yaml"))
VALIDATOR = Draft202012Validator(editor_schema())

BEYOND = {
    # What only the text shows; an editor's YAML server has its own words for most of it.
    "03-duplicate-key",
    "06-tab",
    "10-tag",
    "11-date",
    "45-percent-directive",
    # What only another part of the script, or another file, shows.
    "26-needs-exclude-each-other",
    "29-arm-named-like-row",
    "50-row-file-missing",
    "51-row-file-outside",
    "52-each-line-is-no-list-of-ids",
    # A schema of events in events has no end.
    "81-repeats-nested-too-deep",
}


def named(paths: Iterable[Path]) -> Iterator[tuple[str, Source]]:
    """Yield the scripts whose text is YAML, by name."""
    for path in paths:
        with contextlib.suppress(ScriptError):
            yield path.name.removesuffix(".evseq.yaml"), read(path)


def wrong(data: object) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(data)]


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(editor_schema())
    assert editor_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_it_can_be_written_to_a_file() -> None:
    assert json.loads(json.dumps(editor_schema())) == editor_schema()


@pytest.mark.parametrize("word", list(EVENTS))
def test_every_event_is_in_it_with_its_keys_and_what_it_does(word: str) -> None:
    schema = editor_schema()
    kind = EVENTS[word]
    event = schema["properties"]["events"]["items"]["anyOf"][0]["properties"][word]
    assert event["description"] == kind.__doc__.strip().replace("\n    ", "\n")  # type: ignore[union-attr]
    keys = {field.alias or name for name, field in kind.model_fields.items()}
    assert schema["$defs"][kind.__name__]["properties"].keys() == keys


@pytest.mark.parametrize("word", list(EVENTS))
def test_the_example_of_every_event_is_right(example: str, word: str) -> None:
    assert wrong(parse_yaml(f"{example}  - {EVENTS[word].example}\n", file="x").data) == []


def test_every_broken_script_is_wrong_that_a_schema_can_know() -> None:
    right = {name for name, source in named(BROKEN) if not wrong(source.data)}
    assert right == BEYOND


@pytest.mark.parametrize("path", SUITE, ids=lambda path: path.name)
def test_every_shipped_script_is_right(path: Path) -> None:
    assert wrong(read(path).data) == []


def test_the_example_of_the_language_is_right(example: str) -> None:
    assert wrong(parse_yaml(example, file="x").data) == []


@given(data=st.data())
@settings(max_examples=40)
def test_any_script_is_right(scripts: st.SearchStrategy[Script], data: st.DataObject) -> None:
    assert wrong(parse_yaml(unparse(data.draw(scripts)), file="x").data) == []
