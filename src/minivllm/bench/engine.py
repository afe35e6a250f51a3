"""``minivllm bench engine``: tokens/s, TTFT and ITL, beside transformers in the same run."""

import logging
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from minivllm.bench.machine import BenchError, device_and_dtype, percentile, where_and_when
from minivllm.engine.arg_utils import EngineArgs
from minivllm.engine.llm_engine import LLMEngine
from minivllm.model.config import LlamaConfig
from minivllm.model.hub import fetch
from minivllm.model.llama import Linear
from minivllm.model.loader import load_model
from minivllm.model.weights import open_checkpoint
from minivllm.observe.recorder import around
from minivllm.request import SamplingParams

Prompts = list[list[int]]


@dataclass(frozen=True)
class Workload:
    """Requests that arrive together: random prompts of one length, greedy outputs of one length."""

    batch: int
    context: int
    output: int

    def prompts(self, vocab_size: int, seed: int) -> Prompts:
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(3, vocab_size, (self.batch, self.context), generator=generator).tolist()


WORKLOADS = (Workload(1, 64, 64), Workload(8, 64, 64), Workload(32, 64, 64), Workload(8, 512, 16))


@dataclass(frozen=True)
class Timing:
    """One run. Times are in seconds; those that the other side does not give are empty or 0.

    Attributes:
        ttft, itl: time to first token of each request, and every time between two tokens.
    """

    seconds: float
    tokens: int
    ttft: list[float] = field(default_factory=list)
    itl: list[float] = field(default_factory=list)


def now(device: torch.device) -> float:
    """The time in seconds once ``device`` has done all that it was told to: a GPU's calls return before that."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class Stopwatch:
    """Adds up the seconds that calls of some objects' methods take on a device, until it is stopped."""

    def __init__(self, device: torch.device) -> None:
        self.seconds = 0.0
        self._device = device
        self._before: list[tuple[object, dict[str, Any]]] = []

    def time(self, owner: object, *names: str) -> None:
        self._before.append((owner, dict(vars(owner))))
        for name in names:
            around(owner, name, self._call)

    def stop(self) -> None:
        """Leaves the objects as they were."""
        for owner, before in reversed(self._before):
            vars(owner).clear()
            vars(owner).update(before)

    def _call(self, method: Callable[..., torch.Tensor], *args: Any) -> torch.Tensor:
        before = now(self._device)
        result = method(*args)
        self.seconds += now(self._device) - before
        return result


def run_minivllm(engine: LLMEngine, prompts: Prompts, output: int) -> Timing:
    """Answers the prompts with exactly ``output`` tokens each."""
    params = SamplingParams(max_tokens=output, temperature=0.0, ignore_eos=True)
    start = time.perf_counter()
    for i, prompt in enumerate(prompts):
        engine.add_request(str(i), prompt, params)
    last: dict[str, float] = {}
    ttft: list[float] = []
    itl: list[float] = []
    while engine.has_unfinished_requests():
        outputs = engine.step()
        now = time.perf_counter()
        for out in outputs:
            (itl if out.request_id in last else ttft).append(now - last.get(out.request_id, start))
            last[out.request_id] = now
    return Timing(time.perf_counter() - start, output * len(prompts), ttft, itl)


def shares_of_time(engine: LLMEngine, prompts: Prompts, output: int) -> dict[str, float]:
    """What part of a run is the engine's own, and what part goes into products with weights.

    A run of its own: stopwatches make the host wait for a GPU at every product, so such a run's speed does not count.
    """
    model = engine.runner.model
    device = model.cos_sin.device
    in_model, in_products = Stopwatch(device), Stopwatch(device)
    in_model.time(model, "forward", "compute_logits")
    in_products.time(model, "compute_logits")
    for module in model.modules():
        if isinstance(module, Linear):
            in_products.time(module, "forward")
    seconds = run_minivllm(engine, prompts, output).seconds
    in_products.stop()
    in_model.stop()
    return {
        "share_outside_model": round(1 - in_model.seconds / seconds, 4),
        "share_in_products": round(in_products.seconds / seconds, 4),
    }


class TransformersSide:
    """transformers' own Llama with the weights of a checkpoint.

    Args:
        device, dtype: of its weights and activations; its angles stay float32, as minivllm's do.

    Raises:
        BenchError: transformers is not installed.
    """

    def __init__(self, model: str, device: torch.device, dtype: torch.dtype) -> None:
        try:
            import transformers
        except ImportError:
            raise BenchError(
                "transformers is not installed: pip install transformers, or leave --against out."
            ) from None
        self.version = f"transformers {transformers.__version__}"
        transformers.logging.set_verbosity_error()
        logging.getLogger("ContinuousBatchingLogger").setLevel(logging.ERROR)  # it has one of its own
        checkpoint = open_checkpoint(fetch(model))
        self.model = transformers_llama(checkpoint.config, dict(checkpoint.weights()))
        for parameter in self.model.parameters():
            parameter.data = parameter.data.to(dtype)
        self.model.to(device)
        self._load_of_manager: tuple[int, ...] = ()

    def generate(self, prompts: Prompts, output: int) -> Timing:
        device = self.model.device
        start = now(device)
        with torch.inference_mode():
            self.model.generate(
                torch.tensor(prompts, device=device),
                max_new_tokens=output,
                min_new_tokens=output,
                do_sample=False,
                pad_token_id=2,
            )
        return Timing(now(device) - start, output * len(prompts))

    def continuous_batching(self, prompts: Prompts, output: int) -> Timing:
        from transformers import ContinuousBatchingConfig, GenerationConfig

        config = GenerationConfig(max_new_tokens=output, do_sample=False, eos_token_id=-1, pad_token_id=2)
        # By default it takes most of the memory for its cache, and starts anew at each call: neither is timed here.
        cache = ContinuousBatchingConfig(max_memory_percent=0.1)
        # Its manager is made for the load that it met first, and would serve a larger one request by request.
        load = (len(prompts), len(prompts[0]), output)
        if load != self._load_of_manager:
            self.model.destroy_cached_continuous_batching_manager()
            self._load_of_manager = load
        start = time.perf_counter()
        outputs = self.model.generate_batch(
            inputs=prompts, generation_config=config, continuous_batching_config=cache, persistent_manager=True
        )
        seconds = time.perf_counter() - start
        tokens = sum(len(out.generated_tokens) for out in outputs.values())
        return Timing(seconds, tokens)


def transformers_llama(config: LlamaConfig, weights: dict[str, torch.Tensor]) -> Any:
    """transformers' LlamaForCausalLM of this shape with these weights (Hugging Face names), in float32."""
    import transformers

    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.num_hidden_layers,
            num_attention_heads=config.num_attention_heads,
            num_key_value_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            max_position_embeddings=config.max_position_embeddings,
            rms_norm_eps=config.rms_norm_eps,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            tie_word_embeddings=config.tie_word_embeddings,
            bos_token_id=1,
            eos_token_id=2,
        )
    ).eval()
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:
        raise BenchError(f"transformers' Llama takes other weights than these: {[*missing, *unexpected][:3]} differ.")
    model.tie_weights()
    return model


def bench_engine(
    model: str, against: str | None, runs: int, threads: int | None, report: Callable[[str], None]
) -> dict[str, Any]:
    """Runs every workload ``runs`` times on each side, in turn, after one run that is not counted.

    Args:
        against: None or "transformers".
        threads: torch's; None leaves them.
        report: called with each finished line.

    Raises:
        BenchError, ModelError: something is missing; the message says what.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    args = EngineArgs(model=model, max_num_seqs=64)
    loaded = load_model(args.model)
    config = args.create_engine_config(loaded.model)
    vocab_size = loaded.model.config.vocab_size
    weight = loaded.model.model.embed_tokens.weight

    def minivllm(prompts: Prompts, output: int) -> Timing:
        return run_minivllm(engine, prompts, output)

    engine = LLMEngine(loaded.model, loaded.tokenizer, config)
    sides: dict[str, Callable[[Prompts, int], Timing]] = {"minivllm": minivllm}
    versions = [f"torch {torch.__version__}"]
    if against is not None:
        other = TransformersSide(model, weight.device, weight.dtype)
        versions.append(other.version)
        sides |= {"generate": other.generate, "continuous batching": other.continuous_batching}

    results = []
    for workload in WORKLOADS:
        timings: dict[str, list[Timing]] = {name: [] for name in sides}
        seed = 1000 * workload.batch + workload.context
        for run in range(runs + 1):
            prompts = workload.prompts(vocab_size, seed + run)
            for name, side in sides.items():
                timing = side(prompts, workload.output)
                if run:
                    timings[name].append(timing)
        unseen = workload.prompts(vocab_size, seed + runs + 1)
        row = _summary(workload, timings) | shares_of_time(engine, unseen, workload.output)
        results.append(row)
        report(format_row(row))
    return {
        **where_and_when(),
        **device_and_dtype(loaded.model),
        "threads": torch.get_num_threads(),
        "model": model,
        "runs": runs,
        "versions": versions,
        "results": results,
    }


def _summary(workload: Workload, timings: dict[str, list[Timing]]) -> dict[str, Any]:
    rates = {name: statistics.median(run.tokens / run.seconds for run in own) for name, own in timings.items()}
    own = timings["minivllm"]
    itl = [gap for run in own for gap in run.itl]
    ttft = [first for run in own for first in run.ttft]
    return {
        **vars(workload),
        "tokens_per_second": {name: round(rate, 1) for name, rate in rates.items()},
        "ratio": {name: round(rates["minivllm"] / rate, 2) for name, rate in rates.items() if name != "minivllm"},
        "ttft_ms": {"p50": _percentile_ms(ttft, 50), "p99": _percentile_ms(ttft, 99)},
        "itl_ms": {"p50": _percentile_ms(itl, 50), "p99": _percentile_ms(itl, 99)},
    }


def _percentile_ms(seconds: list[float], percent: int) -> float:
    return round(1000 * percentile(seconds, percent), 1)


def format_row(row: dict[str, Any]) -> str:
    """One line for a workload's result."""
    rates = ", ".join(f"{name} {rate:.1f}" for name, rate in row["tokens_per_second"].items())
    ratios = "".join(f", {ratio:.2f} x {name}" for name, ratio in row["ratio"].items())
    return (
        f"batch {row['batch']:2}, context {row['context']:3}, {row['output']} outputs: {rates} tokens/s{ratios}; "
        f"TTFT p50 {row['ttft_ms']['p50']} p99 {row['ttft_ms']['p99']} ms, "
        f"ITL p50 {row['itl_ms']['p50']} p99 {row['itl_ms']['p99']} ms; "
        f"{row['share_in_products']:.0%} of the time in products with weights, "
        f"{row['share_outside_model']:.1%} outside the model"
    )
