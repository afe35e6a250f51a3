"""The engine writes the reference's tokens whatever the schedule, and survives what goes wrong."""

import random
import signal
from typing import Any

import pytest

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig
from minivllm.engine.batch import InputBatch
from minivllm.engine.llm_engine import EngineStuckError, LLMEngine, RequestOutput
from minivllm.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec
from minivllm.observe.recorder import Recorder, StepCounter
from minivllm.request import SamplingParams
from tests.engine.covering import covering_array
from tests.engine.tiny_engine import (
    WEIGHTS,
    assert_same_tokens,
    finish,
    greedy,
    make_engine,
    random_prompt,
    reference_tokens,
)
from tests.model.tiny import TINY, build

SHARED = random_prompt(40)
PROMPTS = [
    random_prompt(1),
    random_prompt(7),
    random_prompt(8),
    random_prompt(9),
    random_prompt(33),
    random_prompt(70),
    SHARED,
    SHARED,
    SHARED + random_prompt(5),
    random_prompt(4) * 8,
]
MAX_TOKENS = 12

DIMENSIONS: dict[str, tuple[Any, ...]] = {
    "budget": (5, 16, 256),
    "block_size": (4, 8, 16),
    "caching": (True, False),
    "tokens": (96, 800),
    "drafts": (0, 3),
    "seqs": (1, 4, 10),
    "arrival": ("at once", "trickled"),
}


@pytest.mark.parametrize("config", covering_array(DIMENSIONS), ids=lambda c: "-".join(map(str, c.values())))
def test_tokens_are_the_same_whatever_the_schedule(config: dict[str, Any]) -> None:
    engine = make_engine(
        budget=config["budget"],
        block_size=config["block_size"],
        blocks=config["tokens"] // config["block_size"],
        seqs=config["seqs"],
        caching=config["caching"],
        drafts=config["drafts"],
    )
    done: dict[str, RequestOutput] = {}
    for i, prompt in enumerate(PROMPTS):
        engine.add_request(str(i), prompt, greedy(MAX_TOKENS))
        if config["arrival"] == "trickled":
            done |= {output.request_id: output for output in engine.step() if output.finished}
    done |= finish(engine)
    for i, prompt in enumerate(PROMPTS):
        assert_same_tokens(prompt, done[str(i)].outputs[0].token_ids, MAX_TOKENS)
    assert engine.scheduler.kv_cache_manager.usage == 0.0


def test_a_pool_too_small_for_all_preempts_and_still_writes_the_same() -> None:
    engine = make_engine(block_size=4, blocks=20, seqs=6)
    counter = StepCounter(engine.scheduler)
    for i, prompt in enumerate(PROMPTS[1:5] * 3):
        engine.add_request(str(i), prompt, greedy(MAX_TOKENS))
    done = finish(engine)
    assert counter.preemptions >= 3
    for i, prompt in enumerate(PROMPTS[1:5] * 3):
        assert_same_tokens(prompt, done[str(i)].outputs[0].token_ids, MAX_TOKENS)


def test_drafts_save_steps_where_the_text_repeats_itself() -> None:
    steps = []
    for drafts in (0, 4):
        engine = make_engine(drafts=drafts)
        engine.add_request("a", random_prompt(4) * 8, greedy(40))
        count = 0
        while engine.has_unfinished_requests():
            engine.step()
            count += 1
        steps.append(count)
    assert steps[1] < steps[0] == 40


@pytest.mark.parametrize(
    "params", [SamplingParams(max_tokens=20, seed=7), SamplingParams(max_tokens=20, seed=7, top_p=0.9, temperature=0.8)]
)
@pytest.mark.parametrize("drafts", [0, 3])
def test_a_seed_gives_the_same_text_alone_in_company_and_after_a_preemption(
    params: SamplingParams, drafts: int
) -> None:
    prompt = random_prompt(21)
    alone = make_engine()
    alone.add_request("a", prompt, params)
    text = finish(alone)["a"].outputs[0].token_ids
    company = make_engine(block_size=4, blocks=14, seqs=4, budget=19, drafts=drafts)
    for i in range(3):
        company.add_request(f"other{i}", random_prompt(9 + i), SamplingParams(max_tokens=14))
    company.add_request("a", prompt, params)
    assert finish(company)["a"].outputs[0].token_ids == text


def test_two_requests_without_a_seed_differ() -> None:
    engine = make_engine()
    for name in "abcd":
        engine.add_request(name, SHARED, SamplingParams(max_tokens=16, temperature=5.0))
    assert len({tuple(output.outputs[0].token_ids) for output in finish(engine).values()}) > 1


def test_an_output_grows_and_says_how_it_ended() -> None:
    engine = make_engine()
    stop = reference_tokens(tuple(SHARED), 5)[4][0]
    engine.add_request("length", SHARED, greedy(3, logprobs=2))
    engine.add_request("stop", SHARED, greedy(20, stop_token_ids=(stop,)))
    (first, second) = engine.step()
    assert (first.request_id, len(first.outputs[0].token_ids), first.finished) == ("length", 1, False)
    assert (first.num_cached_tokens, second.num_cached_tokens) == (0, 32)
    done = finish(engine)
    assert done["length"] is first
    assert first.outputs[0].finish_reason == "length"
    assert [entry.token_id for entry in first.outputs[0].logprobs or []] == first.outputs[0].token_ids
    assert all(next(iter(entry.top)) == entry.token_id for entry in first.outputs[0].logprobs or [])
    assert done["stop"].outputs[0].finish_reason == "stop"
    assert done["stop"].outputs[0].token_ids[-1] == stop


def test_an_abort_amid_the_text_frees_its_blocks_and_leaves_the_others_alone() -> None:
    engine = make_engine()
    engine.add_request("a", random_prompt(20), greedy(30))
    engine.add_request("b", random_prompt(21), greedy(10))
    (a, _) = engine.step()
    engine.step()
    engine.abort_request("a")
    engine.abort_request("a")
    engine.abort_request("nobody")
    assert (a.outputs[0].finish_reason, len(a.outputs[0].token_ids)) == ("abort", 2)
    done = finish(engine)
    assert_same_tokens(random_prompt(21), done["b"].outputs[0].token_ids, 10)
    assert engine.scheduler.kv_cache_manager.usage == 0.0
    assert not engine.runner.input_batch.rows.keys() - {"b"}


@pytest.mark.parametrize("fault", [RuntimeError("out of memory"), KeyboardInterrupt()])
def test_a_model_that_fails_costs_the_requests_of_its_step_and_poisons_nobody(fault: BaseException) -> None:
    engine = make_engine(seqs=2)
    engine.add_request("a", SHARED, greedy(8))
    engine.add_request("b", SHARED, greedy(8))
    engine.add_request("c", SHARED, greedy(8))
    forward = engine.runner.model.forward

    def failing(*args: Any) -> Any:
        engine.runner.model.forward = forward  # type: ignore[method-assign]
        raise fault

    engine.runner.model.forward = failing  # type: ignore[assignment, method-assign]
    with pytest.raises(type(fault)):
        engine.step()
    assert engine.scheduler.kv_cache_manager.usage == 0.0
    assert [request.request_id for request in engine.scheduler.waiting] == ["c"]
    # What "a" and "b" had registered was never computed: "c" has the same prompt and must not find it.
    assert not Recorder(engine.scheduler).state()["cached"]
    done = finish(engine)
    assert_same_tokens(SHARED, done["c"].outputs[0].token_ids, 8)


def test_an_engine_in_which_nobody_can_move_says_so() -> None:
    engine = make_engine(block_size=4, blocks=4)
    engine.add_request("big", random_prompt(20), greedy(2))
    with pytest.raises(
        EngineStuckError, match="Request 'big' waits at the head of the queue for ever: its 20 tokens need 5"
    ):
        engine.step()
    engine.abort_request("big")
    engine.add_request("small", random_prompt(5), greedy(2))
    assert finish(engine)["small"].finished


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("text", "the prompt is text, but the engine has no tokenizer"),
        ([], "prompt_token_ids is empty"),
        ([1] * 200, "at most max_model_len"),
        ([5, TINY.vocab_size], rf"holds token id {TINY.vocab_size}, but the model's vocabulary ends at"),
    ],
)
def test_a_prompt_that_can_not_be_used_is_refused_and_nothing_is_added(prompt: Any, message: str) -> None:
    engine = make_engine()
    with pytest.raises(ValueError, match=message):
        engine.add_request("a", prompt, greedy(2))
    assert not engine.has_unfinished_requests()
    engine.add_request("a", [5], greedy(2))
    assert finish(engine)["a"].finished


def test_more_logprobs_than_tokens_are_refused_and_all_of_them_are_not() -> None:
    engine = make_engine()
    with pytest.raises(ValueError, match=f"SamplingParams.logprobs is {TINY.vocab_size + 1}, but"):
        engine.add_request("a", [5], greedy(1, logprobs=TINY.vocab_size + 1))
    engine.add_request("a", [5], greedy(1, logprobs=TINY.vocab_size))
    (entry,) = finish(engine)["a"].outputs[0].logprobs or []
    assert len(entry.top) == TINY.vocab_size


def test_who_came_first_is_served_first_among_equals_of_the_priority_policy() -> None:
    engine = make_engine(policy="priority", seqs=1)
    for name in "abc":
        engine.add_request(name, [5], greedy(1))
    order = [output.request_id for output in engine.step()]
    engine.add_request("0", [5], greedy(1))
    while engine.has_unfinished_requests():
        order += [output.request_id for output in engine.step()]
    assert order == ["a", "b", "c", "0"]


@pytest.mark.parametrize("caching", [True, False])
def test_a_victim_of_the_step_that_had_scheduled_it_leaves_nothing_uncomputed_in_the_cache(caching: bool) -> None:
    low, high = random_prompt(66, seed=1), random_prompt(7, seed=2)
    engine = make_engine(
        policy="priority", blocks=18, block_size=4, budget=64, long_prefill_token_threshold=16, caching=caching
    )
    counter = StepCounter(engine.scheduler)
    engine.add_request("low", low, greedy(6), priority=5)
    engine.step()
    engine.add_request("high", high, greedy(3), priority=0)
    done = finish(engine)
    assert counter.preemptions == 1
    assert_same_tokens(low, done["low"].outputs[0].token_ids, 6)
    assert_same_tokens(high, done["high"].outputs[0].token_ids, 3)


@pytest.mark.parametrize("seed", range(20))
def test_the_priority_policy_writes_the_same_tokens_under_pressure(seed: int) -> None:
    chance = random.Random(seed)
    engine = make_engine(
        policy="priority",
        blocks=24,
        block_size=4,
        budget=chance.choice((24, 64)),
        long_prefill_token_threshold=chance.choice((0, 8, 16)),
        drafts=chance.choice((0, 3)),
    )
    prompts = {str(i): random_prompt(chance.randint(1, 60), seed=chance.randint(1, 3)) for i in range(6)}
    done: dict[str, RequestOutput] = {}
    for name, prompt in prompts.items():
        engine.add_request(name, prompt, greedy(8), priority=chance.randint(0, 3))
        done |= {output.request_id: output for output in engine.step() if output.finished}
    done |= finish(engine)
    for name, prompt in prompts.items():
        assert_same_tokens(prompt, done[name].outputs[0].token_ids, 8)


def interrupt_after(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C arrives as the method returns, once."""
    method = getattr(owner, name)

    def interrupted(*args: Any) -> Any:
        monkeypatch.setattr(owner, name, method)
        result = method(*args)
        signal.raise_signal(signal.SIGINT)
        return result

    monkeypatch.setattr(owner, name, interrupted)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("scheduler", "schedule"),
        ("runner", "update_states"),
        ("runner", "execute_model"),
        ("scheduler", "update_from_output"),
    ],
)
def test_ctrl_c_anywhere_in_a_step_leaves_an_engine_that_answers_right(
    part: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(seqs=2)
    for request_id in "abc":
        engine.add_request(request_id, SHARED, greedy(8))
    interrupt_after(getattr(engine, part), name, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        engine.step()
    assert list(engine.scheduler.requests) == ["c"]
    assert engine.scheduler.kv_cache_manager.usage == 0.0
    assert_same_tokens(SHARED, finish(engine)["c"].outputs[0].token_ids, 8)


def test_an_engine_that_got_stuck_again_and_again_still_has_all_its_seats() -> None:
    engine = make_engine(block_size=4, blocks=4, seqs=2)
    for _ in range(3):
        engine.add_request("small", random_prompt(5), greedy(2))
        assert finish(engine)["small"].finished
        engine.add_request("big", random_prompt(20), greedy(2))
        with pytest.raises(EngineStuckError):
            engine.step()
        engine.abort_request("big")
    engine.add_request("small", random_prompt(5), greedy(2))
    assert finish(engine)["small"].finished


def test_below_min_tokens_no_stop_token_is_written() -> None:
    # Greedily the second token would be this one, and at the third place it may stop again.
    token_ids = [token_id for token_id, _ in reference_tokens(tuple(SHARED), 2)]
    for drafts in (0, 3):
        engine = make_engine(drafts=drafts)
        engine.add_request("a", SHARED, greedy(8, min_tokens=8, stop_token_ids=(token_ids[1],)))
        engine.add_request("b", SHARED, greedy(8, min_tokens=1, stop_token_ids=(token_ids[1],)))
        done = finish(engine)
        assert done["a"].outputs[0].token_ids[0] == token_ids[0] != token_ids[1]
        assert token_ids[1] not in done["a"].outputs[0].token_ids and len(done["a"].outputs[0].token_ids) == 8
        assert done["b"].outputs[0].token_ids == token_ids


def test_more_output_than_fits_behind_the_prompt_is_refused_at_once() -> None:
    engine = make_engine()
    with pytest.raises(ValueError, match=r"min_tokens is 64, but behind its 150 prompt tokens max_model_len = 200"):
        engine.add_request("a", random_prompt(150), greedy(64, min_tokens=64))
    engine.add_request("a", random_prompt(150), greedy(50, min_tokens=50))
    assert len(finish(engine)["a"].outputs[0].token_ids) == 50


def test_drafts_that_a_step_has_no_room_for_are_refused() -> None:
    with pytest.raises(ValueError, match="long_prefill_token_threshold is 4, but with 4 drafts"):
        make_engine(drafts=4, long_prefill_token_threshold=4)


def test_layers_that_the_model_does_not_have_are_refused() -> None:
    for groups in ((SlidingWindowSpec(8),), (FullAttentionSpec(), SlidingWindowSpec(8))):
        config = EngineConfig(SchedulerConfig(max_model_len=128), CacheConfig(4, 40, True, groups))
        with pytest.raises(ValueError, match="but a Llama has one group, of full attention"):
            LLMEngine(build(TINY, WEIGHTS), None, config)


def test_a_prompt_that_can_be_read_once_is_read_once() -> None:
    engine = make_engine()
    answer = engine.add_request("a", iter([5, 6, 7]), greedy(2))  # type: ignore[arg-type]
    assert finish(engine)["a"] is answer and answer.prompt_token_ids == [5, 6, 7]


def test_a_mixed_batch_becomes_the_tensors_that_the_lesson_derives_by_hand() -> None:
    engine = make_engine(budget=12, block_size=4, drafts=2)
    engine.add_request("verify", random_prompt(6), greedy(8))
    engine.step()
    engine.scheduler.update_draft_token_ids({"verify": [11, 12]})
    engine.add_request("decode", random_prompt(1), greedy(8))
    engine.add_request("chunk", random_prompt(20), greedy(8))
    output = engine.scheduler.schedule()
    batch_input: InputBatch = engine.runner.input_batch
    batch_input.update(output)
    batch = batch_input.build(output)
    assert output.num_scheduled_tokens == {"verify": 3, "decode": 3, "chunk": 6}
    assert batch.num_sampled == [3, 3, 0]
    assert batch.drafts == [[11, 12], [-1, -1], []]
    metadata = batch.attn_metadata
    assert metadata.query_start_loc.tolist() == [0, 3, 6, 12]
    assert metadata.seq_lens.tolist() == [9, 3, 6]
    assert batch.positions.tolist() == [6, 7, 8, 0, 1, 2, 0, 1, 2, 3, 4, 5]
    assert batch.input_ids.tolist()[1:3] == [11, 12]
    assert batch.input_ids.tolist()[4:6] == [0, 0]
    assert metadata.block_table.tolist() == [[1, 2, 3], [4, 0, 0], [5, 6, 0]]
    assert metadata.slot_mapping.tolist() == [10, 11, 12, 16, 17, 18, 20, 21, 22, 23, 24, 25]
    assert batch.logits_indices.tolist() == [0, 1, 2, 3, 4, 5]
    assert metadata.max_query_len == 6
