"""A lookup of the reader's own beside the engine, up to the first difference."""

from typing import Any

import pytest

from minivllm.lesson import ______, run_lookup
from minivllm.lesson.common.errors import LessonError
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.common.run import MAX_STEPS, Run
from minivllm.lesson.prefix_match.in_engine import LOADS
from minivllm.request import Request, SamplingParams
from tests.lesson.prefix_match.student import RIGHT, find_longest_cache_hit, lookup_rows, max_cache_hit_length, student

through_holes = student(
    "find_longest_cache_hit",
    RIGHT["find_longest_cache_hit"][0],
    "if block_id is None: continue\n        hit.append(block_id)",
)


@pytest.mark.parametrize(("load", "lookups"), [("shared", 3), ("whole", 3), ("resumed", 4)])
def test_a_right_lookup_agrees_with_the_engine_to_the_end(
    load: str, lookups: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run_lookup(find_longest_cache_hit, max_cache_hit_length, load)
    shown = capsys.readouterr().out
    assert shown.endswith(f"{lookups} lookups, every hit equals the engine's.\n") and "differs" not in shown


@pytest.mark.parametrize(
    ("cap", "load", "difference"),
    [
        ("num_tokens", "whole", "First difference, step 0: B knows 64 tokens; yours hits 64, the engine 48."),
        (
            "num_prompt_tokens - 1",
            "resumed",
            "First difference, step 9: B knows 17 tokens; yours hits 8, the engine 16.",
        ),
    ],
)
def test_a_wrong_cap_is_met_by_a_load(cap: str, load: str, difference: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_lookup(find_longest_cache_hit, eval(f"lambda request: request.{cap}"), load)
    assert capsys.readouterr().out.splitlines()[-1] == difference


def test_a_request_that_finds_no_room_is_looked_up_again_with_the_same_result() -> None:
    (refused, admitted) = [frame for frame in lookup_rows("resumed") if frame[2] == 17]
    assert refused[0] + 1 == admitted[0] and refused[3] == admitted[3]


def test_eviction_alone_leaves_no_hole_so_no_load_notices_a_missing_break(capsys: pytest.CaptureFixture[str]) -> None:
    for load in LOADS:
        run_lookup(through_holes, max_cache_hit_length, load)
        assert "First difference" not in capsys.readouterr().out


@pytest.mark.parametrize("seed", range(20))
def test_every_cached_block_has_a_cached_parent(seed: int) -> None:
    lengths = [4 + (seed * 7 + i * 11) % 37 for i in range(8)]
    arrivals = [
        Arrival(f"r{i}", prompt=n, shared=min(n, (0, 8, 21, 40)[(seed + i) % 4]), step=i * seed % 5, max_tokens=1 + i)
        for i, n in enumerate(lengths)
    ]
    run = Run(Load(arrivals, budget=(8, 24, 64)[seed % 3], blocks=(12, 16, 24)[seed % 3]))
    parents: dict[Any, Any] = {}
    cached = run.scheduler.kv_cache_manager.block_pool.cached_block_hash_to_block[0]
    while not run.finished and run.num_steps < MAX_STEPS:
        run.step()
        for request in run.scheduler.requests.values():
            parents |= zip(request.block_hashes[1:], request.block_hashes, strict=False)
        assert [h for h, _ in cached.items() if h in parents and cached.get_one_block(parents[h]) is None] == []
    assert parents


@pytest.mark.parametrize(
    ("find", "said"),
    [
        (lambda *_: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda *_: None, "a list of block ids is wanted"),
        (lambda *_: ______, "run_lookup: the blank ______ is not filled in"),
    ],
)
def test_a_lookup_that_raises_or_returns_nothing_is_told_in_one_row(
    find: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_lookup(find, max_cache_hit_length)
    line = capsys.readouterr().out.splitlines()[-1]
    assert said in line and line.startswith(("find_longest_cache_hit", "run_lookup"))


def test_an_unknown_load_lists_the_known_ones() -> None:
    with pytest.raises(LessonError, match="there is no load 'holes'; the loads are shared, whole, resumed, or give"):
        run_lookup(find_longest_cache_hit, max_cache_hit_length, "holes")


def test_a_lookup_asks_about_the_request_as_it_is() -> None:
    request = Request("r", range(9), SamplingParams())
    assert max_cache_hit_length(request) == 8
    request.append_output_token_ids(1)
    assert max_cache_hit_length(request) == 9
