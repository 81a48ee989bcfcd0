"""Each form of a golden: what it compares, and that a file holds it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from evseq.cache.canonical import Scalar
from evseq.cache.damage import FieldDamaged
from evseq.cache.identity import Identity
from evseq.cache.sealed import SealedKind, open_sealed, seal
from evseq.geometry import Deciding
from evseq.golden.compact import Compact
from evseq.golden.forms import Form, Full, form_of
from evseq.golden.golden import Golden, read, write
from evseq.golden.histories import Histories
from evseq.golden.terms import FormWord
from evseq.verdict.standard import worst

ROWS = torch.tensor([[1.0, -9.0, 2.0], [4.0, 0.5, 3.0]])


def golden(form: Form) -> Golden:
    """Return a golden of one history and all that lead to it."""
    rows = len(form.scale)
    line = tuple(range(rows))
    return Golden(
        script="case",
        identity=Identity(values={"model.architecture": "tiny"}),
        histories=Histories(parents=tuple(range(-1, rows - 1)), tokens=line, positions=line, observed=line),
        logits=form,
        allowed=torch.full((rows,), 0.5),
        greedy={},
        deciding=Deciding.PURE,
        layers=30,
    )


class TestWord:
    @pytest.mark.parametrize(
        ("word", "vocab", "form"),
        [
            (FormWord.AUTO, 8191, Full),
            (FormWord.AUTO, 8192, Compact),
            (FormWord.FULL, 8192, Full),
            (FormWord.COMPACT, 8, Compact),
        ],
    )
    def test_it_chooses_the_form(self, word: FormWord, vocab: int, form: type[Form]) -> None:
        assert type(form_of(word, torch.zeros(1, vocab))) is form


class TestFull:
    def test_it_keeps_every_logit_in_float32(self) -> None:
        kept = Full.of(torch.tensor([[1.0 + 2.0**-40, 3.0]], dtype=torch.float64))

        assert (kept.logits.tolist(), kept.logits.dtype) == ([[1.0, 3.0]], torch.float32)

    def test_it_compares_every_logit_with_that_of_its_row(self) -> None:
        observed = torch.tensor([[4.0, 0.75, 3.0], [1.0, -9.0, 4.0]])

        off = worst(Full.of(ROWS).quantities([1, 0], observed, torch.tensor([0.5, 0.5])))

        assert (off.name, off.share.tolist()) == (("logit 1", "logit 2"), [0.5, 4.0])
        assert (off.actual.tolist(), off.expected.tolist()) == ([0.75, 4.0], [0.5, 2.0])

    @pytest.mark.parametrize("bad", [torch.nan, torch.inf])
    def test_it_says_whether_every_logit_is_a_number(self, bad: float) -> None:
        assert (Full.of(ROWS).finite, Full.of(torch.tensor([[0.0, bad]])).finite) == (True, False)


@pytest.mark.parametrize("form", [Full, Compact])
class TestEveryForm:
    def test_its_scale_is_the_largest_magnitude(self, form: type[Form]) -> None:
        assert form.of(ROWS).scale.tolist() == [9.0, 4.0]

    def test_it_knows_its_vocabulary_and_its_log_sum_exp(self, form: type[Form]) -> None:
        kept = form.of(ROWS)

        assert kept.vocab == 3
        assert kept.lse.tolist() == pytest.approx(ROWS.double().logsumexp(-1).tolist())

    def test_rows_can_be_taken_from_it(self, form: type[Form]) -> None:
        assert form.of(ROWS).taken([1]).at(torch.tensor([[2, 0]])).tolist() == [[3.0, 4.0]]

    def test_what_was_written_is_read(self, form: type[Form], tmp_path: Path) -> None:
        kept = form.of(ROWS)

        write(tmp_path / "golden", golden(kept))
        again = read(tmp_path / "golden").logits

        assert (type(again), again.facts()) == (form, kept.facts())
        assert {name: tensor.tolist() for name, tensor in again.tensors().items()} == {
            name: tensor.tolist() for name, tensor in kept.tensors().items()
        }


def test_a_compact_file_says_how_it_was_made() -> None:
    assert Compact.of(ROWS).facts() == {"form": "compact", "top": 3, "vocab": 3, "bucket": 64, "seed": 20_251}


def test_a_compact_file_takes_three_hundredths_of_the_full_size_at_most(tmp_path: Path) -> None:
    rows = torch.randn(100, 49_152, generator=torch.Generator().manual_seed(0))

    write(tmp_path / "golden", golden(Compact.of(rows)))

    assert (tmp_path / "golden").stat().st_size <= 0.03 * 100 * 49_152 * 4


COUNTS = {"top": 2, "vocab": 3, "bucket": 64, "seed": 1}


@pytest.mark.parametrize(
    ("form", "tensors", "facts", "told"),
    [
        (Full, {}, {"form": "sparse"}, "'sparse'"),
        (Full, {}, {"form": "compact", **COUNTS}, "'magnitude'"),
        (Full, {"logits": ROWS.double()}, {}, "logits: torch.float64 (2, 3), expected rows of float32"),
        (Full, {"logits": ROWS[:, :0]}, {}, "logits: torch.float32 (2, 0), expected rows of float32"),
        (Full, {"logits": ROWS[0]}, {}, "not enough values to unpack (expected 2, got 1)"),
        (Compact, {}, {"form": "full"}, "'logits'"),
        (Compact, {}, {"seed": True}, "seed: True, expected a count"),
        (Compact, {}, {"bucket": 2}, "sums: torch.float32 (2, 1), expected torch.float32 (2, 2)"),
        (Compact, {"ids": ROWS}, {}, "ids: torch.float32 (2, 3), expected torch.int32 (2, 3)"),
        (Compact, {"ids": torch.tensor([[0, 1, 3]] * 2).int()}, {}, "ids: not different ids below 3"),
        (Compact, {"ids": torch.tensor([[0, 1, 1]] * 2).int()}, {}, "ids: not different ids below 3"),
        (Compact, {"top": torch.tensor([[3.0, 1.0, 2.0]] * 2)}, {}, "top: not from the largest to the least"),
        (Compact, {"magnitude": torch.tensor(1.0)}, {}, "len() of a 0-d tensor"),
    ],
)
def test_what_is_not_of_its_form_is_damage(
    form: type[Form], tensors: Mapping[str, Tensor], facts: Mapping[str, Scalar], told: str, tmp_path: Path
) -> None:
    path = tmp_path / "golden"
    write(path, golden(form.of(ROWS)))
    sound = open_sealed(path, kind=SealedKind.GOLDEN)
    seal(
        path,
        kind=SealedKind.GOLDEN,
        identity=sound.identity,
        tensors={**sound.tensors, **tensors},
        scalars={**sound.scalars, **facts},
    )

    with pytest.raises(FieldDamaged) as caught:
        read(path)

    assert str(caught.value).splitlines()[0] == f"{path}: not what a golden holds: {told}"
