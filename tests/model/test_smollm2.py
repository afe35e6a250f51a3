"""The real SmolLM2: logits, text, range of activations."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from minivllm.kernels import kernels_for
from minivllm.model.llama import Linear
from minivllm.model.loader import LoadedModel
from minivllm.model.weights import open_checkpoint
from tests.model.reference import reference_logits, transformers_llama
from tests.model.tiny import Batch, build, logits_of

PROMPTS = [
    "The capital of France is",
    "你好，世界。今天是2024年5月1日，天气",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    "🙂👍🏽 naïve café, 12345.678e-9, <|im_start|>user\nhi<|im_end|>\n",
]


@pytest.fixture(scope="module")
def reference(smollm2_file: Path) -> Any:
    checkpoint = open_checkpoint(smollm2_file)
    return transformers_llama(checkpoint.config, dict(checkpoint.weights()))


def chat_prompt(smollm2: LoadedModel, question: str) -> list[int]:
    text = smollm2.tokenizer.apply_chat_template([{"role": "user", "content": question}])
    return smollm2.tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_logits_equal_transformers_on_the_same_weights(smollm2: LoadedModel, reference: Any, prompt: str) -> None:
    ids = smollm2.tokenizer.encode(prompt)
    assert (logits_of(smollm2.model, ids) - reference_logits(reference, ids)).abs().max() <= 1e-4


def test_logits_of_a_chunked_prompt_equal_transformers(smollm2: LoadedModel, reference: Any) -> None:
    ids = chat_prompt(smollm2, "Why is the sky blue?")
    batch = Batch(smollm2.model, [ids])
    sizes = [7, 1, 16, len(ids) - 24]
    logits = torch.cat([batch.step([size])[0] for size in sizes])
    assert (logits - reference_logits(reference, ids)).abs().max() <= 1e-4


def test_decodes_of_a_batch_are_about_as_near_to_float64_as_transformers_is(
    smollm2: LoadedModel, reference: Any
) -> None:
    """Few rows are multiplied otherwise than a prompt's, and float32 itself may be 1e-4 from float64."""
    num_decodes = 20
    sequences = [(smollm2.tokenizer.encode(prompt) * 9)[:40] for prompt in PROMPTS * 2]
    prompt_lengths = [10 + i for i in range(len(sequences))]

    def decodes(model: Any) -> Tensor:
        pairs = zip(sequences, prompt_lengths, strict=True)
        return torch.stack([reference_logits(model, ids)[n : n + num_decodes] for ids, n in pairs])

    batch = Batch(smollm2.model, sequences)
    batch.step(prompt_lengths)
    ours = torch.stack([torch.cat(batch.step([1] * len(sequences))) for _ in range(num_decodes)], dim=1)
    theirs, exact = decodes(reference), decodes(copy.deepcopy(reference).double())
    error, their_error = ((logits - exact).abs().amax(-1) for logits in (ours, theirs))
    told = "from float64: median {:.1e}, max {:.1e}; transformers: {:.1e}, {:.1e}; between the two: at most {:.1e}"
    print(
        told.format(error.median(), error.max(), their_error.median(), their_error.max(), (ours - theirs).abs().max())
    )
    assert error.median() <= 1.5 * their_error.median() and error.max() <= 2 * their_error.max()


def test_it_answers_a_question(smollm2: LoadedModel) -> None:
    ids = chat_prompt(smollm2, "What is the capital of France?")
    prompt_length = len(ids)
    batch = Batch(smollm2.model, [ids + [0] * 16])
    logits = batch.step([prompt_length])[0]
    for position in range(prompt_length, prompt_length + 16):
        token = int(logits[-1].argmax())
        batch.sequences[0][position] = token
        if token in smollm2.tokenizer.eos_token_ids:
            break
        logits = batch.step([1])[0]
    answer = smollm2.tokenizer.decode(batch.sequences[0][prompt_length : position + 1])
    assert answer == "The capital of France is Paris."


def test_activations_fit_float16(smollm2: LoadedModel, smollm2_file: Path) -> None:
    """A T4 has no bfloat16: whatever a layer passes on must stay below 65504."""
    largest: dict[str, float] = {}

    def see(name: str, *tensors: Tensor) -> None:
        largest[name] = max(largest.get(name, 0.0), *(float(tensor.abs().max()) for tensor in tensors))

    torch_kernels = kernels_for("cpu")

    def fused_add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> None:
        torch_kernels.fused_add_rms_norm(x, residual, weight, eps)
        see("residual stream", residual)
        see("normed", x)

    def silu_and_mul(out: Tensor, gate_up: Tensor) -> None:
        torch_kernels.silu_and_mul(out, gate_up)
        see("silu(gate) * up", out)

    kernels = replace(torch_kernels, fused_add_rms_norm=fused_add_rms_norm, silu_and_mul=silu_and_mul)
    checkpoint = open_checkpoint(smollm2_file)
    model = build(checkpoint.config, checkpoint.weights(), kernels=kernels)
    for name, module in model.named_modules():
        if isinstance(module, Linear):
            kind = name.rpartition(".")[2]
            module.register_forward_hook(lambda _module, _inputs, out, kind=kind: see(kind, out))
    for prompt in [*PROMPTS, "Count from 1 to 60: " + ", ".join(map(str, range(1, 60))), " the" * 100]:
        see("logits", logits_of(model, smollm2.tokenizer.encode(prompt)))
    print({name: round(value, 1) for name, value in largest.items()})
    assert {"residual stream", "normed", "silu(gate) * up", "qkv_proj", "down_proj", "logits"} <= largest.keys()
    assert max(largest.values()) < torch.finfo(torch.float16).max / 2
