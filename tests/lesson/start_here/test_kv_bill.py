"""The KV bill: what the published checkpoints and the engine say, and wrong bills by the idea behind them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from minivllm.engine.runner import kv_bytes_per_token
from minivllm.kv_bill import GPUS, MODELS, ModelShape
from minivllm.lesson.outcome import ______
from minivllm.lesson.start_here.check_kv_bytes import check_kv_bytes_per_token
from minivllm.lesson.start_here.first_run import tiny_engine
from minivllm.model.config import LlamaConfig
from tests.lesson.start_here.notebook import defined


@pytest.mark.parametrize(
    ("model", "weight_bytes", "kv_bytes"),
    [
        ("Llama-3-8B", 16_060_522_496, 131_072),
        ("Llama-3.1-70B", 141_107_412_992, 327_680),
        ("Qwen2.5-7B", 15_231_233_024, 57_344),
        ("SmolLM2-135M", 269_030_016, 23_040),
    ],
)
def test_weights_and_tokens_cost_what_the_published_checkpoints_say(
    model: str, weight_bytes: int, kv_bytes: int
) -> None:
    assert (MODELS[model].weight_bytes, MODELS[model].kv_bytes_per_token()) == (weight_bytes, kv_bytes)


def llama_config(shape: ModelShape) -> LlamaConfig:
    return LlamaConfig(
        shape.vocab_size, shape.hidden_size, shape.intermediate_size, shape.num_hidden_layers,
        shape.num_attention_heads, shape.num_key_value_heads, shape.head_dim, shape.max_position_embeddings,
        1e-5, 10000.0, shape.tie_word_embeddings,
    )  # fmt: skip


@pytest.mark.parametrize("model", [name for name, shape in MODELS.items() if not shape.attention_bias])
def test_the_bill_is_the_engines(model: str) -> None:
    shape, config = MODELS[model], llama_config(MODELS[model])
    assert shape.kv_bytes_per_token() == kv_bytes_per_token(config, torch.bfloat16)
    assert shape.kv_bytes_per_token("float32") == kv_bytes_per_token(config, torch.float32)
    sizes = (torch.Size(size).numel() for size in config.weight_shapes().values())
    assert shape.num_parameters == sum(sizes)


def test_an_engines_pool_is_as_large_as_the_bill_says() -> None:
    engine = tiny_engine(blocks=9, block_size=4)
    config = engine.runner.model.config
    assert sum(cache.nbytes for cache in engine.runner.kv_caches) == 10 * 4 * kv_bytes_per_token(config, torch.float32)


def test_what_fits_beside_the_weights() -> None:
    assert [MODELS["Llama-3-8B"].tokens_that_fit(size) for size in GPUS.values()] == [74075, 205147, 532827, 953212]
    assert [MODELS["Llama-3.1-70B"].tokens_that_fit(size) for size in GPUS.values()] == [0, 0, 0, 0]


WRONG_BILLS: list[tuple[str, Callable[..., Any], str]] = [
    ("hard-coded", lambda layers, heads, dim, size: 131072, "this is Llama-3-8B's number"),
    ("no value", lambda layers, heads, dim, size: layers * heads * dim * size, "a token stores a key and a value"),
    ("elements", lambda layers, heads, dim, size: 2 * layers * heads * dim, "this counts elements"),
    ("one layer", lambda layers, heads, dim, size: 2 * heads * dim * size, "every layer keeps keys and values"),
    ("one head", lambda layers, heads, dim, size: 2 * layers * dim * size, "this is one KV head"),
    ("bits", lambda layers, heads, dim, size: 16 * layers * heads * dim * size, "these are bits"),
    ("KiB", lambda layers, heads, dim, size: 2 * layers * heads * dim * size / 1024, "these are KiB: return bytes"),
    ("float", lambda layers, heads, dim, size: 2.0 * layers * heads * dim * size, "it is a float"),
    ("nothing", lambda layers, heads, dim, size: None, "it returns a whole number of bytes"),
    ("text", lambda layers, heads, dim, size: "128 KiB", "it returns a whole number of bytes"),
    ("raises", lambda layers, heads, dim, size: 1 / 0, "ZeroDivisionError: division by zero"),
    ("takes too few", lambda layers: 1, "TypeError"),
    ("blank", lambda layers, heads, dim, size: ______, "the blank ______ is not filled in"),
    ("blank used", lambda layers, heads, dim, size: layers * ______, "the blank ______ is not filled in"),
]


@pytest.mark.parametrize(("function", "told"), [w[1:] for w in WRONG_BILLS], ids=[w[0] for w in WRONG_BILLS])
def test_a_wrong_bill_is_told_by_the_idea_behind_it(
    function: Callable[..., Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_kv_bytes_per_token(function)
    assert told in capsys.readouterr().out


def test_the_answer_passes_and_says_128_kib(capsys: pytest.CaptureFixture[str]) -> None:
    check_kv_bytes_per_token(defined("def kv_bytes_per_token"))
    assert capsys.readouterr().out == (
        "kv_bytes_per_token: ok, 4 models; Llama-3-8B in bfloat16 takes 131,072 bytes, 128 KiB a token\n"
    )
