"""A step of a run beside the same step of vLLM's trace: the first thing that differs, and the rule behind it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """Where the run left the trace, or why it could not go on: then `expected` is None and `actual` says it."""

    object: str
    expected: Any
    actual: Any
    why: str = ""


_ROW = {
    "kind": "where it came from",
    "n": "tokens scheduled",
    "c": "tokens computed before",
    "hit": "tokens from the prefix cache",
    "spec": "drafts to verify",
    "bt": "block table",
    "nb": "new blocks",
}
_QUEUES = {"run": "running", "wait": "waiting", "nfree": "free blocks", "fq": "free queue"}
RULES = {
    "preempted": "a running request preempts while allocate_slots finds too few free blocks for it, and never else",
    "sched": "running ones first, in the order of admission, then the head of waiting, if every gate lets it in",
    "kind": "a request that was preempted comes back as resumed",
    "n": "the gap, cut to the budget that is left; a resumed request computes prompt and outputs behind its hit",
    "c": "a preempted request starts again from its prefix hit",
    "hit": "whole cached blocks below num_tokens - 1",
    "spec": "the drafts that the budget still holds; a preempted request has none",
    "bt": "the hit's blocks first, then blocks from the head of the free queue",
    "nb": "only the blocks that the table lacked",
    "run": "admission appends to running, a preemption takes out of it",
    "wait": "fcfs puts a preempted request in front of waiting, the priority heap in its normal place",
    "nfree": "a block is free when no table holds it any more",
    "fq": "a table is freed tail first: blocks without a hash to the front of the free queue, hashed ones to its end",
    "ref": "one reference for each table that holds the block, no more and no less",
    "cached": "a freed block keeps its hash until somebody takes the block",
    "out": "the model's token for the last known position; outputs survive a preemption",
    "comp": "computed moves by the scheduled tokens, and a preemption sets it to 0",
    "drafts": "drafts follow the known tokens",
    "fin_ids": "a finished request is reported once",
}


def first_difference(
    expected: dict[str, Any], actual: dict[str, Any], why: Callable[[str, Any, Any], str]
) -> Finding | None:
    """Two steps in the form of a trace.

    Args:
        why: told a key of RULES, vLLM's value and the run's, gives the reason.
    """
    for rule, name, wanted, got in _pairs(expected, actual):
        if wanted != got:
            return Finding(name, wanted, got, why(rule, wanted, got))
    return None


def _pairs(expected: dict[str, Any], actual: dict[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    """What to compare, the telling things first: the rule behind it, its name, vLLM's value and yours."""
    yield "preempted", "preempted", expected["preempted"], actual["preempted"]
    yield "sched", "scheduled requests", _ids(expected["sched"]), _ids(actual["sched"])
    for wanted, got in zip(expected["sched"], actual["sched"], strict=False):
        for key, name in _ROW.items():
            yield key, f"{wanted['id']}: {name}", wanted.get(key, ()), got.get(key, ())
    yield from _state_pairs("after schedule()", expected["A"], actual["A"])
    yield from _entry_pairs("out", "output of {}", expected["out"], actual["out"])
    yield from _entry_pairs("comp", "num_computed_tokens of {}", expected["comp"], actual["comp"])
    yield from _entry_pairs("drafts", "drafts of {}", expected.get("drafts", {}), actual.get("drafts", {}))
    yield "fin_ids", "finished requests", expected["fin_ids"], actual["fin_ids"]
    after = [{**step["A"], **step["B"]} for step in (expected, actual)]
    yield from _state_pairs("after update_from_output()", after[0], after[1])


def _state_pairs(when: str, expected: dict[str, Any], actual: dict[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    for key in ("run", "wait"):
        yield key, f"{_QUEUES[key]} {when}", expected[key], actual[key]
    refs = [dict(state["ref"]) for state in (expected, actual)]
    yield from _entry_pairs("ref", f"ref count of block {{}} {when}", refs[0], refs[1], missing=0)
    cached = [{_hash(row): row[2:] for row in state["cached"]} for state in (expected, actual)]
    yield from _entry_pairs("cached", f"blocks with hash {{}} {when}", cached[0], cached[1], missing=[])
    for key in ("nfree", "fq"):
        yield key, f"{_QUEUES[key]} {when}", expected[key], actual[key]


def _entry_pairs(
    rule: str, name: str, expected: dict[Any, Any], actual: dict[Any, Any], missing: Any = "nothing"
) -> Iterator[tuple[str, str, Any, Any]]:
    for key in [*expected, *(key for key in actual if key not in expected)]:
        yield rule, name.format(key), expected.get(key, missing), actual.get(key, missing)


def _ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


def _hash(row: list[int]) -> str:
    return f"{row[0]} of group {row[1]}" if row[1] else str(row[0])
