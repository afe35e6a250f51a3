"""The requests that the tests of ``unified_token_plan`` ask with."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from autograder.judging.reference.unified_token_plan import Request

Requests = list[dict[str, Any]]
BOTH = ("running", "waiting")
OTHERS = (
    "preempted",
    "finished",
    "finished_stopped",
    "finished_length_capped",
    "finished_aborted",
    "swapped",
    "paused",
    "pending",
    "waiting_for_remote_kvs",
    "waiting_for_grammar",
    "not_running",
    "Running",
    "Waiting",
    "RUNNING",
    "WAITING",
    "running ",
    "run",
    "wait",
)


def req(id: str, status: str, computed: int, total: int) -> dict[str, Any]:
    return {"id": id, "status": status, "computed": computed, "total_with_spec": total}


def need(requests: Iterable[Request]) -> int:
    return sum(r["total_with_spec"] - r["computed"] for r in requests)


def random_requests(rng: random.Random, count: int, statuses: Sequence[str]) -> Requests:
    """`count` requests with gaps of 1 to 20 tokens and ids whose order says nothing."""
    ids = rng.sample([f"r{i:03d}" for i in range(1000)], count)
    starts = [rng.choice([0, 0, rng.randrange(1, 60)]) for _ in ids]
    return [
        req(id, rng.choice(statuses), start, start + rng.randint(1, 20)) for id, start in zip(ids, starts, strict=True)
    ]


EXAMPLE = [req("prefill", "waiting", 0, 7), req("decode_or_spec", "running", 6, 10)]
