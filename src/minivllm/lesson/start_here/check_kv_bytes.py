"""The check of 0-start-here's `kv_bytes_per_token`: several models, and the wrong ideas behind a number."""

from __future__ import annotations

from typing import Any

from minivllm.kv_bill import DTYPE_BYTES, MODELS, ModelShape
from minivllm.lesson.common.checks import Student, Wrong, call, report

_NAME = "kv_bytes_per_token"
_CASES = (
    ("SmolLM2-135M", "float32"),
    ("Llama-3-8B", "bfloat16"),
    ("Qwen2.5-7B", "bfloat16"),
    ("Llama-3.1-70B", "fp8"),
)


def check_kv_bytes_per_token(function: Student) -> None:
    """Compare `function(num_hidden_layers, num_key_value_heads, head_dim, bytes_per_element)` with the bill."""
    report(_NAME, lambda: _compare(function))


def _compare(function: Student) -> str:
    answers = []
    for model, dtype in _CASES:
        shape, size = MODELS[model], DTYPE_BYTES[dtype]
        value = call(_NAME, function, shape.num_hidden_layers, shape.num_key_value_heads, shape.head_dim, size)
        answers.append(value)
        expected = shape.kv_bytes_per_token(dtype)
        if type(value) is not int or value != expected:
            raise Wrong(
                f"{_NAME} of {model} in {dtype}", f"{expected} bytes", value, _why(value, expected, shape, size)
            )
    return f"{len(_CASES)} models; Llama-3-8B in bfloat16 takes {answers[1]:,} bytes, {answers[1] // 1024} KiB a token"


def _why(value: Any, expected: int, shape: ModelShape, size: int) -> str:
    factors = f"{shape.num_hidden_layers} layers, {shape.num_key_value_heads} KV heads, head_dim {shape.head_dim}"
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "it returns a whole number of bytes"
    ideas: dict[float, str] = {
        MODELS["Llama-3-8B"].kv_bytes_per_token(): "this is Llama-3-8B's number: compute it from the arguments",
        expected // 2: "half of it: a token stores a key and a value",
        expected // size: "this counts elements: each takes bytes_per_element bytes",
        expected // shape.num_hidden_layers: "this is one layer: every layer keeps keys and values of its own",
        expected // shape.num_key_value_heads: "this is one KV head",
        expected // shape.head_dim: "this is one element of each head",
        8 * expected: "these are bits",
    }
    if value in ideas:
        return ideas[value]
    if value == expected:
        return f"the number is right, but it is a {type(value).__name__}: count bytes with * alone"
    if value * 1024 == expected:
        return "these are KiB: return bytes"
    return f"keys and values of {factors}, {size} bytes an element"
