"""Chooses tokens from logits, and verifies draft tokens on the way.

Mirrors vllm/v1/sample/sampler.py (Sampler) and vllm/v1/sample/rejection_sampler.py (RejectionSampler).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from minivllm.request import SamplingParams

SAMPLING_EPS = 1e-5
"""Temperatures below are greedy: the likeliest token has all the probability (vllm/v1/sample/sampler.py)."""

ROWS_AT_ONCE = 16
"""Rows that are sampled together: sorting and summing takes several copies of them."""


@dataclass(frozen=True)
class TokenLogprobs:
    """Log-probabilities at one position, of the model's own distribution: the chosen token and the likeliest ones."""

    token_id: int
    logprob: float
    top: dict[int, float]


@dataclass(frozen=True)
class SampledTokens:
    """What one request got: accepted drafts and one more token; ``logprobs`` holds one entry a token, if asked for."""

    token_ids: list[int]
    logprobs: list[TokenLogprobs] | None


def uniform(seed: int, position: int) -> float:
    """The number in [0, 1) that decides the token at a position of a sequence.

    It depends on nothing else, so neither the batch, nor a preemption, nor the pace of drafts changes the text.
    """
    return random.Random(f"{seed}/{position}").random()


def sample(logits: torch.Tensor, params: Sequence[SamplingParams], uniforms: Sequence[float]) -> torch.Tensor:
    """One token for each row.

    Rows of one kind are worked on together, and a row's kind depends on its own parameters alone.

    Args:
        logits: [num_rows, vocab_size], any float dtype.
        params: one for each row.
        uniforms: one number in [0, 1) for each row; greedy rows ignore it.

    Returns:
        [num_rows] int64, on the device of ``logits``.
    """
    sampled = logits.argmax(dim=-1)
    kinds: dict[bool, list[int]] = {False: [], True: []}
    for row, param in enumerate(params):
        if param.temperature >= SAMPLING_EPS:
            kinds[bool(param.top_k) or param.top_p < 1 or param.min_p > 0].append(row)
    for is_filtered, of_this_kind in kinds.items():
        choose = _sample_filtered if is_filtered else _sample_all
        for start in range(0, len(of_this_kind), ROWS_AT_ONCE):
            rows = of_this_kind[start : start + ROWS_AT_ONCE]
            index = torch.tensor(rows, device=logits.device)
            chosen_params = [params[row] for row in rows]
            temperature = _column([param.temperature for param in chosen_params], logits.device)
            scaled = logits[index].float() / temperature
            sampled[index] = choose(scaled, chosen_params, _column([uniforms[row] for row in rows], logits.device))
    return sampled


def forbid_stop_tokens(
    logits: torch.Tensor, params: Sequence[SamplingParams], num_outputs: Sequence[int]
) -> torch.Tensor:
    """The logits without the stop tokens of rows below ``min_tokens``: there they would not stop, only spoil the text.

    Mirrors vllm/v1/sample/logits_processor/builtin.py (MinTokensLogitsProcessor).

    Args:
        logits: [num_rows, vocab_size]; left as they are.
        params: one for each row.
        num_outputs: for each row the output tokens before it.
    """
    forbidden = [
        (row, token_id)
        for row, (param, count) in enumerate(zip(params, num_outputs, strict=True))
        if count < param.min_tokens
        for token_id in param.stop_token_ids
        if token_id < logits.shape[1]
    ]
    if not forbidden:
        return logits
    rows, token_ids = zip(*forbidden, strict=True)
    return logits.index_put((torch.tensor(rows), torch.tensor(token_ids)), logits.new_tensor(float("-inf")))


def _sample_all(scaled: torch.Tensor, params: Sequence[SamplingParams], uniforms: torch.Tensor) -> torch.Tensor:
    return _inverse_cdf(scaled.softmax(dim=-1), uniforms).squeeze(1)


def _sample_filtered(scaled: torch.Tensor, params: Sequence[SamplingParams], uniforms: torch.Tensor) -> torch.Tensor:
    # Sorted by probability, every filter is a cut. As in vLLM, top_p is a share of what min_p and top_k have left.
    scaled, token_ids = scaled.sort(dim=-1, descending=True)
    probs = scaled.softmax(dim=-1)
    rank = torch.arange(probs.shape[1], device=probs.device)
    keep = probs >= _column([param.min_p for param in params], probs.device) * probs[:, :1]
    keep &= rank < _column([param.top_k or probs.shape[1] for param in params], probs.device)
    probs = probs * keep
    # What counts for top_p is the probability in front of a token: the one that passes the threshold is still in.
    top_p = _column([param.top_p for param in params], probs.device) * probs.sum(dim=-1, keepdim=True)
    weights = probs * (probs.cumsum(dim=-1) - probs < top_p)
    return token_ids.gather(1, _inverse_cdf(weights, uniforms)).squeeze(1)


def _inverse_cdf(weights: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """The place in each row where the running sum of the weights passes its share ``uniforms``: [num_rows, 1]."""
    cumulative = weights.double().cumsum(dim=-1)
    threshold = uniforms.double() * cumulative[:, -1:]
    # Rounding must not choose a place behind the last weight.
    last = (weights > 0).long().cumsum(dim=-1).argmax(dim=-1, keepdim=True)
    return torch.searchsorted(cumulative, threshold, right=True).minimum(last)


def _column(values: Sequence[float], device: torch.device) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32, device=device).unsqueeze(1)


def verify(sampled: Sequence[int], drafts: Sequence[int]) -> list[int]:
    """The tokens that a request may keep.

    ``sampled[i]`` was sampled at the position of ``drafts[i]``, given the drafts before it, and the last one behind all
    of them. As long as a draft is what was sampled anyway, the next position counts too. A draft is one certain guess,
    so this is rejection sampling: the outcome has the model's own distribution, and with a seed it is the text without
    drafts.
    """
    kept = []
    for i, token_id in enumerate(sampled):
        kept.append(token_id)
        if i < len(drafts) and drafts[i] != token_id:
            break
    return kept


def token_logprobs(logits: torch.Tensor, token_id: int, num_top: int) -> TokenLogprobs:
    """Log-probabilities for one row of logits, [vocab_size]."""
    logprobs = logits.float().log_softmax(dim=-1)
    values, ids = logprobs.topk(num_top)
    top = dict(zip(ids.tolist(), values.tolist(), strict=True))
    return TokenLogprobs(token_id, float(logprobs[token_id]), top)
