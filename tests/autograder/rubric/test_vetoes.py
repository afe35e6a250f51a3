"""Vetoes in many wordings behind right answers, and the near misses that are none."""

import pytest

from autograder.judging.rubric import score

RIGHT = {
    "Q1": (
        "Each step the Scheduler hands out token_budget by num_tokens_with_spec - num_computed_tokens, so the three cases "
        "are the same. KV blocks can run out and a request is preempted; rejected drafts are rolled back. "
    ),
    "Q2": (
        "The cached blocks hold keys and values, no logits. The first token is sampled from the logits of the last prompt "
        "position, so that position must be run again. "
    ),
    "Q3": (
        "No. The BlockPool is fixed and max_num_seqs only caps the running list, so more requests compete for the same "
        "blocks and are preempted and recomputed, goodput falls. "
    ),
}
VETOED = {
    "peak_as_general": [
        ("Q1", "The vLLM paper measured 2-4x throughput, so we can expect 2-4x."),
        ("Q1", "A keynote showed 30% more throughput, which everybody gets by switching it on."),
        ("Q1", "博客里说提升 2.3 倍吞吐，换上 V1 就是 2.3 倍。"),
        ("Q2", "As the vLLM blog shows a 24x speedup, production throughput increases 24-fold."),
        ("Q2", "Vendor slides promise 80% lower latency, so latency in any service drops by 80%."),
        ("Q2", "According to the official benchmark it is 3.5 times faster; this holds for every deployment."),
        ("Q2", "官方博客的数据是首 token 延迟降低 85%，任何场景都能达到。"),
        ("Q3", "The official site says preemption costs under 2%, thus it costs under 2% everywhere."),
        ("Q3", "官方测试提升 40%，所以我们线上肯定也能提升 40%。"),
    ],
    "support_as_universal": [
        ("Q1", "Since schedule() is backend-agnostic code, every backend and every GPU can mix the three, it works."),
        ("Q1", "It is supported on all hardware because the code path exists."),
        ("Q1", "代码里有这个分支，不管什么卡什么模型都能跑。"),
        ("Q2", "It is in the main branch, so it is available for all attention backends and all hardware."),
        ("Q2", "既然 vLLM 已经实现了，任何模型在任何硬件上都可以直接使用。"),
        ("Q3", "Use offloading: it is implemented, so every platform has it."),
        ("Q3", "源码有 kv_cache_dtype 参数，任何显卡都能开。"),
    ],
    "correctness_vs_performance": [
        ("Q1", "The rollback of drafts has nothing to do with correctness, it only saves time."),
        ("Q1", "As the batch is always full and the GPU fast, the generated text is guaranteed to be right."),
        ("Q1", "草稿回退只是为了性能，不回退输出也一样。"),
        ("Q2", "This limit only exists for efficiency and could be dropped without affecting the results."),
        ("Q2", "If latency goes up, the outputs are no longer right."),
        ("Q2", "减一纯粹是性能优化，可有可无。"),
        ("Q3", "Because recompute is slow, the outputs of preempted requests become wrong."),
        ("Q3", "抢占变多、速度变慢，输出就会出错。"),
    ],
}
NEAR = [
    ("Q1", "The paper's 2-4x was measured on their traces; ours has to be benchmarked."),
    ("Q1", "Whether every backend can mix them must be checked per backend."),
    ("Q1", "If a rejected draft is not rolled back, the output becomes wrong."),
    ("Q1", "Budget size is a performance matter, rollback a correctness matter."),
    ("Q1", "博客的 2.3 倍来自他们的负载，不能照搬。"),
    ("Q1", "不是所有后端都支持混合批次，要查。"),
    ("Q2", "A 24x speedup was published for another workload, so I would not promise anything here."),
    ("Q2", "My own run on a T4 gave 1.8x, which says nothing about other cards."),
    ("Q2", "The cap is a correctness condition, not a speed setting."),
    ("Q2", "源码里有，但不代表所有硬件都支持，要看后端。"),
    ("Q2", "重算只影响速度，不影响正确性。"),
    ("Q3", "Preemption costs time; it does not make outputs wrong."),
    ("Q3", "On our A10 the throughput dropped by 18% from 64 to 128; another model may differ."),
    ("Q3", "FP8 might help where the backend supports it."),
    ("Q3", "抢占重算之后输出不变，只是变慢。"),
    ("Q3", "A blog saw 2x with a larger cap, but there blocks were free, so it says nothing about us."),
]


@pytest.mark.parametrize(("veto", "question", "claim"), [(v, *case) for v, cases in VETOED.items() for case in cases])
def test_the_claim_takes_the_points_of_a_right_answer(veto: str, question: str, claim: str) -> None:
    assert score(question, RIGHT[question]).points >= 1
    suggestion = score(question, RIGHT[question] + claim)
    assert suggestion.veto == veto
    assert suggestion.points == 0


@pytest.mark.parametrize(("question", "sentence"), NEAR)
def test_a_near_miss_takes_nothing(question: str, sentence: str) -> None:
    assert score(question, RIGHT[question] + sentence).veto is None
    assert score(question, RIGHT[question] + sentence).points >= score(question, RIGHT[question]).points


@pytest.mark.parametrize(
    "tour",
    [
        "The Scheduler calls KVCacheManager.allocate_slots, which calls BlockPool.get_new_blocks, which pops from "
        "FreeKVCacheBlockQueue, and _preempt_request calls kv_cache_manager.free.",
        "Scheduler 调用 KVCacheManager.get_computed_blocks，它再调用 KVCacheCoordinator.find_longest_cache_hit，然后是 "
        "SingleTypeKVCacheManager，最后到 BlockPool.get_cached_block。",
    ],
)
def test_a_tour_of_the_calls_says_nothing_of_who_holds_what(tour: str) -> None:
    assert score("Q3", tour).veto == "names_without_ownership"
