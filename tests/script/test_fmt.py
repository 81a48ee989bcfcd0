from __future__ import annotations

import stat
from pathlib import Path

import pytest

from evseq.errors import ScriptError
from evseq.script.document import Script, parse
from evseq.script.fmt import changes
from evseq.script.source import read

NORMAL = """\
evseq: 1
name: crop-twice
about: What is cropped is gone.
rows:
  a: [1, 2, 3, 4]
events:
  - prefill: [a]  # whole
  - crop: {by: 2}
"""
LOOSE = NORMAL.replace("{by: 2}", '{"by":   2}')


def written(file: Path, text: str) -> Script:
    file.write_bytes(text.encode())
    return parse(read(file))


class TestChanges:
    def test_normal_form_needs_none(self, tmp_path: Path) -> None:
        assert changes([written(tmp_path / "a.evseq.yaml", NORMAL)]) == ()

    def test_a_difference_is_shown(self, tmp_path: Path) -> None:
        file = tmp_path / "a.evseq.yaml"
        (change,) = changes([written(file, LOOSE)])
        assert change.diff() == (
            f"--- {file}\n"
            f"+++ {file}\n"
            "@@ -5,4 +5,4 @@\n"
            "   a: [1, 2, 3, 4]\n"
            " events:\n"
            "   - prefill: [a]  # whole\n"
            '-  - crop: {"by":   2}\n'
            "+  - crop: {by: 2}\n"
        )
        assert file.read_text() == LOOSE

    def test_writing_makes_normal_form_and_keeps_comments(self, tmp_path: Path) -> None:
        (change,) = changes([written(tmp_path / "a.evseq.yaml", LOOSE)])
        change.write()
        assert (tmp_path / "a.evseq.yaml").read_text() == NORMAL
        assert [file.name for file in tmp_path.iterdir()] == ["a.evseq.yaml"]

    def test_writing_keeps_who_may_read_it(self, tmp_path: Path) -> None:
        (change,) = changes([written(tmp_path / "a.evseq.yaml", LOOSE)])
        (tmp_path / "a.evseq.yaml").chmod(0o600)
        change.write()
        assert stat.S_IMODE((tmp_path / "a.evseq.yaml").stat().st_mode) == 0o600

    def test_line_ends_of_windows_are_no_normal_form(self, tmp_path: Path) -> None:
        (change,) = changes([written(tmp_path / "a.evseq.yaml", NORMAL.replace("\n", "\r\n"))])
        change.write()
        assert (tmp_path / "a.evseq.yaml").read_bytes() == NORMAL.encode()

    def test_a_link_stays_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        written(tmp_path / "real" / "a.evseq.yaml", LOOSE)
        link = tmp_path / "a.evseq.yaml"
        link.symlink_to(tmp_path / "real" / "a.evseq.yaml")
        (change,) = changes([parse(read(link))])
        change.write()
        assert (link.is_symlink(), link.read_text()) == (True, NORMAL)

    def test_a_comment_is_never_lost(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        script = written(tmp_path / "a.evseq.yaml", NORMAL)
        monkeypatch.setattr("evseq.script.fmt.unparse", lambda _: NORMAL.replace("  # whole", ""))
        with pytest.raises(ScriptError, match=r"a\.evseq\.yaml:7:19: this comment would be lost"):
            changes([script])
