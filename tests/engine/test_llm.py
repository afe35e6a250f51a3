"""What a notebook and a command line see of the engine."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from minivllm import LLM, SamplingParams
from minivllm.model.loader import LoadedModel
from tests.model.tiny import TINY, random_weights, write_gguf

ROOT = Path(__file__).parents[2]
GREEDY = SamplingParams(max_tokens=6, temperature=0.0)


@pytest.fixture(scope="module")
def tiny_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf", TINY, random_weights(TINY))


@pytest.fixture
def llm(tiny_file: Path) -> LLM:
    return LLM(str(tiny_file), kv_cache_memory_bytes=1 << 20, max_model_len=128)


def test_answers_come_in_the_order_of_the_prompts(llm: LLM) -> None:
    outputs = llm.generate(["a much longer prompt than the other", "b"], GREEDY, use_tqdm=False)
    assert [output.prompt for output in outputs] == ["a much longer prompt than the other", "b"]
    assert all(output.finished and output.outputs[0].token_ids for output in outputs)
    (alone,) = llm.generate("b", GREEDY, use_tqdm=False)
    assert alone.outputs[0].token_ids == outputs[1].outputs[0].token_ids
    (by_ids,) = llm.generate(alone.prompt_token_ids, GREEDY, use_tqdm=False)
    assert by_ids.outputs[0].text == alone.outputs[0].text
    assert llm.generate([], GREEDY, use_tqdm=False) == []


def test_each_prompt_may_have_parameters_of_its_own(llm: LLM) -> None:
    params = [SamplingParams(max_tokens=n, temperature=0.0, ignore_eos=True) for n in (2, 5)]
    outputs = llm.generate(["x", "y"], params, use_tqdm=False)
    assert [len(output.outputs[0].token_ids) for output in outputs] == [2, 5]
    with pytest.raises(ValueError, match="sampling_params holds 2 entries for 1 prompts"):
        llm.generate(["x"], params, use_tqdm=False)


def test_a_conversation_is_written_in_the_models_template(llm: LLM) -> None:
    (output,) = llm.chat([{"role": "user", "content": "hi"}], GREEDY, use_tqdm=False)
    tokenizer = llm.llm_engine.tokenizer
    assert tokenizer is not None
    text = tokenizer.decode(output.prompt_token_ids, skip_special_tokens=False)
    assert text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert len(llm.chat([[{"role": "user", "content": "hi"}]] * 2, GREEDY, use_tqdm=False)) == 2


def test_a_stream_grows_and_leaving_it_frees_the_blocks(llm: LLM) -> None:
    lengths = []
    for output in llm.stream("abc", SamplingParams(max_tokens=30, temperature=0.0, ignore_eos=True)):
        lengths.append(len(output.outputs[0].token_ids))
        if len(lengths) == 4:
            break
    assert lengths == [1, 2, 3, 4]
    assert not llm.llm_engine.has_unfinished_requests()
    assert llm.llm_engine.scheduler.kv_cache_manager.usage == 0.0


def test_a_stream_misses_nothing_when_others_step_the_engine(llm: LLM) -> None:
    params = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)
    (alone,) = llm.generate("abc", params, use_tqdm=False)
    outputs = []
    for output in llm.stream("abc", params):
        outputs.append((len(output.outputs[0].token_ids), output.finished))
        llm.generate("x", GREEDY, use_tqdm=False)
    assert outputs[-1] == (8, True)
    assert output.outputs[0].token_ids == alone.outputs[0].token_ids
    pairs = list(zip(llm.stream("abc", params), llm.stream("abd", params), strict=True))
    assert all(output.finished for output in pairs[-1])


def test_a_call_that_is_refused_leaves_requests_of_others_alone(llm: LLM) -> None:
    llm.llm_engine.add_request("0", "mine", GREEDY)
    with pytest.raises(ValueError, match="in the scheduler already"):
        llm.generate("a", GREEDY, use_tqdm=False)
    assert list(llm.llm_engine.scheduler.requests) == ["0"]
    (answer,) = llm.generate("a", GREEDY, use_tqdm=False)
    assert answer.finished


@pytest.mark.parametrize(
    ("prompts", "params", "message"),
    [
        (b"hello", GREEDY, "prompts is a bytes, but a prompt is text or a sequence of token ids"),
        ({"prompt_token_ids": [5]}, GREEDY, "prompts is a dict"),
        ([b"hello"], GREEDY, "prompt_token_ids is a bytes"),
        (None, GREEDY, "prompts is a NoneType"),
        (torch.tensor([5, 6]), GREEDY, "prompts is a Tensor.*call tolist"),
        (np.array([5, 6]), GREEDY, "prompts is a ndarray"),
        (["a"], {"max_tokens": 3}, "but must be a SamplingParams or a list of them"),
        (["a"], [3], "but must be a SamplingParams or a list of them"),
        (["a"], [], "sampling_params holds 0 entries for 1 prompts"),
    ],
)
def test_what_is_no_prompt_is_named(llm: LLM, prompts: Any, params: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        llm.generate(prompts, params, use_tqdm=False)
    assert not llm.llm_engine.has_unfinished_requests()


@pytest.mark.parametrize("fault", [RuntimeError("broken"), KeyboardInterrupt()])
def test_an_interrupted_call_leaves_an_engine_that_answers(
    llm: LLM, fault: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = llm.generate("abc", GREEDY, use_tqdm=False)
    forward = llm.llm_engine.runner.model.forward
    calls = 0

    def failing(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise fault
        return forward(*args)

    with monkeypatch.context() as patch:
        patch.setattr(llm.llm_engine.runner.model, "forward", failing)
        with pytest.raises(type(fault)):
            llm.generate(
                ["abc", "abcd", "x"], SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True), use_tqdm=False
            )
    assert not llm.llm_engine.has_unfinished_requests()
    assert llm.llm_engine.scheduler.kv_cache_manager.usage == 0.0
    (after,) = llm.generate("abc", GREEDY, use_tqdm=False)
    assert after.outputs[0].token_ids == before.outputs[0].token_ids


def test_the_pool_is_reported_in_one_line(llm: LLM) -> None:
    # A token takes 2 (K and V) x 2 layers x 2 heads x 16 x 4 bytes = 512 bytes, a block of 16 tokens 8 KiB.
    assert llm.kv_cache_report == "KV cache: 127 blocks of 16 tokens hold 2,032 tokens, 15.9 requests of 128"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"kv_cache_memory_bytes": 10_000}, "EngineArgs.kv_cache_memory_bytes leaves 0 MiB for the KV cache"),
        ({"max_model_len": 5000}, "EngineArgs.max_model_len is 5000, but the model was made for at most 256 tokens"),
        (
            {"max_model_len": 200, "num_gpu_blocks_override": 11},
            "EngineArgs.max_model_len is 200, but the KV pool holds 160 tokens",
        ),
        ({"dtype": "int8"}, "EngineArgs.dtype is 'int8'"),
        ({"gpu_memory_utilization": 0.0}, "EngineArgs.gpu_memory_utilization is 0.0"),
        ({"gpu_memory_utilization": "0.9"}, "EngineArgs.gpu_memory_utilization is '0.9'"),
        ({"max_num_seqs": 0}, "SchedulerConfig.max_num_seqs is 0"),
        ({"block_size": 0}, "EngineArgs.block_size is 0"),
        ({"block_size": "16"}, "EngineArgs.block_size is '16'"),
        ({"kv_cache_memory_bytes": "512MB"}, "EngineArgs.kv_cache_memory_bytes is '512MB'"),
        ({"max_model_len": 0}, "EngineArgs.max_model_len is 0"),
        ({"num_gpu_blocks_override": 0}, "EngineArgs.num_gpu_blocks_override is 0"),
        ({"num_speculative_tokens": -1}, "EngineArgs.num_speculative_tokens is -1"),
        (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 64, "max_model_len": 128},
            "EngineArgs.max_num_batched_tokens is 64, but without chunked prefill",
        ),
    ],
)
def test_a_setting_that_can_not_be_used_is_named(tiny_file: Path, args: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        LLM(str(tiny_file), **args)


READY_AND_BUSY = """
import json, sys, time
from pathlib import Path
start = time.process_time()
import torch
torch.set_num_threads(1)
from minivllm import LLM, SamplingParams
llm = LLM(sys.argv[1])
seconds = time.process_time() - start
for kv_cache in llm.llm_engine.runner.kv_caches:
    kv_cache.fill_(0.5)  # a pool that is written has all its memory
llm.generate("Hello world, " * 600, SamplingParams(max_tokens=2, temperature=0.0), use_tqdm=False)
sampled = SamplingParams(max_tokens=2, top_k=50, top_p=0.9, seed=1)
llm.generate([f"Hello {i}" for i in range(128)], sampled, use_tqdm=False)
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(json.dumps({"seconds": seconds, "peak": 1024 * int(status["VmHWM"].split()[0])}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak memory of a process is read from /proc, which Linux has")
def test_it_is_ready_soon_and_a_full_house_stays_under_the_memory_limit(smollm2_file: Path) -> None:
    """A fresh process with the default pool: a long prompt, then as many sampled requests as it takes at once."""
    command = [sys.executable, "-c", READY_AND_BUSY, str(smollm2_file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    print(f"ready in {result['seconds']:.1f} s of CPU time, {result['peak'] / 1e9:.2f} GB")
    assert result["peak"] < 1.8e9
    assert result["seconds"] < 5


def test_the_command_streams_the_models_answer(smollm2: LoadedModel) -> None:
    command = [
        sys.executable,
        "-m",
        "minivllm",
        "generate",
        "What is the capital of France?",
        "--max-tokens",
        "12",
        "--stats",
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert "Paris" in run.stdout
    assert "tokens/s" in run.stderr
    assert "KV cache:" in run.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["generate", "x", "--max-tokens", "0"], "SamplingParams.max_tokens is 0"),
        (["generate", "x", "--temperature", "-1"], "SamplingParams.temperature is -1.0"),
        (["generate", "x", "--model", "/nowhere"], "There is no model '/nowhere'"),
        (["bench", "engine", "--against", "llama.cpp"], "only 'transformers' can be measured against"),
    ],
)
def test_a_bad_option_ends_in_one_line_and_exit_code_2(args: list[str], message: str) -> None:
    run = subprocess.run([sys.executable, "-m", "minivllm", *args], capture_output=True, text=True, timeout=120)
    assert run.returncode == 2
    assert message in run.stderr
    assert run.stderr.count("\n") == 1
