from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from evseq.engines.registry import find
from evseq.errors import UsageError
from evseq.geometry import Description
from evseq.script.document import Script, parse
from evseq.script.filters import check_filters, check_offered
from evseq.script.source import read

ARMED = """\
evseq: 1
name: armed
about: Arms of all sorts.
rows:
  a: {each: lines.txt}
arms:
  dtype: [float64, float32]
  chunk: [whole, 2]
  steps: [1, 2]
  transformers.attention: [eager, sdpa]
  other.kernel: [slow, fast]
events:
  - prefill: {rows: {a: steps}}
"""
PLAIN = """\
evseq: 1
name: plain
about: No arms at all.
rows:
  a: [1, 2, 3]
events:
  - prefill: [a]
"""


@pytest.fixture
def armed(tmp_path: Path) -> Script:
    (tmp_path / "lines.txt").write_text("[1, 2, 3]\n[4, 5, 6]\n")
    return parse(read(written(tmp_path / "armed.evseq.yaml", ARMED)))


@pytest.fixture
def plain(tmp_path: Path) -> Script:
    return parse(read(written(tmp_path / "plain.evseq.yaml", PLAIN)))


def written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


class TestCheckFilters:
    @pytest.mark.parametrize(
        "only",
        [
            {},
            {"dtype": ("float64", "bfloat16")},
            {"padding": ("holes",), "positions": ("engine",)},
            {"cache": ("paged",), "chunk": ("window+1", "9"), "capacity": ("64",)},
            {"steps": ("2",)},
            {"a": ("1", "2")},
            {"transformers.attention": ("flash_attention_2",)},
            {"reference.kernel": ("any",)},
            {"other.kernel": ("fast",)},
        ],
    )
    def test_what_is_there_is_accepted(self, only: Mapping[str, tuple[str, ...]], armed: Script, plain: Script) -> None:
        check_filters([armed, plain], only)

    @pytest.mark.parametrize(
        ("only", "told"),
        [
            ({"paddin": ("left",)}, "no arm 'paddin' in these scripts\n  help: did you mean 'padding'?"),
            ({"stesp": ("1",)}, "no arm 'stesp' in these scripts\n  help: did you mean 'steps'?"),
            (
                {"zzz": ("1",)},
                (
                    "no arm 'zzz' in these scripts\n"
                    "  help: arms are a, cache, capacity, chunk, dtype, other.kernel, padding, positions, steps, "
                    "transformers.attention"
                ),
            ),
            (
                {"dtype": ("float64", "float23")},
                "arm 'dtype' has no value 'float23' in these scripts\n  help: did you mean 'float32'?",
            ),
            (
                {"padding": ("zzz",)},
                "arm 'padding' has no value 'zzz' in these scripts\n  help: values are left, right, holes",
            ),
            ({"steps": ("3",)}, "arm 'steps' has no value '3' in these scripts\n  help: values are 1, 2"),
            ({"a": ("0",)}, "arm 'a' has no value '0' in these scripts\n  help: values are 1, 2"),
            (
                {"tranformers.atention": ("eager",)},
                "no engine 'tranformers' with options\n  help: did you mean 'transformers.attention'?",
            ),
            (
                {"refrence.kernel": ("x",)},
                "no engine 'refrence' with options\n  help: did you mean 'reference.kernel'?",
            ),
            (
                {"zzz.q": ("x",)},
                "no engine 'zzz' with options\n  help: engines are reference, transformers",
            ),
            (
                {"other.kernel": ("fats",)},
                "arm 'other.kernel' has no value 'fats' in these scripts\n  help: did you mean 'fast'?",
            ),
        ],
    )
    def test_what_is_nowhere_is_answered_with_the_nearest(
        self, only: Mapping[str, tuple[str, ...]], told: str, armed: Script, plain: Script
    ) -> None:
        with pytest.raises(UsageError) as refused:
            check_filters([armed, plain], only)
        assert str(refused.value) == f"only: {told}"

    def test_a_kernel_that_every_script_lists_must_be_one_of_theirs(self, armed: Script) -> None:
        with pytest.raises(UsageError) as refused:
            check_filters([armed], {"transformers.attention": ("eagr",)}, said="--arm")
        assert str(refused.value) == (
            "--arm: arm 'transformers.attention' has no value 'eagr' in these scripts\n  help: did you mean 'eager'?"
        )

    def test_the_options_of_a_chosen_target_are_accepted(self, plain: Script) -> None:
        check_filters([plain], {"mine.kernel": ("x",), "memory.kernel": ("x",)}, targets=["mine:Loader", object()])

    def test_many_values_are_not_all_listed(self, armed: Script, tmp_path: Path) -> None:
        (tmp_path / "lines.txt").write_text("[1, 2]\n" * 1000)
        with pytest.raises(UsageError) as refused:
            check_filters([armed], {"a": ("x",)})
        assert str(refused.value).endswith("\n  help: values are 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, ...")


class TestCheckOffered:
    FULL = "reference:full"

    @pytest.fixture
    def offered(self) -> dict[str, Description]:
        plain = find(self.FULL).describe()
        fast = replace(plain, options={"kernel": ("slow", "fast")})
        return {self.FULL: plain, "mine:a": fast, "mine:b": replace(fast, options={"kernel": ("odd",)})}

    @pytest.mark.parametrize(
        "only",
        [
            {},
            {"cache": ("growing", "fixed", "all")},
            {"chunk": ("9",), "dtype": ("float16",)},
            {"mine.kernel": ("slow", "odd")},
            {"transformers.attention": ("anything",)},
            {"other.kernel": ("fast",)},
        ],
    )
    def test_what_a_target_may_have_is_accepted(
        self, only: Mapping[str, tuple[str, ...]], plain: Script, offered: dict[str, Description]
    ) -> None:
        check_offered([plain], only, offered=offered)

    @pytest.mark.parametrize(
        ("only", "told"),
        [
            (
                {"cache": ("growing", "fixd")},
                (
                    "no target and no script has cache=fixd\n"
                    "  help: did you mean 'fixed'? targets offer growing, fixed, ring, quantised, streaming, blocks"
                ),
            ),
            (
                {"cache": ("zzz",)},
                (
                    "no target and no script has cache=zzz\n"
                    "  help: targets offer growing, fixed, ring, quantised, streaming, blocks"
                ),
            ),
            (
                {"mine.kernel": ("fats",)},
                (
                    "no target and no script has mine.kernel=fats\n"
                    "  help: did you mean 'fast'? targets offer slow, fast, odd"
                ),
            ),
            ({"mine.kernl": ("slow",)}, "no target has an option 'mine.kernl'\n  help: did you mean 'mine.kernel'?"),
            ({"mine.zzzzzz": ("slow",)}, "no target has an option 'mine.zzzzzz'\n  help: options are mine.kernel"),
            ({"reference.kernel": ("x",)}, "no target has an option 'reference.kernel'\n  help: it has none"),
        ],
    )
    def test_what_no_case_could_have_is_answered_with_what_targets_offer(
        self, only: Mapping[str, tuple[str, ...]], told: str, plain: Script, offered: dict[str, Description]
    ) -> None:
        with pytest.raises(UsageError) as refused:
            check_offered([plain], only, offered=offered, said="--arm")
        assert str(refused.value) == f"--arm: {told}"

    def test_what_a_script_lists_is_its_own_business(self, tmp_path: Path, offered: dict[str, Description]) -> None:
        text = PLAIN.replace("events:", "arms:\n  cache: [growing, paged]\n  reference.kernel: [x]\nevents:")
        listing = parse(read(written(tmp_path / "listing.evseq.yaml", text)))
        check_offered([listing], {"cache": ("paged",), "reference.kernel": ("x",)}, offered=offered)

    def test_without_targets_nothing_is_known(self, plain: Script) -> None:
        check_offered([plain], {"cache": ("paged",), "mine.kernel": ("x",)}, offered={})
