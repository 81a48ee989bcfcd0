from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evseq.golden.terms import FormWord
from evseq.settings import SETTINGS, label


def refused(name: str, raw: Any) -> str:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is the expectation
        SETTINGS[name].read(raw)
    return str(error.value)


class TestRead:
    def test_a_target_is_one_text_or_a_list(self) -> None:
        assert SETTINGS["target"].read("my folder:x") == ("my folder:x",)
        assert SETTINGS["target"].read(["a:b", "c:d"]) == ("a:b", "c:d")

    @pytest.mark.parametrize("raw", [[], 3, [""], ["a", 2], {"a": "b"}])
    def test_what_names_no_target_is_refused(self, raw: Any) -> None:
        assert refused("target", raw) == (
            f"{raw!r} names no target\n  help: write a text such as 'reference:window', or a list of them"
        )

    def test_values_of_one_arm_add_up(self) -> None:
        assert SETTINGS["arm"].read(("dtype=float64", "dtype=float32", "chunk=2")) == {
            "dtype": ("float64", "float32"),
            "chunk": ("2",),
        }

    def test_a_table_of_arms_takes_a_value_or_a_list(self) -> None:
        assert SETTINGS["arm"].read({"dtype": "float64,float32", "padding": ["left", "right"], "chunk": 2}) == {
            "dtype": ("float64", "float32"),
            "padding": ("left", "right"),
            "chunk": ("2",),
        }

    @pytest.mark.parametrize("raw", ["dtype", "=float64", "dtype=", "dtype=float64,", "dtype=,"])
    def test_an_arm_without_name_or_value_is_refused(self, raw: str) -> None:
        assert refused("arm", (raw,)) == (
            f"{raw!r} keeps no value of an arm\n"
            "  help: write name=value,value with values of that arm, as in dtype=float64,float32"
        )

    @pytest.mark.parametrize("values", [[], True, [1.5], {}, "", [""]])
    def test_a_table_of_arms_holds_words_and_integers(self, values: Any) -> None:
        assert refused("arm", {"chunk": values}) == (
            f"chunk = {values!r} keeps no value of an arm\n"
            "  help: write name=value,value with values of that arm, as in dtype=float64,float32"
        )

    @pytest.mark.parametrize("raw", [0, -1, 1025, True, 1.0, "1.0", "-1", "\u0663"])
    def test_what_is_no_number_of_threads_is_refused(self, raw: Any) -> None:
        assert refused("threads", raw).startswith(f"{raw!r} is no number of threads")

    @pytest.mark.parametrize("raw", [0, 65, "two"])
    def test_what_is_no_number_of_workers_is_refused(self, raw: Any) -> None:
        assert refused("workers", raw) == (
            f"{raw!r} is no number of workers\n  help: use a whole number from 1 to 64; a core each is plenty"
        )

    @pytest.mark.parametrize("raw", ["tcp://host", "host:8786", "http://host:8786", "tcp://a b:1", 8786])
    def test_what_is_no_address_of_a_scheduler_is_refused(self, raw: Any) -> None:
        assert refused("scheduler", raw) == (
            f"{raw!r} is no scheduler's address\n  help: write tcp://HOST:PORT, as `dask scheduler` says"
        )

    @pytest.mark.parametrize("raw", ["tcp://127.0.0.1:8786", "tls://head-1.local:8786", "tcp://[::1]:8786"])
    def test_an_address_of_a_scheduler_is_taken(self, raw: str) -> None:
        assert SETTINGS["scheduler"].read(raw) == raw

    @pytest.mark.parametrize("raw", ["product", 3])
    def test_an_unknown_selection_is_refused(self, raw: Any) -> None:
        assert refused("arms", raw) == f"{raw!r} selects no cases\n  help: use pairwise or all"

    @pytest.mark.parametrize("raw", ["", 3])
    def test_what_is_no_path_is_refused(self, raw: Any) -> None:
        assert refused("record", raw) == f"{raw!r} is no path\n  help: write a text"

    @pytest.mark.parametrize(("raw", "told"), [("ful", "did you mean 'full'?"), (3, "use auto, full or compact")])
    def test_an_unknown_form_of_goldens_is_refused(self, raw: Any, told: str) -> None:
        assert refused("golden-form", raw) == f"{raw!r} is no form of goldens\n  help: {told}"

    @pytest.mark.parametrize(("raw", "read"), [("2.5", 2.5), (3, 3.0), (0.1, 0.1)])
    def test_a_time_to_wait_is_in_seconds(self, raw: Any, read: float) -> None:
        assert SETTINGS["golden-timeout"].read(raw) == read

    @pytest.mark.parametrize("raw", [0, -1, "soon", "nan", "inf", True, None, 1e9])
    def test_what_is_no_time_to_wait_is_refused(self, raw: Any) -> None:
        assert refused("golden-timeout", raw) == (
            f"{raw!r} is no time to wait\n  help: use seconds, more than 0 and at most 86400"
        )

    def test_goldens_are_a_folder_or_a_url(self) -> None:
        assert SETTINGS["goldens"].read("kept") == Path("kept")
        assert SETTINGS["goldens"].read("s3://bucket/evseq/") == "s3://bucket/evseq"

    def test_a_form_of_goldens_is_one_of_its_words(self) -> None:
        assert SETTINGS["golden-form"].read("compact") is FormWord.COMPACT

    @pytest.mark.parametrize("raw", ["true", 1, 0, None])
    def test_what_is_no_switch_is_refused(self, raw: Any) -> None:
        assert refused("require-goldens", raw) == f"{raw!r} is neither true nor false\n  help: say one of them"


class TestLabel:
    @pytest.mark.parametrize("raw", ["v1", "2025-06.rc_1", "a" * 64, "0"])
    def test_it_names_a_folder(self, raw: str) -> None:
        assert label(raw) == raw

    @pytest.mark.parametrize("raw", ["", ".", "..", "-x", "a/b", "a b", "a" * 65, "é", "v1\n", 1])
    def test_what_may_name_none_is_refused(self, raw: Any) -> None:
        with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is the expectation
            label(raw)
        assert str(error.value) == (
            f"{raw!r} is no label\n"
            "  help: use at most 64 letters, digits, '.', '_' and '-', the first a letter or a digit"
        )


class TestNames:
    def test_dashes_are_for_flags_and_files(self) -> None:
        setting = SETTINGS["require-goldens"]
        assert (setting.attribute, setting.variable) == ("require_goldens", "EVSEQ_REQUIRE_GOLDENS")


class TestShow:
    @pytest.mark.parametrize(
        ("name", "value", "told"),
        [
            ("jsonl", None, "-"),
            ("jsonl", Path("a b"), "a b"),
            ("threads", 2, "2"),
            ("target", ("a:b", "c d"), "a:b 'c d'"),
            ("arm", {"dtype": ("float64", "float32"), "chunk": ("2",)}, "dtype=float64,float32 chunk=2"),
            ("arm", {}, "-"),
            ("require-goldens", True, "true"),
            ("golden-form", FormWord.FULL, "full"),
        ],
    )
    def test_values_are_shown_as_flags_take_them(self, name: str, value: Any, told: str) -> None:
        assert SETTINGS[name].show(value) == told

    def test_defaults_read_as_themselves(self) -> None:
        said = {name: setting.default for name, setting in SETTINGS.items() if setting.default is not None}
        assert {name: SETTINGS[name].read(value) for name, value in said.items()} == said
