"""Correctness and speed of the kernels on one NVIDIA GPU, in one run of minutes.

    python benchmarks/gpu.py --output benchmarks/results/gpu.json
    TRITON_INTERPRET=1 python benchmarks/gpu.py --dry-run      no GPU: tiny shapes, no number means anything

It needs torch, numpy and triton, and no weights.

The first part holds every kernel against float64 on a CPU, in fp16 and bf16. The second gives medians of
triton.testing.do_bench, which empties the L2 cache between runs; inputs rotate as well where they would fit in it.
Bandwidths are bytes that have to move, once each, as a share of what a plain copy reaches on the same card.

Targets: decode attention at least 80 % of copy bandwidth (batch 64, context 8192), prefill at least 50 % of torch's
attention, cache_write at least 80 % of copy bandwidth. The script exits with 1 if a kernel is wrong, not if it is slow;
an engine that fails ends it with a traceback, after the kernels' results have been written.
"""

import argparse
import itertools
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]  # works from a checkout where nothing is installed

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import triton  # noqa: E402

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig  # noqa: E402
from minivllm.engine.llm_engine import LLMEngine  # noqa: E402
from minivllm.kernels import Kernels, kernels_for  # noqa: E402
from minivllm.kernels.split_kv import should_split  # noqa: E402
from minivllm.model.config import LlamaConfig  # noqa: E402
from minivllm.model.llama import LlamaForCausalLM  # noqa: E402
from minivllm.request import SamplingParams  # noqa: E402
from tests.kernels import laws  # noqa: E402
from tests.kernels.cases import CASES, DECODE_CASES, TOLERANCE, AttentionCase, build, largest_error  # noqa: E402

Row = dict[str, Any]
BLOCK_SIZE = 16

GPU_CASES = [
    AttentionCase("8B Llama, mix", ((1, 700), (5, 330), (150, 150)), num_heads=32, num_kv_heads=8, head_size=128),
    AttentionCase("3B Llama, mix", ((1, 700), (130, 200)), num_heads=24, num_kv_heads=8, head_size=128),
    AttentionCase("SmolLM2, mix", ((1, 700), (1, 64), (5, 330), (150, 150)), num_heads=9, num_kv_heads=3),
    AttentionCase("long window", ((1, 700), (200, 600)), num_heads=8, num_kv_heads=2, sliding_window=256),
]
"""Longer than what the interpreter can do, so that every tile has whole and masked parts."""


@dataclass(frozen=True)
class Bench:
    device: torch.device
    kernels: Kernels
    dry: bool

    def size(self, real: int, dry: int) -> int:
        return dry if self.dry else real

    def median_ms(self, calls: list[Callable[[], object]]) -> float:
        """Median milliseconds of a call; `calls` do the same on different memory and take turns."""
        turns = itertools.cycle(calls)
        if self.dry:
            start = time.perf_counter()
            next(turns)()
            return (time.perf_counter() - start) * 1e3
        return float(triton.testing.do_bench(lambda: next(turns)(), warmup=50, rep=200, return_mode="median"))

    def randn(self, *shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.randn(*shape, device=self.device, dtype=dtype)


# --- correctness -----------------------------------------------------------------------------------------------------


def attention_error(bench: Bench, kernel: Callable[..., None], case: AttentionCase) -> Row:
    batch = build(case).to(bench.device)
    kernel(**batch.arguments())
    error = largest_error(batch)
    padding_untouched = bool(batch.out[case.num_tokens :].isnan().all())
    return {
        "kernel": kernel.__name__,
        "case": case.name,
        "dtype": str(case.dtype),
        "max_error": None if math.isnan(error) else error,
        "tolerance": TOLERANCE[case.dtype],
        "ok": error <= TOLERANCE[case.dtype] and padding_untouched,
    }


def through(device: torch.device, kernel: Callable[..., None]) -> Callable[..., None]:
    """`kernel` for tensors on a CPU: they go to `device` with their strides, and come back changed."""

    def call(*arguments: Any) -> None:
        there = [
            torch.empty_strided(a.size(), a.stride(), dtype=a.dtype, device=device).copy_(a)
            if isinstance(a, torch.Tensor)
            else a
            for a in arguments
        ]
        kernel(*there)
        for here, changed in zip(arguments, there, strict=True):
            if isinstance(here, torch.Tensor):
                here.copy_(changed)

    return call


def law(bench: Bench, check: Callable[..., None], *arguments: Any) -> Row:
    """One of the laws that the tests hold the other kernels to, on this device."""
    names = [field.name for field in fields(Kernels) if field.name != "backend"]
    moving: dict[str, Any] = {name: through(bench.device, getattr(bench.kernels, name)) for name in names}
    kernels = replace(bench.kernels, **moving)
    row: Row = {"kernel": check.__name__, "case": str(arguments[:-1]), "dtype": str(arguments[-1]), "ok": True}
    try:
        check(kernels, *arguments)
    except AssertionError as error:
        row |= {"ok": False, "error": str(error)}
    return row


def correctness(bench: Bench) -> list[Row]:
    rows = []
    dtypes = [torch.float16] if bench.dry else [torch.float16, torch.bfloat16]  # the interpreter's bf16 is wrong
    cases = CASES[:3] if bench.dry else CASES + GPU_CASES
    for dtype in dtypes:
        rows += [attention_error(bench, bench.kernels.paged_attention, replace(case, dtype=dtype)) for case in cases]
        split_cases = DECODE_CASES[:1] if bench.dry else DECODE_CASES
        rows += [
            attention_error(bench, bench.kernels.split_kv_attention, replace(case, dtype=dtype)) for case in split_cases
        ]
        for num_kv_heads, head_size, block_size in ((3, 64, 16), (8, 128, 32)):
            rows.append(law(bench, laws.cache_write, num_kv_heads, head_size, block_size, dtype))
        for hidden_size in (576, 4096):
            rows.append(law(bench, laws.rms_norm, 5, hidden_size, dtype))
            rows.append(law(bench, laws.fused_add_rms_norm, 5, hidden_size, dtype))
        for num_heads, num_kv_heads, head_size in ((9, 3, 64), (32, 8, 128)):
            rows.append(law(bench, laws.rotary, num_heads, num_kv_heads, head_size, dtype))
        rows.append(law(bench, laws.silu_and_mul, 5, 1536, dtype))
    if not bench.dry:  # exact products, whatever the card's tensor cores would do to fp32
        rows += [attention_error(bench, bench.kernels.paged_attention, case) for case in GPU_CASES]
    return rows


def same_bits(bench: Bench) -> Row:
    """Whether a decode's bits depend on who else is in the batch: walked, they should not; split, they may."""
    seqs = tuple((1, length) for length in (700, 33, 512, 90))
    case = AttentionCase("decodes", seqs, num_heads=9, num_kv_heads=3, dtype=torch.float16)
    batch = build(replace(case, seqs=seqs[:2]) if bench.dry else case).to(bench.device)
    arguments = batch.arguments()
    bench.kernels.paged_attention(**arguments)
    walked = batch.out.clone()
    alone = torch.full_like(walked[:1], float("nan"))
    arguments |= {
        "out": alone,
        "query": batch.query[:1],
        "block_table": batch.block_table[:1],
        "seq_lens": batch.seq_lens[:1],
        "query_start_loc": batch.query_start_loc[:2],
    }
    bench.kernels.paged_attention(**arguments)
    split = torch.full_like(alone, float("nan"))
    bench.kernels.split_kv_attention(**{**arguments, "out": split})
    return {
        "alone_equals_in_batch": torch.equal(alone[0], walked[0]),
        "split_equals_walked": torch.equal(split[0], walked[0]),
    }


# --- speed -----------------------------------------------------------------------------------------------------------


def copy_bandwidth(bench: Bench) -> float:
    """GB/s that torch's copy reaches, read and written bytes together."""
    num_bytes = bench.size(1 << 30, 1 << 16)
    source = torch.zeros(num_bytes, dtype=torch.uint8, device=bench.device)
    target = torch.empty_like(source)

    def copy() -> None:
        target.copy_(source)

    return 2 * num_bytes / bench.median_ms([copy]) / 1e6


@dataclass(frozen=True)
class Shape:
    name: str
    num_heads: int
    num_kv_heads: int
    head_size: int
    dtype: torch.dtype = torch.bfloat16


def paged_arguments(bench: Bench, shape: Shape, lens: list[tuple[int, int]]) -> dict[str, Any]:
    """Attention arguments for sequences of (new tokens, tokens in all) whose blocks lie all over the pool."""
    num_tokens = sum(query_len for query_len, _ in lens)
    columns = max(-(-seq_len // BLOCK_SIZE) for _, seq_len in lens)
    num_blocks = columns * len(lens)
    query = bench.randn(num_tokens, shape.num_heads, shape.head_size, dtype=shape.dtype)
    starts = torch.tensor([0, *(query_len for query_len, _ in lens)]).cumsum(0)
    return {
        "out": torch.empty_like(query),
        "query": query,
        "kv_cache": bench.randn(num_blocks, BLOCK_SIZE, shape.num_kv_heads, 2 * shape.head_size, dtype=shape.dtype),
        "block_table": torch.randperm(num_blocks, device=bench.device).view(len(lens), columns).to(torch.int32),
        "seq_lens": torch.tensor([seq_len for _, seq_len in lens], dtype=torch.int32, device=bench.device),
        "query_start_loc": starts.to(torch.int32).to(bench.device),
        "scale": shape.head_size**-0.5,
        "max_query_len": max(query_len for query_len, _ in lens),
    }


def rotated(
    bench: Bench, kernel: Callable[..., None], make: Callable[[], dict[str, Any]]
) -> list[Callable[[], object]]:
    """Calls on enough sets of inputs, up to eight, that no L2 holds them all (256 MB)."""
    first = make()
    num_bytes = sum(value.nbytes for value in first.values() if isinstance(value, torch.Tensor))
    sets = [first, *(make() for _ in range(0 if bench.dry else min(7, (256 << 20) // num_bytes)))]
    return [partial(kernel, **arguments) for arguments in sets]


def decode_attention(bench: Bench, copy_gbs: float) -> list[Row]:
    llama, smol = Shape("8B Llama", 32, 8, 128), Shape("SmolLM2-135M", 9, 3, 64)
    cases = [
        (llama, 64, 8192, 0.8),
        (llama, 8, 8192, None),
        (llama, 1, 32768, None),
        (smol, 64, 2048, None),
        (smol, 1, 2048, None),
    ]
    rows = []
    for shape, batch, context, target in cases[-1:] if bench.dry else cases:
        context = bench.size(context, 40)
        lens = [(1, context)] * bench.size(batch, 2)
        calls = rotated(bench, bench.kernels.paged_attention, partial(paged_arguments, bench, shape, lens))
        # Keys and values once, queries and outputs once.
        element = shape.dtype.itemsize
        kv_bytes = len(lens) * context * shape.num_kv_heads * 2 * shape.head_size * element
        num_bytes = kv_bytes + len(lens) * 2 * shape.num_heads * shape.head_size * element
        ms = bench.median_ms(calls)
        row: Row = {
            "what": "decode attention",
            "shape": f"{shape.name}, batch {batch}, context {context}",
            "ms": ms,
            "gb_s": num_bytes / ms / 1e6,
            "share": num_bytes / ms / 1e6 / copy_gbs,
            "target": target,
        }
        rows.append(row)
        if bench.dry or should_split(batch, shape.num_kv_heads, 1, multiprocessors(bench)):
            calls = rotated(bench, bench.kernels.split_kv_attention, partial(paged_arguments, bench, shape, lens))
            ms = bench.median_ms(calls)
            gb_s = num_bytes / ms / 1e6
            rows.append(row | {"what": "decode, split KV", "ms": ms, "gb_s": gb_s, "share": gb_s / copy_gbs})
    return rows


def multiprocessors(bench: Bench) -> int:
    return torch.cuda.get_device_properties(bench.device).multi_processor_count


def prefill_attention(bench: Bench) -> list[Row]:
    llama, smol = Shape("8B Llama", 32, 8, 128), Shape("SmolLM2-135M", 9, 3, 64)
    cases = [
        (llama, 1, 8192, 0.5),
        (llama, 4, 2048, 0.5),
        (llama, 16, 512, 0.5),
        (smol, 8, 2048, None),
    ]
    rows = []
    for shape, batch, length, target in cases[-1:] if bench.dry else cases:
        length = bench.size(length, 20)
        lens = [(length, length)] * bench.size(batch, 2)
        calls = rotated(bench, bench.kernels.paged_attention, partial(paged_arguments, bench, shape, lens))
        flop = len(lens) * shape.num_heads * 4 * shape.head_size * length * (length + 1) / 2  # visible scores alone
        ms = bench.median_ms(calls)
        query = bench.randn(len(lens), shape.num_heads, length, shape.head_size, dtype=shape.dtype)
        key, value = (
            bench.randn(len(lens), shape.num_kv_heads, length, shape.head_size, dtype=shape.dtype) for _ in range(2)
        )
        sdpa_ms = bench.median_ms(
            [partial(F.scaled_dot_product_attention, query, key, value, is_causal=True, enable_gqa=True)]
        )
        rows.append(
            {
                "what": "prefill attention",
                "shape": f"{shape.name}, {batch} x {length} tokens",
                "ms": ms,
                "tflop_s": flop / ms / 1e9,
                "sdpa_tflop_s": flop / sdpa_ms / 1e9,
                "share": sdpa_ms / ms,
                "target": target,
            }
        )
    return rows


def memory_bound(bench: Bench, copy_gbs: float) -> list[Row]:
    """The kernels that move memory and compute next to nothing."""
    tokens = bench.size(16384, 4)
    hidden, width, heads, kv_heads, head_size = 4096, 14336, 32, 8, 128
    kernels, dtype = bench.kernels, torch.bfloat16
    weight = bench.randn(hidden, dtype=dtype)
    cos_sin = torch.randn(bench.size(16384, 64), head_size, device=bench.device)

    def cache_write() -> dict[str, Any]:
        num_blocks = -(-tokens // BLOCK_SIZE) + 1
        blocks = torch.randperm(num_blocks, device=bench.device)[: -(-tokens // BLOCK_SIZE)]
        slots = (blocks[:, None] * BLOCK_SIZE + torch.arange(BLOCK_SIZE, device=bench.device)).flatten()[:tokens]
        return {
            "key": bench.randn(tokens, kv_heads, head_size, dtype=dtype),
            "value": bench.randn(tokens, kv_heads, head_size, dtype=dtype),
            "kv_cache": bench.randn(num_blocks, BLOCK_SIZE, kv_heads, 2 * head_size, dtype=dtype),
            "slot_mapping": slots,
        }

    def rms_norm() -> dict[str, Any]:
        x = bench.randn(tokens, hidden, dtype=dtype)
        return {"out": torch.empty_like(x), "x": x, "weight": weight, "eps": 1e-5}

    def fused_add_rms_norm() -> dict[str, Any]:
        x = bench.randn(tokens, hidden, dtype=dtype)
        return {"x": x, "residual": torch.zeros_like(x), "weight": weight, "eps": 1e-5}

    def rotary_embedding() -> dict[str, Any]:
        return {
            "positions": torch.arange(tokens, device=bench.device) % len(cos_sin),
            "query": bench.randn(tokens, heads, head_size, dtype=dtype),
            "key": bench.randn(tokens, kv_heads, head_size, dtype=dtype),
            "cos_sin_cache": cos_sin,
        }

    def silu_and_mul() -> dict[str, Any]:
        out = torch.empty(tokens, width, device=bench.device, dtype=dtype)
        return {"out": out, "gate_up": bench.randn(tokens, 2 * width, dtype=dtype)}

    rows = []
    for make, kernel, elements, target in (
        (cache_write, kernels.cache_write, 4 * kv_heads * head_size, 0.8),
        (rms_norm, kernels.rms_norm, 2 * hidden, None),
        (fused_add_rms_norm, kernels.fused_add_rms_norm, 4 * hidden, None),
        (rotary_embedding, kernels.rotary_embedding, 2 * (heads + kv_heads) * head_size, None),
        (silu_and_mul, kernels.silu_and_mul, 3 * width, None),
    ):
        ms = bench.median_ms(rotated(bench, kernel, make))
        gb_s = tokens * elements * dtype.itemsize / ms / 1e6
        shape = f"8B Llama, {tokens} tokens"
        rows.append(
            {"what": make.__name__, "shape": shape, "ms": ms, "gb_s": gb_s, "share": gb_s / copy_gbs, "target": target}
        )
    return rows


# --- the engine ------------------------------------------------------------------------------------------------------


SMOLLM2 = LlamaConfig(
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    num_hidden_layers=30,
    num_attention_heads=9,
    num_key_value_heads=3,
    head_dim=64,
    max_position_embeddings=8192,
    rms_norm_eps=1e-5,
    rope_theta=1e5,
    tie_word_embeddings=True,
)


def random_llama(bench: Bench, config: LlamaConfig, dtype: torch.dtype, kernels: Kernels) -> LlamaForCausalLM:
    """Random weights, the same for every kernel backend, large enough that logits lie apart."""
    generator = torch.Generator().manual_seed(0)

    def weight(shape: tuple[int, ...]) -> torch.Tensor:
        values = torch.randn(shape, generator=generator)
        return 1 + 0.1 * values if len(shape) == 1 else values / shape[-1] ** 0.5

    model = LlamaForCausalLM(config, dtype, bench.device, kernels)
    model.load_weights((name, weight(shape)) for name, shape in config.weight_shapes().items())
    return model


def make_engine(model: LlamaForCausalLM, num_seqs: int) -> LLMEngine:
    cache = CacheConfig(BLOCK_SIZE, num_gpu_blocks=num_seqs * 16 + 1)
    scheduler = SchedulerConfig(max_num_batched_tokens=2048, max_num_seqs=num_seqs, max_model_len=256)
    return LLMEngine(model, None, EngineConfig(scheduler, cache))


def answer(engine: LLMEngine, prompts: list[list[int]], num_tokens: int) -> list[list[int]]:
    for i, prompt in enumerate(prompts):
        engine.add_request(str(i), prompt, SamplingParams(max_tokens=num_tokens, temperature=0.0))
    done: dict[str, list[int]] = {}
    while engine.has_unfinished_requests():
        done |= {out.request_id: out.outputs[0].token_ids for out in engine.step() if out.finished}
    return [done[str(i)] for i in range(len(prompts))]


def engine_throughput(bench: Bench) -> Row:
    """Tokens a second of the whole engine, eagerly: there are no CUDA graphs. Nothing above needs it."""
    small = replace(SMOLLM2, num_hidden_layers=2, vocab_size=512)
    config, dtype = (small, torch.float32) if bench.dry else (SMOLLM2, torch.float16)
    model = random_llama(bench, config, dtype, bench.kernels)
    rows = []
    for batch in (2,) if bench.dry else (1, 8, 32, 128):
        num_tokens = bench.size(64, 2)
        prompts = torch.randint(3, config.vocab_size, (2, batch, bench.size(64, 8))).tolist()
        answer(make_engine(model, batch), prompts[0], num_tokens)  # compiles what has not been compiled yet
        engine = make_engine(model, batch)
        start = time.perf_counter()
        answer(engine, prompts[1], num_tokens)  # ends with the tokens on the host, so nothing is left to wait for
        rows.append({"batch": batch, "tokens_per_second": batch * num_tokens / (time.perf_counter() - start)})
        print(f"engine, batch {batch}: {rows[-1]['tokens_per_second']:.0f} tokens/s", flush=True)
    agreement = engine_agreement(bench, replace(small, num_hidden_layers=2))
    print(f"engine against the torch backend: {agreement}", flush=True)
    return {"throughput": rows, "against_torch": agreement}


def engine_agreement(bench: Bench, config: LlamaConfig) -> str:
    """Whether Triton's engine writes the torch backend's tokens; where they part, by how much the token won."""
    num_tokens = bench.size(48, 3)
    prompts = [torch.randint(3, config.vocab_size, (length,)).tolist() for length in (1, 9, 33)[: bench.size(3, 2)]]
    twin = random_llama(bench, config, torch.float32, kernels_for(bench.device, backend="torch"))
    ours = random_llama(bench, config, torch.float32, bench.kernels)
    expected = answer(make_engine(twin, 4), prompts, num_tokens)
    actual = answer(make_engine(ours, 4), prompts, num_tokens)
    for i, (wanted, got) in enumerate(zip(expected, actual, strict=True)):
        for position, (want, have) in enumerate(zip(wanted, got, strict=True)):
            if want != have:
                engine = make_engine(twin, 1)
                engine.add_request("gap", prompts[i] + wanted[:position], SamplingParams(temperature=0.0, logprobs=2))
                best, second = (engine.step()[0].outputs[0].logprobs or [])[0].top.values()
                return f"prompt {i} parts at token {position}, which won by {best - second:.5f}"
    return f"{len(prompts)} prompts x {num_tokens} tokens equal"


# --- the run ---------------------------------------------------------------------------------------------------------


def print_speed(rows: list[Row]) -> None:
    print(f"\n{'':20}{'':38}{'median ms':>11}{'rate':>18}{'share':>9}{'target':>9}")
    for row in rows:
        rate = f"{row['gb_s']:.0f} GB/s" if "gb_s" in row else f"{row['tflop_s']:.0f} TFLOP/s"
        target = "-" if row["target"] is None else f"{row['target']:.0%}"
        missed = "  below target" if row["target"] is not None and row["share"] < row["target"] else ""
        print(f"{row['what']:20}{row['shape']:38}{row['ms']:11.3f}{rate:>18}{row['share']:9.1%}{target:>9}{missed}")


def write(output: Path | None, result: Row) -> None:
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(result, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Correctness and speed of the kernels on one NVIDIA GPU.")
    parser.add_argument("--output", type=Path, help="write the results as JSON")
    parser.add_argument("--dry-run", action="store_true", help="tiny shapes in Triton's interpreter, on a CPU")
    options = parser.parse_args()
    if options.dry_run and os.environ.get("TRITON_INTERPRET") != "1":
        parser.error("--dry-run needs TRITON_INTERPRET=1 in the environment")
    if not options.dry_run and not torch.cuda.is_available():
        parser.error("torch sees no CUDA device: run this on a machine with one, or add --dry-run")

    start = time.perf_counter()
    torch.manual_seed(0)
    device = torch.device("cpu" if options.dry_run else "cuda:0")
    bench = Bench(device, kernels_for(device, backend="triton"), options.dry_run)
    machine = "none (dry run)" if bench.dry else torch.cuda.get_device_name(device)
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, triton {triton.__version__}"
    print(f"{machine}; {versions}", flush=True)

    checked = correctness(bench)
    wrong = [row for row in checked if not row["ok"]]
    for row in wrong:
        print(f"WRONG: {row}")
    bits = same_bits(bench)
    print(f"correctness: {len(checked) - len(wrong)} of {len(checked)} within tolerance; {bits}", flush=True)

    copy_gbs = copy_bandwidth(bench)
    print(f"copy bandwidth: {copy_gbs:.0f} GB/s", flush=True)
    speed = [*decode_attention(bench, copy_gbs), *prefill_attention(bench), *memory_bound(bench, copy_gbs)]
    if not bench.dry:
        print_speed(speed)
    result: Row = {
        "machine": machine,
        "versions": versions,
        "date": time.strftime("%Y-%m-%d"),
        "dry_run": bench.dry,
        "correctness": checked,
        "bits": bits,
        "copy_gb_s": copy_gbs,
        "speed": speed,
        "engine": "did not finish",
        "seconds": time.perf_counter() - start,
    }
    write(options.output, result)  # an engine that fails takes none of the above with it
    result |= {"engine": engine_throughput(bench), "seconds": time.perf_counter() - start}
    write(options.output, result)
    print(f"{result['seconds']:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
