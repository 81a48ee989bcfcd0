from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from evseq.check import Check
from evseq.script.allowing import Allow, listed
from evseq.script.document import Script, parse, unparse
from evseq.script.events import Append
from evseq.script.schema import editor_schema
from evseq.script.source import Source, parse_yaml

SCRIPT = """\
evseq: 1
name: x
about: A test.
rows:
  a: [17, 4, 59, 3]
ALLOW
events:
  - prefill: {rows: {a: 3}}
  - append: {next: 1HERE}
"""

ONE = "{check: parity, because: The kernel rounds, within: 2.5}"
OTHER = "{check: isolation, because: It tidies up, within: 1}"
LONG = "because: The kernel of this release rounds its sums to bfloat16 and the next one will not says its author,"


def source(*, allow: str = "", here: str = "") -> Source:
    text = SCRIPT.replace("ALLOW\n", f"allow: {allow}\n" if allow else "")
    return parse_yaml(text.replace("HERE", f", allow: {here}" if here else ""), file="x.evseq.yaml")


def read(**written: str) -> Script:
    return parse(source(**written))


def here(script: Script) -> list[Allow]:
    event = script.events[1]
    assert isinstance(event, Append)
    return [allow for _, allow in listed(event.allow)]


class TestParse:
    def test_one_stands_alone_or_in_a_list(self) -> None:
        assert read(here=ONE) == read(here=f"[{ONE}]")
        assert here(read(here=ONE)) == [Allow(check=Check.PARITY, because="The kernel rounds", within=2.5)]

    def test_several_stand_in_their_order(self) -> None:
        assert [allow.check for allow in here(read(here=f"[{OTHER}, {ONE}]"))] == [Check.ISOLATION, Check.PARITY]

    def test_a_script_has_its_own(self) -> None:
        script = read(allow=f"[{OTHER}, {ONE}]")
        assert [allow.check for allow in script.allow] == [Check.ISOLATION, Check.PARITY]
        assert read(allow=ONE).allow == (script.allow[1],)


@pytest.mark.parametrize("written", [ONE, f"[{ONE}, {OTHER}]", ONE.replace("because: The kernel rounds,", LONG)])
class TestNormalForm:
    def test_it_is_read_as_it_was(self, written: str) -> None:
        script = read(allow=written, here=written)
        text = unparse(script)
        assert parse(parse_yaml(text, file="x.evseq.yaml")) == script
        assert unparse(parse(parse_yaml(text, file="x.evseq.yaml"))) == text

    def test_the_schema_takes_it(self, written: str) -> None:
        Draft202012Validator(editor_schema()).validate(source(allow=written, here=written).data)


def test_a_list_of_one_is_written_without_its_list() -> None:
    assert f"  - append: {{next: 1, allow: {ONE}}}\n" in unparse(read(here=f"[{ONE}]"))
    assert f"allow: {ONE}\n" in unparse(read(allow=f"[{ONE}]"))
