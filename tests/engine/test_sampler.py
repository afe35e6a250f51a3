"""Sampling follows the model's distribution, each filter cuts what it says, and a seed decides the text alone."""

from collections import Counter

import pytest
import torch

from minivllm.engine.sampler import sample, token_logprobs, uniform, verify
from minivllm.request import SamplingParams

VOCABULARY = 40


def logits(rows: int = 1, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 2


def draw(row: torch.Tensor, params: SamplingParams, times: int = 20_000) -> dict[int, float]:
    tokens = sample(row.expand(times, -1), [params] * times, [uniform(7, position) for position in range(times)])
    return {token: count / times for token, count in Counter(tokens.tolist()).items()}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_follow_the_distribution_at_a_temperature(temperature: float) -> None:
    row = logits()
    expected = (row[0] / temperature).softmax(dim=-1)
    for params in (SamplingParams(temperature=temperature), SamplingParams(temperature=temperature, top_k=VOCABULARY)):
        frequencies = draw(row, params)
        assert max(abs(frequencies.get(token, 0) - float(expected[token])) for token in range(VOCABULARY)) < 0.01


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (SamplingParams(top_k=1), {3}),
        (SamplingParams(top_k=2), {3, 0}),
        (SamplingParams(top_p=0.5), {3}),
        (SamplingParams(top_p=0.51), {3, 0}),
        (SamplingParams(top_p=0.81), {3, 0, 2}),
        (SamplingParams(min_p=0.5), {3, 0}),
        (SamplingParams(min_p=0.3), {3, 0, 2}),
        (SamplingParams(top_k=3, top_p=0.51), {3}),  # 0.5 is a larger share of what top_k has left, 0.96
        (SamplingParams(top_k=3, top_p=0.53), {3, 0}),
        (SamplingParams(min_p=0.5, top_p=0.62), {3}),
        (SamplingParams(temperature=1e-40), {3}),
        (SamplingParams(temperature=0.0, top_k=3), {3}),
        (SamplingParams(), {0, 1, 2, 3}),
    ],
)
def test_a_filter_leaves_the_tokens_that_it_says(params: SamplingParams, expected: set[int]) -> None:
    row = torch.tensor([[0.3, 0.04, 0.16, 0.5]]).log()
    assert set(draw(row, params, times=2_000)) == expected


@pytest.mark.parametrize("number", [0.0, 0.999999999])
@pytest.mark.parametrize("params", [SamplingParams(), SamplingParams(top_p=0.9)])
def test_the_ends_of_the_unit_interval_choose_a_token_that_can_be_chosen(number: float, params: SamplingParams) -> None:
    row = torch.tensor([[float("-inf"), 1.0, 2.0, float("-inf")]])
    assert int(sample(row, [params], [number])) in (1, 2)


def test_a_row_is_sampled_alike_whatever_else_is_in_the_batch() -> None:
    rows = logits(6)
    params = [
        SamplingParams(temperature=0.0),
        SamplingParams(),
        SamplingParams(top_p=0.8),
        SamplingParams(temperature=0.3, top_k=5),
        SamplingParams(min_p=0.1),
        SamplingParams(temperature=1.7),
    ]
    numbers = [uniform(seed, 11) for seed in range(6)]
    together = sample(rows, params, numbers).tolist()
    assert together == [int(sample(rows[i : i + 1], params[i : i + 1], numbers[i : i + 1])) for i in range(6)]
    assert sample(rows.flip(0), params[::-1], numbers[::-1]).tolist() == together[::-1]


def test_the_deciding_number_depends_on_seed_and_position_alone() -> None:
    assert uniform(1, 2) == uniform(1, 2)
    assert len({uniform(seed, position) for seed in range(30) for position in range(30)}) == 900
    numbers = [uniform(5, position) for position in range(10_000)]
    assert 0.49 < sum(numbers) / len(numbers) < 0.51


@pytest.mark.parametrize(
    ("sampled", "drafts", "kept"),
    [
        ([5], [], [5]),
        ([5, 6, 7], [5, 6], [5, 6, 7]),
        ([5, 6, 7], [5, 9], [5, 6]),
        ([5, 6, 7], [9, 6], [5]),
        ([5, 6, 7], [-1, -1], [5]),
    ],
)
def test_drafts_are_kept_up_to_the_first_one_that_was_not_sampled(
    sampled: list[int], drafts: list[int], kept: list[int]
) -> None:
    assert verify(sampled, drafts) == kept


def test_logprobs_are_the_models_own_and_sorted() -> None:
    row = logits()[0]
    result = token_logprobs(row, 4, 3)
    expected = row.log_softmax(dim=-1)
    assert result.logprob == pytest.approx(float(expected[4]), abs=1e-6)
    assert list(result.top) == expected.topk(3).indices.tolist()
