from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from evseq.cache.damage import FieldDamaged, NotWritable
from evseq.golden.witness import Errors, Witness, name_of, read, update

NUMERIC: dict[str, Any] = {
    "numeric.device": "cpu",
    "numeric.dtype": "float32",
    "numeric.attention": "plain",
    "numeric.library": {"torch": "2.13.0+cpu"},
}

NAME = "cpu-float32-plain-torch-2.13.0-cpu.json"

ERRORS = Errors(histories="ab", uncached=(1e-06, 2e-06, None), cached=(1.5e-06, None, None))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model" / "revision" / "witness" / NAME


class TestName:
    def test_it_tells_device_dtype_kernel_and_versions(self) -> None:
        assert name_of(NUMERIC) == NAME

    def test_the_order_of_fields_and_libraries_is_settled(self) -> None:
        libraries = {"transformers": "5.24.0", "torch": "2.13.0"}
        shuffled = dict(reversed([*{**NUMERIC, "numeric.library": libraries}.items()]))
        assert name_of(shuffled) == "cpu-float32-plain-torch-2.13.0-transformers-5.24.0.json"


class TestUpdate:
    def test_what_is_written_is_read_back(self, file: Path) -> None:
        update(file, "one", ERRORS, numeric=NUMERIC)
        assert read(file) == Witness(numeric=NUMERIC, scripts={"one": ERRORS})

    def test_a_file_has_a_line_for_each_script(self, file: Path) -> None:
        update(file, "two", ERRORS, numeric=NUMERIC)
        update(file, "one", ERRORS, numeric=NUMERIC)
        assert file.read_text() == (
            "{\n"
            ' "version": 1,\n'
            ' "numeric": {"numeric.attention": "plain", "numeric.device": "cpu", "numeric.dtype": "float32", '
            '"numeric.library": {"torch": "2.13.0+cpu"}},\n'
            ' "scripts": {\n'
            '  "one": {"histories":"ab","uncached":[1e-06,2e-06,null],"cached":[1.5e-06,null,null]},\n'
            '  "two": {"histories":"ab","uncached":[1e-06,2e-06,null],"cached":[1.5e-06,null,null]}\n'
            " }\n"
            "}\n"
        )

    def test_rows_not_observed_now_keep_what_they_had(self, file: Path) -> None:
        update(file, "one", ERRORS, numeric=NUMERIC)
        update(
            file, "one", Errors(histories="ab", uncached=(None, 5.0, 6.0), cached=(None, 7.0, None)), numeric=NUMERIC
        )
        witness = read(file)
        assert witness is not None
        assert witness.scripts["one"] == Errors(histories="ab", uncached=(1e-06, 5.0, 6.0), cached=(1.5e-06, 7.0, None))

    def test_errors_of_other_histories_are_forgotten(self, file: Path) -> None:
        update(file, "one", ERRORS, numeric=NUMERIC)
        other = Errors(histories="cd", uncached=(None,), cached=(3.0,))
        update(file, "one", other, numeric=NUMERIC)
        witness = read(file)
        assert witness is not None
        assert witness.scripts == {"one": other}

    def test_many_writers_lose_nothing(self, file: Path) -> None:
        names = [f"script-{number:02}" for number in range(24)]
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(lambda name: update(file, name, ERRORS, numeric=NUMERIC), names))
        witness = read(file)
        assert witness is not None
        assert list(witness.scripts) == names

    def test_a_damaged_file_is_written_anew(self, file: Path) -> None:
        file.parent.mkdir(parents=True)
        file.write_text("{")
        update(file, "one", ERRORS, numeric=NUMERIC)
        assert read(file) == Witness(numeric=NUMERIC, scripts={"one": ERRORS})

    def test_a_folder_that_cannot_be_made_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "model").write_text("a file")
        with pytest.raises(NotWritable, match=r"/model/witness: cannot be written: Not a directory\n  help: "):
            update(tmp_path / "model" / "witness" / NAME, "one", ERRORS, numeric=NUMERIC)


class TestRead:
    def test_no_file_is_no_witness(self, file: Path) -> None:
        assert read(file) is None

    def test_a_file_cut_short_is_refused(self, file: Path) -> None:
        update(file, "one", ERRORS, numeric=NUMERIC)
        file.write_bytes(file.read_bytes()[:-8])
        with pytest.raises(FieldDamaged, match="not JSON: Expecting ',' delimiter"):
            read(file)

    @pytest.mark.parametrize(
        ("part", "value", "told"),
        [
            ("uncached", [1.0], "scripts.one: Value error, 1 uncached errors for 3 cached ones"),
            ("cached", [-1.0, None, None], "scripts.one.cached.0: Input should be greater than or equal to 0"),
            ("cached", "none", "scripts.one.cached: Input should be a valid array"),
            ("another", 1, "scripts.one.another: Extra inputs are not permitted"),
        ],
    )
    def test_what_a_script_cannot_have_is_refused(self, part: str, value: object, told: str, file: Path) -> None:
        update(file, "one", ERRORS, numeric=NUMERIC)
        held = json.loads(file.read_text())
        held["scripts"]["one"][part] = value
        file.write_text(json.dumps(held))
        with pytest.raises(FieldDamaged) as refused:
            read(file)
        assert refused.value.evidence == f"not what a witness says: {told}"

    def test_a_later_version_is_refused(self, file: Path) -> None:
        update(file, "one", ERRORS, numeric=NUMERIC)
        file.write_text(file.read_text().replace('"version": 1', '"version": 2'))
        with pytest.raises(FieldDamaged, match="not what a witness says: version: Input should be 1"):
            read(file)

    def test_a_file_under_another_name_is_refused(self, file: Path) -> None:
        update(file, "one", ERRORS, numeric=NUMERIC)
        moved = file.rename(file.with_name("cuda-float32-plain-torch-2.13.0-cpu.json"))
        with pytest.raises(FieldDamaged, match=r"it is about cpu-float32-plain-torch-2\.13\.0-cpu\.json"):
            read(moved)


class TestDrift:
    def test_equal_errors_have_none(self) -> None:
        assert ERRORS.drift(ERRORS, (1e-05, 1e-05, 1e-05)) == 0.0

    def test_the_largest_change_of_either_side_counts(self) -> None:
        now = Errors(histories="ab", uncached=(1e-06, 4e-06, None), cached=(2e-06, None, 1.0))
        assert now.drift(ERRORS, (1e-05, 4e-06, 1e-05)) == pytest.approx(0.5)

    def test_an_error_that_became_smaller_is_a_change_too(self) -> None:
        now = Errors(histories="ab", uncached=(None, None, None), cached=(5e-07, None, None))
        assert now.drift(ERRORS, (1e-05, 1e-05, 1e-05)) == pytest.approx(0.1)

    def test_without_a_row_known_on_both_sides_there_is_no_drift(self) -> None:
        now = Errors(histories="ab", uncached=(None, None, 1.0), cached=(None, 1.0, None))
        assert now.drift(ERRORS, (1e-05, 1e-05, 1e-05)) is None
