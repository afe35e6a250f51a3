"""Compile every kernel for the GPUs that the course meets, without one, and look at what the compiler made of it.

    minivllm kernels --check

A kernel that needs more registers than there are spills to the stack, which lies in the GPU's main memory: it still
computes the right thing, at a fraction of the speed. One that needs more shared memory than a card has does not start.
Both are seen in the machine code, so a test can refuse them on a machine without a GPU.

It runs in a process of its own: TRITON_INTERPRET has to be unset when triton is imported, and a private cache directory
makes sure that what is looked at was compiled now.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minivllm.kernels.dispatch import TritonUnavailableError

SHARED_MEMORY_LIMIT = {75: 64, 80: 163, 89: 99, 90: 227, 100: 227}
"""KiB of shared memory that one program may have, by compute capability (CUDA programming guide)."""

BFLOAT16_FROM = 80
BLOCK_SIZE = 16
HEADS = ((64, 9, 3), (128, 24, 8), (128, 32, 8))
"""Head size, query heads, KV heads: those of SmolLM2-135M, of a 3B and of an 8B Llama."""


@dataclass(frozen=True)
class Job:
    """One kernel as a launch would compile it."""

    kernel: Any
    detail: str
    constants: dict[str, Any]
    num_warps: int = 4
    num_stages: int = 3


@dataclass(frozen=True)
class Usage:
    registers: int
    stack: int
    shared: int

    def complaints(self, capability: int) -> list[str]:
        limit = SHARED_MEMORY_LIMIT[capability] * 1024
        spills = [f"{self.stack} bytes of stack: registers spill to memory"] if self.stack else []
        return spills + ([f"shared memory over the card's {limit} bytes"] if self.shared > limit else [])


def _elementwise_jobs() -> Iterator[Job]:
    from triton import next_power_of_2

    from minivllm.kernels import cache_write, rms_norm, rotary, silu_mul

    for head_size, num_heads, num_kv_heads in HEADS:
        constants = {"NUM_KV_HEADS": num_kv_heads, "HEAD_SIZE": head_size, "BLOCK_SIZE": BLOCK_SIZE}
        constants["BLOCK_H"] = next_power_of_2(num_kv_heads)
        yield Job(cache_write.cache_write_kernel, f"D {head_size}, {num_kv_heads} heads", constants)
        constants = {"NUM_HEADS": num_heads, "NUM_KV_HEADS": num_kv_heads, "HALF": head_size // 2}
        constants["BLOCK_H"] = next_power_of_2(num_heads)
        yield Job(rotary.rotary_kernel, f"D {head_size}, {num_heads} heads", constants)
    for hidden_size, num_warps in ((576, 4), (4096, 8)):
        for add in (False, True):
            constants = {
                "HIDDEN_SIZE": hidden_size,
                "BLOCK_N": next_power_of_2(hidden_size),
                "ADD_RESIDUAL": add,
            }
            detail = f"hidden {hidden_size}{', residual' if add else ''}"
            yield Job(rms_norm.rms_norm_kernel, detail, constants, num_warps)
    yield Job(silu_mul.silu_and_mul_kernel, "width 1536", {"WIDTH": 1536, "BLOCK_N": silu_mul.BLOCK_N})


def _attention_jobs(capability: int, element_size: int) -> Iterator[Job]:
    from minivllm.kernels import checks, paged_attention, split_kv
    from minivllm.kernels.tiles import Tile, choose_tile

    for head_size, num_heads, num_kv_heads in HEADS:
        group_size = num_heads // num_kv_heads
        tiles: dict[Tile, str] = {}
        for name, max_query_len in (("decode", 1), ("verification", 5), ("prefill", 512)):
            tile = choose_tile(capability, head_size, group_size, element_size, max_query_len)
            tiles.setdefault(tile, name)
        for tile, name in tiles.items():
            constants = {
                "GROUP_SIZE": group_size,
                "HEAD_SIZE": head_size,
                "BLOCK_SIZE": BLOCK_SIZE,
                "BLOCK_M": tile.block_m,
                "TILE": tile.tile,
            }
            detail = f"D {head_size}, group {group_size}, {name}: {tile.block_m} x {tile.tile}"
            kernel = paged_attention.paged_attention_kernel
            yield Job(kernel, detail, {**constants, "SLIDING_WINDOW": 0}, tile.num_warps, tile.num_stages)
            yield Job(
                kernel, f"{detail}, window", {**constants, "SLIDING_WINDOW": 512}, tile.num_warps, tile.num_stages
            )
            if name == "decode":
                constants |= {"NUM_HEADS": num_heads, "NUM_SEGMENTS": checks.NUM_SEGMENTS, "SLIDING_WINDOW": 0}
                yield Job(split_kv.split_kv_kernel, detail, constants, tile.num_warps, tile.num_stages)
        yield Job(
            split_kv.join_segments_kernel,
            f"D {head_size}, {num_heads} heads",
            {"NUM_HEADS": num_heads, "HEAD_SIZE": head_size, "NUM_SEGMENTS": checks.NUM_SEGMENTS},
        )


def _jobs(capability: int, quick: bool) -> Iterator[Job]:
    jobs = [*_elementwise_jobs(), *_attention_jobs(capability, element_size=2)]
    if not quick:
        yield from jobs
        return
    for job in jobs:  # the largest of each kind, which are the ones that run out
        if not re.search(r"D 64|D 128, (group 3|24)|hidden 576|window", job.detail):
            yield job


def _argument_type(name: str, dtype: str) -> str:
    """The type that a launch passes for a kernel's argument of this name; the kernels keep to these names."""
    if name in ("slot_mapping_ptr", "positions_ptr"):
        return "*i64"
    if name in ("block_table_ptr", "seq_lens_ptr", "query_start_loc_ptr"):
        return "*i32"
    if name in ("cos_sin_ptr", "largest_ptr", "total_ptr", "weighted_ptr"):
        return "*fp32"
    if name.endswith("_ptr"):
        return f"*{dtype}"
    return "fp32" if name in ("eps", "scale_log2") else "i32"


def _compile(job: Job, capability: int, dtype: str) -> Usage:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = job.kernel.arg_names
    signature = {name: "constexpr" if name in job.constants else _argument_type(name, dtype) for name in names}
    # torch's allocations start at multiples of 256 bytes, and the strides of a model's tensors are multiples of 16.
    # What a step brings is cut from one buffer and lies anywhere.
    aligned = {
        (index,): [["tt.divisibility", 16]]
        for index, name in enumerate(names)
        if signature[name] not in ("constexpr", "*i32", "*i64") and (name.endswith("_ptr") or "_stride_" in name)
    }
    source = ASTSource(
        fn=job.kernel,
        signature=signature,
        constexprs={(names.index(name),): value for name, value in job.constants.items()},
        attrs=aligned,
    )
    options = {"num_warps": job.num_warps, "num_stages": job.num_stages}
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    registers, stack = _resource_usage(compiled.asm["cubin"])
    return Usage(registers, stack, compiled.metadata.shared)


def _resource_usage(cubin: bytes) -> tuple[int, int]:
    spec = find_spec("triton")
    assert spec is not None and spec.origin is not None
    cuobjdump = Path(spec.origin).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(cuobjdump), "-res-usage", file.name]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", report)
    if found is None:
        raise RuntimeError(f"cuobjdump -res-usage printed no REG and STACK, but: {report!r}")
    return int(found[1]), int(found[2])


def _check_all(quick: bool) -> int:
    failures = 0
    print(f"{'GPU':7}{'dtype':6}{'kernel':25}{'':45}{'registers':>10}{'stack':>7}{'shared KiB':>12}")
    for capability in SHARED_MEMORY_LIMIT:
        for dtype in ("fp16", "bf16") if capability >= BFLOAT16_FROM else ("fp16",):
            if quick and capability >= BFLOAT16_FROM and dtype == "fp16":
                continue
            for job in _jobs(capability, quick):
                usage = _compile(job, capability, dtype)
                name = job.kernel.__name__.removesuffix("_kernel")
                complaints = usage.complaints(capability)
                failures += bool(complaints)
                row = f"sm_{capability:<4}{dtype:6}{name:25}{job.detail:45}"
                numbers = f"{usage.registers:10}{usage.stack:7}{usage.shared / 1024:12.1f}"
                print(row + numbers + "".join(f"  FAILED: {complaint}" for complaint in complaints), flush=True)
    print(f"{failures} kernels failed" if failures else "no stack, and all fit")
    return 1 if failures else 0


def run(quick: bool = False) -> int:
    """Run the check in a process of its own and print its table.

    Args:
        quick: the largest shapes alone, which are the ones that run out; for tests.

    Returns:
        0 if all is well, 1 if a kernel spills or does not fit.

    Raises:
        TritonUnavailableError: triton, which carries the compiler, is not installed.
    """
    if find_spec("triton") is None:
        raise TritonUnavailableError(
            "The kernels cannot be compiled, because triton is not installed, and it has wheels for Linux only: run "
            "this on Linux (WSL, Colab); it needs no GPU."
        )
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    with tempfile.TemporaryDirectory() as cache:
        environment["TRITON_CACHE_DIR"] = cache
        command = [sys.executable, "-m", __name__, *(["--quick"] if quick else [])]
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(_check_all(quick="--quick" in sys.argv[1:]))
