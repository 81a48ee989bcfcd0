"""Comments stay with what they are about, and none is lost in the normal form."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evseq.script.comments import comments, lost_comments
from evseq.script.document import unparse
from planning import SHORT, parsed


class TestComments:
    SCATTERED = """\
# above all
# $schema
evseq: 1  # behind the version
# before the name
name: scattered
about: >-  # behind a fold
  Comments # that are none
  stay.
rows:  # behind rows
  # before a
  a: [1, 2,  # inside a
      3]  # at the end of a
  b:
    # inside b
    text: "none # here"  # behind b's text
  # after the rows
arms:
  # before padding
  padding: [left]   # behind padding
# before events
events:
  - prefill: [a, b]
  - append:
      next: 1  # behind next
      # before together
      together: true
  # before the probe

  - probe  # behind the probe
  # after the last
# at the end
"""

    def test_comments_stay_with_what_they_are_about(self) -> None:
        assert (
            unparse(parsed(self.SCATTERED))
            == """\
# above all
# $schema
evseq: 1  # behind the version
# before the name
name: scattered
about: "Comments # that are none stay."  # behind a fold
rows:  # behind rows
  # before a
  # inside a
  # at the end of a
  a: [1, 2, 3]
  # inside b
  b: {text: "none # here"}  # behind b's text
  # after the rows
arms:
  # before padding
  padding: [left]  # behind padding
# before events
events:
  - prefill: [a, b]
  # before together
  - append: {next: 1, together: true}  # behind next
  # before the probe
  - probe  # behind the probe
  # after the last
# at the end
"""
        )

    def test_normal_form_with_comments_stays_as_it_is(self) -> None:
        text = unparse(parsed(self.SCATTERED))
        assert unparse(parsed(text)) == text

    @given(st.lists(st.tuples(st.integers(0, 22), st.integers(0, 6)), max_size=12))
    def test_no_comment_is_lost_wherever_it_stands(self, example: str, where: list[tuple[int, int]]) -> None:
        lines = example.splitlines()
        for number, (line, indent) in enumerate(where):
            lines.insert(min(line, len(lines)), f"{' ' * indent}# comment {number}")
        script = parsed("\n".join(lines))
        text = unparse(script)
        assert sorted(c.text for c in comments(text)) == sorted(c.text for c in comments(script.source.text))
        assert lost_comments(script.source, text) == ()
        assert unparse(parsed(text)) == text

    def test_a_lost_comment_is_told(self) -> None:
        script = parsed(SHORT + "  # why\n  - probe\n  # why\n")
        (problem,) = lost_comments(script.source, SHORT + "  # why\n  - probe\n")
        assert str(problem) == (
            "x.evseq.yaml:9:3: this comment would be lost\n"
            "  8 |   - probe\n"
            "> 9 |   # why\n"
            "  help: move it to a line of its own above a row, an arm or an event"
        )
