"""The check of `my_paged_attention`, the second Triton kernel that a student completes: beside torch in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from minivllm.lesson.common.checks import Wrong, report
from minivllm.lesson.on_the_gpu.kernel_launch import (
    HEAD_SIZE,
    NUM_HEADS,
    NUM_KV_HEADS,
    PoisonedCase,
    launch_paged_attention,
    launched,
    poisoned_cases,
    require_kernel,
)

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class _Idea:
    """How one row attends; the defaults are right, and each wrong idea changes one of them."""

    sentence: str = ""
    visible: Callable[[torch.Tensor, int, int], torch.Tensor] = lambda key, position, seq_len: key <= position
    block: Callable[[list[list[int]], int, int], int] = lambda tables, seq, index: tables[seq][index]
    scale: Callable[[float], float] = lambda scale: scale
    shrink: Callable[[torch.Tensor], torch.Tensor] = lambda difference: difference.exp()
    total_shrinks: bool = True
    weighted_shrinks: bool = True
    total_grows: bool = True
    weighted_grows: bool = True


_IDEAS = (
    _Idea("the scale is missing: scores are products * scale", scale=lambda scale: 1.0),
    _Idea("the products were divided by the scale; it is 1 / sqrt(head size) already", scale=lambda scale: 1 / scale),
    _Idea(
        "no key is masked: behind the last token the block holds what others left, here NaN",
        visible=lambda key, position, seq_len: key >= 0,
    ),
    _Idea(
        "a token sees keys behind its own position: mask by position, not by the sequence's length",
        visible=lambda key, position, seq_len: key < seq_len,
    ),
    _Idea("a token sees its own key, too: <=, not <", visible=lambda key, position, seq_len: key < position),
    _Idea("the mask is the wrong way round", visible=lambda key, position, seq_len: key > position),
    _Idea(
        "the sequence's first, second, ... block was taken for block 0, 1, ... of the pool; the table says which it is",
        block=lambda tables, seq, index: index,
    ),
    _Idea(
        "every block was the sequence's first; entry start // BLOCK_SIZE is wanted",
        block=lambda tables, seq, index: tables[seq][0],
    ),
    _Idea(
        "every sequence read the first row of the table; its own begins at seq * table_width",
        block=lambda tables, seq, index: tables[0][index],
    ),
    _Idea("weighted was not shrunk: its old terms are relative to the old largest", weighted_shrinks=False),
    _Idea("total was not shrunk: its old terms are relative to the old largest", total_shrinks=False),
    _Idea("neither sum was shrunk when a larger score turned up", total_shrinks=False, weighted_shrinks=False),
    _Idea(
        "shrink is tl.exp(largest - new_largest): at most 1, and 0 before the first block",
        shrink=lambda difference: (-difference).exp(),
    ),
    _Idea("total was replaced, not added to", total_grows=False),
    _Idea("weighted was replaced, not added to", weighted_grows=False),
)  # fmt: skip


def check_paged_attention(kernel: Any) -> None:
    """Launch a student's kernel on a step's queries, and compare with the torch twin in float64."""
    report("my_paged_attention", lambda: compare(kernel))


def compare(kernel: Any) -> str:
    """Raises NotYet or Wrong where it does not agree with the twin."""
    import torch

    from minivllm.kernels import reference

    require_kernel("my_paged_attention", kernel)
    for case in map(PoisonedCase.written, poisoned_cases()):
        right = torch.full_like(case.query, float("nan"), dtype=torch.float64).cpu()
        _attend(partial(reference.paged_attention, right), case, torch.float64, torch.device("cpu"))
        found = _found(kernel, case)
        if not _close(found, right):
            raise Wrong(*_first_wrong_row(case, found, right), _why(kernel, case, found))
    return "a verification, a decode and two prompt chunks agree with torch in float64"


def _attend(attention: Callable[..., None], case: PoisonedCase, dtype: torch.dtype, device: torch.device) -> None:
    meta = case.step.batch.attn_metadata
    tensors = [meta.block_table, meta.seq_lens, meta.query_start_loc]
    attention(
        case.query.to(device, dtype),
        case.kv_cache.to(device, dtype),
        *(tensor.to(device) for tensor in tensors),
        scale=HEAD_SIZE**-0.5,
        max_query_len=meta.max_query_len,
    )


def _found(kernel: Any, case: PoisonedCase) -> torch.Tensor:
    """What the student's kernel computes, [tokens, heads, head size]. Raises Wrong where it can't be launched."""
    import torch

    out = torch.full_like(case.query, float("nan"))
    launch = partial(launch_paged_attention, kernel, out)
    launched("my_paged_attention", kernel, partial(_attend, launch, case, torch.float32, case.query.device))
    return out.double().cpu()


_ATTENTION_WHY = "compare each blank with the online softmax in Python above, line by line"
_FOREIGN = "NaN was read from memory that holds none of this sequence's keys: look at block and at visible"


def _why(kernel: Any, case: PoisonedCase, found: torch.Tensor) -> str:
    """The wrong idea behind a result. NaN hides it: so the kernel runs once more, with numbers in foreign slots."""
    other = case.written(elsewhere=0.5)
    try:
        again = _found(kernel, other)
    except Wrong:
        return _ATTENTION_WHY
    for idea in _IDEAS:
        if _close(again, _attended(other, idea)) and _close(found, _attended(case, idea)):
            return idea.sentence
    return _FOREIGN if bool(found.isnan().any()) and not bool(again.isnan().any()) else _ATTENTION_WHY


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    import torch

    return torch.allclose(one, other, rtol=1e-4, atol=1e-5, equal_nan=True)


def _first_wrong_row(case: PoisonedCase, found: torch.Tensor, right: torch.Tensor) -> tuple[str, str, str]:
    token = next(t for t in range(len(right)) if not _close(found[t], right[t]))
    request, index = next(
        (r, token - start)
        for r, start in zip(case.step.requests, case.step.batch.attn_metadata.query_start_loc.tolist(), strict=False)
        if start <= token < start + r["scheduled"]
    )
    head = next(h for h in range(NUM_HEADS) if not _close(found[token, h], right[token, h]))
    where = f"{request['id']} at position {request['computed'] + index}, head {head}, first 3 of {HEAD_SIZE} elements"
    expected, actual = ([round(x, 4) for x in rows[token, head, :3].tolist()] for rows in (right, found))
    return (where, str(expected), str(actual))


def _attended(case: PoisonedCase, idea: _Idea) -> torch.Tensor:
    """All rows by the online softmax as `idea` has it, in float64."""
    import torch

    cache, query, size = case.kv_cache.double().cpu(), case.query.double().cpu(), case.step.block_size
    out = torch.full_like(query, float("nan"))
    tables = case.step.batch.attn_metadata.block_table.tolist()
    token = 0
    for seq, request in enumerate(case.step.requests):
        seq_len = request["computed"] + request["scheduled"]
        for position in range(request["computed"], seq_len):
            for head in range(NUM_HEADS):
                keys = cache[:, :, head // (NUM_HEADS // NUM_KV_HEADS)]
                ids = [idea.block(tables, seq, index) for index in range(position // size + 1)]
                out[token, head] = _row(query[token, head], keys[ids], position, seq_len, size, idea)
            token += 1
    return out


def _row(
    query: torch.Tensor, blocks: torch.Tensor, position: int, seq_len: int, size: int, idea: _Idea
) -> torch.Tensor:
    import torch

    largest, total = torch.tensor(float("-inf")).double(), torch.zeros(()).double()
    weighted = torch.zeros_like(query)
    for start in range(0, position + 1, size):
        visible = idea.visible(torch.arange(start, start + size), position, seq_len)
        entry = blocks[start // size]
        entry = torch.where(visible[:, None], entry, torch.zeros_like(entry))
        key, value = entry.chunk(2, dim=-1)
        products = (key @ query) * idea.scale(HEAD_SIZE**-0.5)
        scores = torch.where(visible, products, torch.full_like(products, float("-inf")))
        new_largest = torch.maximum(largest, scores.max())
        weights = (scores - new_largest).exp()
        shrink = idea.shrink(largest - new_largest)
        total = (total * shrink if idea.total_shrinks else total) * idea.total_grows + weights.sum()
        weighted = (weighted * shrink if idea.weighted_shrinks else weighted) * idea.weighted_grows + weights @ value
        largest = new_largest
    return weighted / total
