"""SmolLM2-135M: thirty prompts of different kinds, cached against uncached, in the deciding arm."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from evseq.engines.protocol import Batch
from evseq.engines.transformers import FolderLoader
from evseq.engines.transformers.engine import TransformersEngine
from evseq.geometry import Dtype, Layout
from evseq.history import Path as History

PROMPTS = (
    "The old lighthouse keeper walked down to the shore, and the sea was quiet that evening.",
    "Dear Sir or Madam, I am writing to complain about the delivery of my order.",
    "To be, or not to be, that is the question: whether 'tis nobler in the mind to suffer",
    "Q: What is the capital of France?\nA: Paris.\nQ: And of Italy?\nA:",
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n",
    '#include <stdio.h>\nint main(void) { printf("%d\\n", 42); return 0; }',
    "SELECT name, count(*) FROM users GROUP BY name HAVING count(*) > 3;",
    "<html><body><p class='a'>Hello</p></body></html>",
    '{"key": [1, 2, {"a": null}], "b": true, "c": "d"}',
    "E = mc^2 and \\int_0^1 x^2 dx = \\frac{1}{3}",
    "3.14159265358979323846264338327950288419716939937510",
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14",
    "0000000000000000000000000000",
    "la la la la la la la la la la la la la la la la",
    "The the the the the the the the the the the the",
    "!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!",
    "     \n\n\n\t\t  \n \n  \t \n\n    \n",
    "日本語の文章をここに書きます。今日は天気がいいですね。",
    "Привет, как дела? Сегодня хорошая погода.",
    "مرحبا بالعالم كيف حالك اليوم يا صديقي",
    "Ένα δύο τρία τέσσερα πέντε έξι",
    "हिन्दी में एक वाक्य लिखा है",
    "한국어 문장을 하나 씁니다",
    "Zażółć gęślą jaźń, příliš žluťoučký kůň",
    "😀😁😂🤣😃😄😅🙃🙂😉",
    "!?.,;:-_+=()[]{}<>/\\|@#$%^&*~`'\"!?.,;:",
    "ACGTACGTTAGCCGATAGCTAGCTAGGATCACGTTT",
    "THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG AGAIN",
    "supercalifragilisticexpialidocious antidisestablishmentarianism floccinaucinihilipilification",
)


@pytest.fixture(scope="module")
def smollm2(real_model: Path) -> TransformersEngine:
    return FolderLoader(folder=real_model).load(Dtype.FLOAT64, {})


def one_row(ids: tuple[int, ...], start: int, stop: int) -> Batch:
    tokens = torch.tensor([ids[start:stop]])
    return Batch(tokens=tokens, mask=tokens >= 0, positions=torch.arange(start, stop)[None])


@pytest.mark.real
@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_cached_step_equals_the_uncached_forward(smollm2: TransformersEngine, prompt: str) -> None:
    ids = smollm2.tokenize(prompt)[:16]
    session = smollm2.open(Layout(rows=1, capacity=16, depth=0, cache="dynamic"))
    steps = [session.prefill(one_row(ids, 0, len(ids) - 3))]
    steps += [session.append(one_row(ids, place, place + 1)) for place in range(len(ids) - 3, len(ids))]
    expected = smollm2.uncached(History(tokens=ids, positions=tuple(range(len(ids)))))
    assert (torch.cat(steps, dim=1)[0] - expected).abs().max() <= 1e-11
