"""Logits against transformers', on tiny random models of every shape."""

from pathlib import Path

import pytest
import torch
from gguf import GGMLQuantizationType

from minivllm.model.config import LlamaConfig
from minivllm.model.errors import ModelError
from minivllm.model.llama import LlamaForCausalLM
from minivllm.model.weights import open_checkpoint
from tests.model.reference import reference_logits, transformers_llama
from tests.model.tiny import SHAPES, TINY, Batch, build, logits_of, random_weights, write_gguf, write_safetensors

TOLERANCE = 1e-4


def tokens(count: int, seed: int = 0) -> list[int]:
    ids: list[int] = torch.randint(0, TINY.vocab_size, (count,), generator=torch.Generator().manual_seed(seed)).tolist()
    return ids


@pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)
def test_logits_equal_transformers(config: LlamaConfig) -> None:
    weights = random_weights(config)
    expected = reference_logits(transformers_llama(config, weights), tokens(50))
    assert expected.abs().max() > 1
    assert (logits_of(build(config, weights), tokens(50)) - expected).abs().max() <= TOLERANCE


@pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)
def test_what_transformers_saves_gives_the_same_logits(config: LlamaConfig, tmp_path: Path) -> None:
    reference = transformers_llama(config, random_weights(config))
    reference.save_pretrained(tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.config == config
    model = build(checkpoint.config, checkpoint.weights())
    assert (logits_of(model, tokens(30)) - reference_logits(reference, tokens(30))).abs().max() <= TOLERANCE


@pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)
def test_a_gguf_file_gives_the_same_model_as_safetensors(config: LlamaConfig, tmp_path: Path) -> None:
    weights = random_weights(config)
    folder = open_checkpoint(write_safetensors(tmp_path / "folder", config, weights))
    file = open_checkpoint(write_gguf(tmp_path / "model.gguf", config, weights))
    assert all(torch.equal(weight, weights[name]) for name, weight in folder.weights())
    assert all(torch.equal(weight, weights[name]) for name, weight in file.weights())
    assert file.config.tie_word_embeddings == config.tie_word_embeddings
    assert torch.equal(
        logits_of(build(folder.config, folder.weights()), tokens(20)),
        logits_of(build(config, file.weights()), tokens(20)),
    )


@pytest.mark.parametrize("kind", [GGMLQuantizationType.Q8_0, GGMLQuantizationType.Q4_1, GGMLQuantizationType.Q4_0])
def test_logits_of_quantized_weights_equal_transformers_on_the_same(kind: GGMLQuantizationType, tmp_path: Path) -> None:
    config = SHAPES["gqa-untied"]
    checkpoint = open_checkpoint(write_gguf(tmp_path / "model.gguf", config, random_weights(config), kind))
    expected = reference_logits(transformers_llama(config, dict(checkpoint.weights())), tokens(20))
    assert (logits_of(build(config, checkpoint.weights()), tokens(20)) - expected).abs().max() <= TOLERANCE


def test_chunks_decodes_and_other_requests_do_not_change_the_logits() -> None:
    weights = random_weights(TINY)
    reference = transformers_llama(TINY, weights)
    sequences = [tokens(37, seed=1), tokens(9, seed=2), tokens(20, seed=3)]
    batch = Batch(build(TINY, weights), sequences)
    steps = [[5, 1, 0], [11, 1, 12], [1, 4, 1], [17, 3, 6], [1, 0, 1], [1, 0, 0], [1, 0, 0]]
    assert [sum(column) for column in zip(*steps, strict=True)] == [37, 9, 20]
    parts = zip(*(batch.step(counts) for counts in steps), strict=True)
    for sequence, logits in zip(sequences, parts, strict=True):
        assert (torch.cat(logits) - reference_logits(reference, sequence)).abs().max() <= TOLERANCE


def test_positions_up_to_the_last_are_rotated_right() -> None:
    weights = random_weights(TINY)
    ids = tokens(TINY.max_position_embeddings)
    expected = reference_logits(transformers_llama(TINY, weights), ids)
    assert (logits_of(build(TINY, weights), ids) - expected).abs().max() <= TOLERANCE


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_near_float32(dtype: torch.dtype) -> None:
    weights = random_weights(TINY)
    exact = logits_of(build(TINY, weights), tokens(20))
    model = build(TINY, weights, dtype)
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    half = logits_of(model, tokens(20), dtype)
    assert half.dtype == dtype
    assert (half.float() - exact).abs().max() < exact.abs().max() * 20 * torch.finfo(dtype).eps


def test_a_tied_head_takes_no_memory_of_its_own() -> None:
    names = {name for name, _ in build(TINY, random_weights(TINY)).named_parameters()}
    assert "lm_head.weight" not in names


def test_nothing_the_model_returns_asks_for_gradients() -> None:
    logits = logits_of(build(TINY, random_weights(TINY)), tokens(3))
    assert logits.is_inference()
    assert not logits.requires_grad


def test_a_weight_that_was_not_given_is_named() -> None:
    weights = random_weights(TINY)
    del weights["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(ModelError, match=r"model\.layers\.1\.mlp\.up_proj\.weight"):
        LlamaForCausalLM(TINY, torch.float32, torch.device("cpu")).load_weights(weights.items())


def test_building_a_model_leaves_the_default_dtype_alone() -> None:
    LlamaForCausalLM(TINY, torch.float16, torch.device("cpu"))
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("place", [0, 17, -1])
def test_a_weight_that_is_no_finite_number_is_refused_by_name(value: float, place: int, dtype: torch.dtype) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    weights = random_weights(TINY)
    weights[name].view(-1)[place] = value
    with pytest.raises(ModelError, match=rf"'{name}' holds NaN or infinity as {dtype}: get the whole model again"):
        build(TINY, weights, dtype)


def test_a_weight_that_only_a_wider_dtype_can_hold_is_refused() -> None:
    weights = random_weights(TINY)
    weights["model.norm.weight"][3] = 1e5
    build(TINY, weights)
    with pytest.raises(ModelError, match=r"'model.norm.weight' holds NaN or infinity as torch.float16"):
        build(TINY, weights, torch.float16)
