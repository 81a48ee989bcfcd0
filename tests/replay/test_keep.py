"""A recorded run, judged again without the model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from evseq import pipeline
from evseq.cache.damage import FactsDamaged
from evseq.cache.identity import Identity
from evseq.cache.sealed import SealedKind, open_sealed, seal
from evseq.errors import CacheError
from evseq.golden.root import NameRefused
from evseq.golden.terms import Terms
from evseq.verdict.result import Outcome, Result
from playing import played, script

EVERYTHING = """\
rows:
  a: {random: {length: 10, seed: 1}}
  b: {text: "the fox"}
arms:
  dtype: [float64, float32]
  cache: [growing, ring]
events:
  - prefill: {rows: {a: 7, b: 3}}
  - serialize: {to: mid}
  - append: {greedy: 2}
  - reload: {from: mid, as: again}
  - append: {next: 2, on: again, expect: loud}
  - mutate-prefix-token: {row: a, index: 2, token: 24}
  - reload: {from: mid, as: changed, expect: {refused: prefix.tokens}}
  - mutate: {field: weights.live}
  - reload: {from: mid, as: stale, expect: {refused: weights.live}}
  - append: {next: 1, on: again, expect: {refused: weights.live}}
  - restore: {field: weights.live}
  - reuse: {from: again, as: live}
  - append: {next: 1, on: live}
  - mutate-prefix-token: {row: a, index: 2, token: 24}
  - reuse: {from: again, as: part, expect: {reused: {most: 5}}}
  - append: {next: 1, on: part}
  - fork: {as: twin, on: again}
  - crop: {by: 1, on: again}
  - append: {ids: {a: [5], b: [6]}, on: again}
  - beam-select: {rows: {x: b, y: a}, on: twin}
  - append: {next: 1, on: twin}
"""

JUDGE = """
import sys
from pathlib import Path
import evseq.engines.registry as registry
def find(text):
    raise AssertionError("judging opened " + text)
registry.find = find
for module in ("reference", "transformers"):
    sys.modules["evseq.engines." + module] = None
from evseq.pipeline import judge
print(judge(Path(sys.argv[1])).cases)
"""


def kept(folder: Path) -> Path:
    """Return the only recording in a folder."""
    (file,) = folder.iterdir()
    return file


def judged(result: Result, folder: Path) -> Result:
    """Judge what was kept again; the time that judging took is all that may differ."""
    return replace(pipeline.judge(kept(folder)), seconds=result.seconds)


class TestJudgedAgain:
    def test_a_green_run_is_green_and_the_same(self, tmp_path: Path) -> None:
        result = played(EVERYTHING, "reference:window", only={}, record=tmp_path)

        assert result.counts[Outcome.PASSED] == 4
        assert judged(result, tmp_path) == result

    @pytest.mark.parametrize(
        "fault",
        [
            "faults:positions_after_crop",
            "faults:crop_raises",
            "faults:append_moves_cache",
            "faults:not_finite",
            "faults:restored_otherwise",
            "faults:recomputes_lazily",
            "faults:never_the_same",
            "faults:shows_nothing",
            "probes:length_short",
            "engines:another_each_time",
            "engines:unknown_library",
            "engines:remembers",
            "engines:imprecise",
            "engines:only_single",
        ],
    )
    def test_a_red_run_is_red_and_the_same(self, fault: str, tmp_path: Path) -> None:
        result = played(EVERYTHING, f"planted.{fault}", only={"cache": ("growing",)}, record=tmp_path)

        assert repr(judged(result, tmp_path)) == repr(result)

    def test_without_the_model(self, tmp_path: Path) -> None:
        result = played(EVERYTHING, "planted.faults:positions_after_crop", record=tmp_path)

        told = subprocess.run(
            [sys.executable, "-c", JUDGE, kept(tmp_path)], check=True, stdout=subprocess.PIPE, text=True
        )

        assert told.stdout.strip() == repr(result.cases)

    def test_an_in_memory_target(self, tmp_path: Path) -> None:
        from planted.second import Second

        result = played("rows: {a: [1, 2, 3]}\nevents: [{prefill: [a]}]\n", Second(), record=tmp_path)

        assert judged(result, tmp_path) == result
        assert result.cases[0].replay == (
            "evseq.qualify(model, ['case.evseq.yaml'], settings=evseq.pipeline.Settings(only={'dtype': ('float64',)}))"
        )


class TestKept:
    def test_every_script_and_target_gets_its_file(self, tmp_path: Path) -> None:
        text = "rows: {a: [1, 2, 3]}\nevents: [{prefill: [a]}]\n"
        scripts = [script(text, file="one/case.evseq.yaml"), script(text, file="two/case.evseq.yaml")]

        played(scripts, "reference:full", "reference:alibi", record=tmp_path / "made" / "here")

        names = sorted(re.sub(r"\.[0-9a-f]{8}\.", ".#.", file.name) for file in (tmp_path / "made" / "here").iterdir())
        assert names == [
            *["case.reference_alibi.#.recording.safetensors"] * 2,
            *["case.reference_full.#.recording.safetensors"] * 2,
        ]

    def test_the_same_run_has_the_same_name(self, tmp_path: Path) -> None:
        text = "rows: {a: [1, 2, 3]}\nevents: [{prefill: [a]}]\n"

        played(text, "reference:full", record=tmp_path)
        played(text, "reference:full", record=tmp_path)

        assert kept(tmp_path).is_file()

    def test_nothing_is_kept_where_there_was_nothing_to_compare_with(self, tmp_path: Path) -> None:
        text = "rows: {a: [1, 2, 3]}\nevents: [{prefill: [a]}]\n"

        played(text, "planted.raising:uncached", record=tmp_path)

        assert list(tmp_path.iterdir()) == []

    def test_a_text_beside_the_script_is_read_again(self, tmp_path: Path) -> None:
        (tmp_path / "row.txt").write_text("the fox")
        text = "rows: {a: {file: row.txt}}\nevents: [{prefill: [a]}]\n"
        result = played(
            script(text, file=str(tmp_path / "case.evseq.yaml")), "reference:full", record=tmp_path / "kept"
        )

        assert judged(result, tmp_path / "kept") == result


class TestDamaged:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        played("rows: {a: [1, 2, 3]}\nevents: [{prefill: [a]}]\n", "reference:full", record=tmp_path)
        return kept(tmp_path)

    def test_a_truncated_file(self, file: Path) -> None:
        file.write_bytes(file.read_bytes()[:-1])

        assert error(file).startswith(f"{file}: ends at byte ")

    def test_a_cache_is_no_recording(self, tmp_path: Path) -> None:
        seal(tmp_path / "file", kind=SealedKind.CACHE, identity=Identity(values={}), tensors={}, scalars={})

        assert error(tmp_path / "file").startswith(f"{tmp_path / 'file'}: kind: 'cache', expected recording\n")

    def test_a_recording_without_facts(self, tmp_path: Path) -> None:
        seal(tmp_path / "file", kind=SealedKind.RECORDING, identity=Identity(values={}), tensors={}, scalars={})

        assert error(tmp_path / "file") == (
            f"{tmp_path / 'file'}: facts: not what this evseq writes: KeyError: 'facts'\n"
            "  help: record the run again, or judge it with the evseq that recorded it"
        )

    def test_facts_of_another_form(self, file: Path) -> None:
        rewritten(file, cases="none")

        assert error(file).startswith(f"{file}: facts: not what this evseq writes: ")

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            (lambda case: case["fed"][0].update(step=99), "ValueError: case 0: fed: step 99 of 2"),
            (lambda case: case["fed"][0].update(step=-1), "ValueError: case 0: fed: step -1 of 2"),
            (lambda case: case["fed"][0].update(nodes=[1, 2, 2]), "case 0: fed: not what step 1 feeds"),
            (lambda case: case["fed"][0].update(rows=["a"]), "case 0: fed: not what step 1 feeds"),
            (lambda case: case["fed"].append(dict(case["fed"][0])), "KeyError: 'case.0.fed.1'"),
            (lambda case: case["probed"][0].update(group=7), "case 0: probed: not what step 1 must read"),
            (lambda case: case["failures"].append({"step": 5, "session": "x", "error": "y"}), "failures: step 5 of 2"),
            (lambda case: case.update(seconds="long"), "ValidationError: "),
            (lambda case: case.update(peak_cache_bytes=1 << 70), "ValueError: a number beyond 64 bits"),
            (lambda case: case.update(shown=None), "ValidationError: "),
        ],
    )
    def test_observations_that_no_run_makes(
        self, file: Path, change: Callable[[dict[str, Any]], None], told: str
    ) -> None:
        sealed = open_sealed(file, kind=SealedKind.RECORDING)
        cases = json.loads(sealed.tensors["facts"].numpy().tobytes())["cases"]
        change(cases[0])
        rewritten(file, cases=cases)

        with pytest.raises(FactsDamaged) as raised:
            pipeline.judge(file)

        assert told in str(raised.value)
        assert str(raised.value).endswith("help: record the run again, or judge it with the evseq that recorded it")

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"caches": []}, "no cache kind"),
            ({"options": {"attention": []}}, "an option without a value"),
            ({"dtypes": ["float32"]}, "cannot run in the dtype that decides"),
            ({"pool": {"block": 0, "blocks": 4}}, "an empty pool"),
        ],
    )
    def test_a_description_of_no_engine(self, file: Path, change: dict[str, object], told: str) -> None:
        sealed = open_sealed(file, kind=SealedKind.RECORDING)
        description = json.loads(sealed.tensors["facts"].numpy().tobytes())["description"]
        rewritten(file, description={**description, **change})

        assert error(file).startswith(f"{file}: facts: not what this evseq writes: ValueError: description: {told}\n")

    def test_logits_of_another_vocabulary(self, file: Path) -> None:
        sealed = open_sealed(file, kind=SealedKind.RECORDING)
        tensors = {name: tensor.clone() for name, tensor in sealed.tensors.items()}
        tensors["case.0.fed.0"] = torch.zeros(3, 65, dtype=torch.float64)
        seal(file, kind=SealedKind.RECORDING, identity=sealed.identity, tensors=tensors, scalars=sealed.scalars)

        assert "fed: torch.float64 (3, 65), expected floats (3, 64)" in error(file)

    def test_a_golden_elsewhere_is_not_looked_for(self, file: Path) -> None:
        golden = {"model": "..", "revision": "../..", "identity": {"weights.source": "ab"}, "required": True}
        rewritten(file, golden=golden)

        with pytest.raises(NameRefused, match=r"model '\.\.': is no name of a folder"):
            pipeline.judge(file, goldens=Terms(root=file.parent))

    def test_a_script_that_is_planned_otherwise_by_now(self, file: Path) -> None:
        rewritten(file, script="evseq: 1\nname: case\nabout: A test.\nrows: {a: [1, 2]}\nevents: [{prefill: [a]}]\n")

        assert error(file) == (
            f"{file}: plans: this evseq, or a text beside the script, gives the script other steps than were recorded\n"
            "  help: record the run again"
        )

    def test_a_text_beside_the_script_that_is_gone(self, tmp_path: Path) -> None:
        (tmp_path / "row.txt").write_text("the fox")
        text = "rows: {a: {file: row.txt}}\nevents: [{prefill: [a]}]\n"
        played(script(text, file=str(tmp_path / "case.evseq.yaml")), "reference:full", record=tmp_path / "kept")

        (tmp_path / "row.txt").unlink()

        assert "row.txt" in error(kept(tmp_path / "kept"))


def error(file: Path) -> str:
    """Return what judging a file raises."""
    with pytest.raises(CacheError) as raised:
        pipeline.judge(file)
    return str(raised.value)


def rewritten(file: Path, **changed: Any) -> None:
    """Write a recording again with other facts, under a seal that fits."""
    sealed = open_sealed(file, kind=SealedKind.RECORDING)
    facts = {**json.loads(sealed.tensors["facts"].numpy().tobytes()), **changed}
    text = torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8)
    tensors = {name: tensor.clone() for name, tensor in sealed.tensors.items()}
    seal(
        file,
        kind=SealedKind.RECORDING,
        identity=sealed.identity,
        tensors={**tensors, "facts": text},
        scalars=sealed.scalars,
    )
