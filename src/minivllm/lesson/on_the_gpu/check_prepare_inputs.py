"""The check of `prepare_inputs`: a student's way from a schedule to the kernels' inputs, beside the engine's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from minivllm.lesson.common.checks import Student, Wrong, call_on_copies, report, same
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.on_the_gpu.batch_step import MIXED, BatchStep, batch_steps, engine_inputs

_LOADS = (
    MIXED,
    Load([Arrival("P", prompt=19, shared=16), Arrival("Q", prompt=21, shared=16, step=1)], budget=16, block_size=8),
    Load([Arrival("X", prompt=7), Arrival("Y", prompt=7)], budget=16, blocks=5),  # Y is preempted and comes back
)
_STEPS = 6


@dataclass(frozen=True)
class _Token:
    """A scheduled token: the `index`-th new one of its request."""

    request: dict[str, Any]
    index: int
    block_size: int

    @property
    def position(self) -> int:
        return int(self.request["computed"]) + self.index

    @property
    def block(self) -> int:
        return int(self.request["block_ids"][self.position // self.block_size])

    @property
    def offset(self) -> int:
        return self.position % self.block_size


_ByToken = Callable[[_Token], int]
_OF_TOKENS: dict[str, tuple[tuple[_ByToken, str], ...]] = {
    "positions": (
        (lambda t: t.index, "this counts from the start of the step; the computed tokens come first"),
        (lambda t: t.position + 1, "this counts from 1; the first token of a sequence has position 0"),
    ),
    "slot_mapping": (
        (lambda t: t.block, "this is the block id; a block has block_size slots, so it starts at id * block_size"),
        (
            lambda t: t.block * t.block_size,
            "this is the first slot of the block; the token's place in it, position % block_size, is missing",
        ),
        (lambda t: t.position, "this is the position; blocks lie in any order, and the row of block ids says where"),
        (lambda t: t.block + t.offset, "the block id is not multiplied by block_size"),
        (
            lambda t: t.block * t.block_size + t.index % t.block_size,
            "the place in the block comes from the position, not from the count within the step",
        ),
        (
            lambda t: t.block * t.block_size + t.position,
            "the whole position was added; its part in the block is enough",
        ),
    ),
}
_BySize = Callable[[Sequence[dict[str, Any]]], list[int]]


def _sums(numbers: Sequence[int]) -> list[int]:
    return [sum(numbers[:count]) for count in range(len(numbers) + 1)]


_OF_REQUESTS: dict[str, tuple[tuple[_BySize, str], ...]] = {
    "query_start_loc": (
        (
            lambda rs: [0, *(r["scheduled"] for r in rs)],
            "these are the counts; each entry is where a request's tokens begin, the sum of all counts before it",
        ),
        (
            lambda rs: _sums([r["computed"] + r["scheduled"] for r in rs]),
            "this sums whole sequences; the batch holds the scheduled tokens alone",
        ),
        (
            lambda rs: [0, *(r["computed"] + r["scheduled"] for r in rs)],
            "these are the lengths of the sequences; each entry is where a request's tokens begin in the batch",
        ),
    ),
    "seq_lens": (
        (
            lambda rs: [r["computed"] for r in rs],
            "these are the tokens before the step; its own tokens are written before attention reads, so they count",
        ),
        (
            lambda rs: [r["scheduled"] for r in rs],
            "these are the tokens of the step; attention also reads those computed before",
        ),
    ),
}
_WHY = {
    "positions": "a token's place in its sequence: computed before the step, plus its count within the step",
    "slot_mapping": "block id * block_size + position % block_size; the id is the row's at position // block_size",
    "query_start_loc": "where each request's tokens begin in the batch, and the end: running sums of scheduled",
    "seq_lens": "tokens of the sequence after the step: computed plus scheduled",
    "block_table": "one row a request, all equally long: its block ids, then padding that nobody reads",
}


def check_prepare_inputs(function: Student) -> None:
    """Call `function(requests, block_size)` on steps of real schedulers, and compare with the engine's InputBatch."""
    report("prepare_inputs", lambda: _compare(function))


def _compare(function: Student) -> str:
    steps = [step for load in _LOADS for step in batch_steps(load, _STEPS)]
    inputs = [_ask(function, step) for step in steps]
    for name in _WHY:
        for step, given in zip(steps, inputs, strict=True):
            difference = _difference(name, step, given[name])
            if difference:
                raise Wrong(*difference, _belief(name, steps, [given[name] for given in inputs]) or _WHY[name])
    return f"{len(steps)} steps of {len(_LOADS)} loads give the engine's tensors"


def _ask(function: Student, step: BatchStep) -> dict[str, Any]:
    value = call_on_copies(
        "prepare_inputs",
        function,
        step.requests,
        step.block_size,
        expected="five lists by name",
        why="positions count from 0, and a row has one block id for every block_size positions; asked for "
        f"{[request['id'] for request in step.requests]} with block_size {step.block_size}",
        owner="these are requests: the scheduler owns them, and the runner only reads",
    )
    if not isinstance(value, dict) or not set(_WHY) <= set(value):
        raise Wrong("prepare_inputs", f"a dict with {', '.join(_WHY)}", value, "keep the last line as it is")
    return value


def _difference(name: str, step: BatchStep, actual: Any) -> tuple[str, str, str] | None:
    expected = engine_inputs(step.batch)[name]
    if name == "block_table":
        return _table_difference(step, expected, actual)
    if not isinstance(actual, list) or len(actual) != len(expected):
        return (name, repr(expected), repr(actual))
    index = next((i for i, pair in enumerate(zip(expected, actual, strict=True)) if not same(*pair)), None)
    if index is None:
        return None
    return (f"{name}[{index}]{_whose(name, step, index)}", repr(expected[index]), repr(actual[index]))


def _whose(name: str, step: BatchStep, index: int) -> str:
    if name in _OF_TOKENS:
        token = _tokens(step)[index]
        return f", {token.request['id']} at position {token.position} with blocks {token.request['block_ids']}"
    return f", {step.requests[index]['id']}" if index < len(step.requests) else ", the end"


def _table_difference(step: BatchStep, expected: list[list[int]], actual: Any) -> tuple[str, str, str] | None:
    width = len(expected[0])
    if not isinstance(actual, list) or any(not isinstance(row, list) or len(row) != width for row in actual):
        return ("block_table", f"{len(expected)} rows of {width} block ids", repr(actual))
    for request, row, right in zip(step.requests, actual, expected, strict=False):
        used = -(-(request["computed"] + request["scheduled"]) // step.block_size)
        if not same(row[:used], right[:used]):
            return (f"block_table row of {request['id']}", repr(right[:used]), repr(row[:used]))
    return None if len(actual) == len(expected) else ("block_table", f"{len(expected)} rows", f"{len(actual)} rows")


def _tokens(step: BatchStep) -> list[_Token]:
    return [_Token(r, index, step.block_size) for r in step.requests for index in range(r["scheduled"])]


def _belief(name: str, steps: Sequence[BatchStep], answers: Sequence[Any]) -> str | None:
    """The wrong idea that gives every one of the answers."""
    for by_token, sentence in _OF_TOKENS.get(name, ()):
        if all(same(answer, [by_token(t) for t in _tokens(step)]) for step, answer in zip(steps, answers, strict=True)):
            return sentence
    for by_size, sentence in _OF_REQUESTS.get(name, ()):
        if all(same(answer, by_size(step.requests)) for step, answer in zip(steps, answers, strict=True)):
            return sentence
    return None
