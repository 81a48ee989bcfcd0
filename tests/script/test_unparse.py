"""The normal form of a script: unparse, the inverse of parse."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import evseq
from evseq.script.document import Script, parse, unparse
from evseq.script.source import read
from planning import SHORT, parsed

SUITE = sorted(Path(evseq.__file__).parent.glob("script/suite/*.evseq.yaml"))


class TestUnparse:
    def test_the_example_keeps_all_but_its_alignment(self, example: str) -> None:
        assert unparse(parsed(example)) == (
            example.replace("rows:                                  #", "rows:  #")
            .replace("arms:                                  #", "arms:  #")
            .replace("{a: 7, b: 3}}      #", "{a: 7, b: 3}}  #")
            .replace("{next: 2}                  #", "{next: 2}  #")
            .replace("on: again}       #", "on: again}  #")
        )

    def test_defaults_and_long_forms_are_shortened(self) -> None:
        long = """\
---
name: 'long'
evseq: +1
events:
- prefill: {rows: [a, b], as: main}
- append: {next: 1, on: main, together: false, expect: {loud: true, invalid: false}}
- beam-select: {rows: {x: a, y: a}, on: main}
- drop: {on: main}
- probe:
rows:
  a:
  - 1
  - 2
  b: {text: "true"}
about: >
  Long
  form.
arms: {padding: {values: [left]}, cache: [all], chunk: {when: [together], values: [whole, 1]}}
targets: ["reference:window", "transformers:new/x?y=1"]
needs: ["batch"]
"""
        assert (
            unparse(parsed(long))
            == """\
evseq: 1
name: long
about: |
  Long form.
rows:
  a: [1, 2]
  b: {text: "true"}
arms:
  padding: [left]
  cache: all
  chunk: {values: [whole, 1], when: [together]}
needs: [batch]
targets: [reference:window, "transformers:new/x?y=1"]
events:
  - prefill: [a, b]
  - append: {next: 1, expect: loud}
  - beam-select: {x: a, y: a}
  - drop
  - probe
"""
        )

    def test_what_does_not_fit_a_line_is_broken(self) -> None:
        prose = "This sentence is longer than a line of the normal form may be, so that it goes on in a block " * 2
        ids = list(range(100, 140))
        wide = f"""\
evseq: 1
name: wide
about: {prose.strip()}
rows: {{a: {ids}, b: {{text: "{prose.strip()}"}}}}
events:
  - prefill: {{rows: {{{", ".join(f"a_long_name_for_a_row_{n}: {n}" for n in range(5))}}}}}
  - append: {{ids: {{a: {ids}}}}}
"""
        assert (
            unparse(parsed(wide))
            == """\
evseq: 1
name: wide
about: >-
  This sentence is longer than a line of the normal form may be, so that it goes on in a block This sentence
  is longer than a line of the normal form may be, so that it goes on in a block
rows:
  a: [100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120,
    121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139]
  b:
    text: >-
      This sentence is longer than a line of the normal form may be, so that it goes on in a block This
      sentence is longer than a line of the normal form may be, so that it goes on in a block
events:
  - prefill:
      rows:
        a_long_name_for_a_row_0: 0
        a_long_name_for_a_row_1: 1
        a_long_name_for_a_row_2: 2
        a_long_name_for_a_row_3: 3
        a_long_name_for_a_row_4: 4
  - append:
      ids:
        a: [100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118,
          119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138,
          139]
"""
        )

    def test_a_text_of_several_lines_keeps_them(self) -> None:
        rows = "rows:\n  a:\n    text: |\n      def f(x):\n\n        return x  # twice\n  b: [3]\n"
        text = SHORT.replace("rows: {a: [1, 2], b: [3]}\n", rows)
        assert unparse(parsed(text)) == text

    @given(data=st.data())
    @settings(max_examples=80)
    def test_any_script_is_read_back_from_its_normal_form(
        self, scripts: st.SearchStrategy[Script], data: st.DataObject
    ) -> None:
        script = data.draw(scripts)
        text = unparse(script)
        again = parsed(text)
        assert again == script
        assert unparse(again) == text
        assert [list(part) for part in (again.rows, again.arms)] == [list(part) for part in (script.rows, script.arms)]

    def test_every_shipped_script_is_read_back_from_its_normal_form(self) -> None:
        shipped = {file.name: parse(read(file)) for file in SUITE}
        assert {name: parsed(unparse(script)) for name, script in shipped.items()} == shipped
