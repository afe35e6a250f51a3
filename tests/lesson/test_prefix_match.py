"""The notebook 2-prefix-match: its answers, its practice and what typical wrong answers are told, its prose and engine."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig
from minivllm.core.sched.scheduler import Scheduler
from minivllm.lesson import (
    ______,
    check_find_longest_cache_hit,
    check_hash_block_tokens,
    check_max_cache_hit_length,
    check_request_block_hasher,
    hash_chain,
    prefix_cache,
    record,
    run_lookup,
    serve,
)
from minivllm.lesson.common.errors import LessonError
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.common.run import MAX_STEPS, Run
from minivllm.lesson.predictions import QUESTIONS
from minivllm.lesson.prefix_match import questions as prefix_match
from minivllm.lesson.prefix_match.in_engine import LOADS
from minivllm.request import Request, SamplingParams
from tests.lesson.notebooks import code_cells, prose, source

NAME = "2-prefix-match"
BLANK = "the blank ______ is not filled in: replace every ______ by your own expression and run the cell again"
CHECKS: dict[str, Callable[[Any], None]] = {
    "hash_block_tokens": check_hash_block_tokens,
    "request_block_hasher": check_request_block_hasher,
    "max_cache_hit_length": check_max_cache_hit_length,
    "find_longest_cache_hit": check_find_longest_cache_hit,
}
RIGHT: dict[str, Sequence[str]] = {
    "hash_block_tokens": ["(parent_block_hash, token_ids, extra_keys)"],
    "request_block_hasher": ["len(token_ids) // block_size", "cache_salt and index == 0", "parent"],
    "max_cache_hit_length": ["request.num_tokens - 1"],
    "find_longest_cache_hit": ["max_length // block_size", "if block_id is None: break\n        hit.append(block_id)"],
}


def cell_of(grade_id: str) -> Any:
    (cell,) = [c for c in code_cells(source(NAME)) if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
    return cell


def student(grade_id: str, *answers: str) -> Any:
    """The released cell with each blank replaced by an answer, run as a student would; the function that it defines."""
    cell = cell_of(grade_id)
    stub = "\n".join(f"    {line}" for line in cell.metadata.minivllm.stub)
    code = re.sub(r"    ### BEGIN SOLUTION.*?### END SOLUTION", lambda _: stub, cell.source, flags=re.DOTALL)
    for answer in answers:
        assert "______" in code
        code = code.replace("______", answer, 1)
    namespace: dict[str, Any] = {"______": ______}
    for needed in ("hash_block_tokens",) if grade_id == "request_block_hasher" else ():
        namespace[needed] = student(needed, *RIGHT[needed])
    exec(code, namespace)
    return namespace[grade_id]


def told(grade_id: str, function: Any, capsys: pytest.CaptureFixture[str]) -> str:
    CHECKS[grade_id](function)
    return capsys.readouterr().out.strip()


# ---- predictions


def test_the_answers_are_those_of_vllm() -> None:
    answers = {q.name: list(q.answer().actual.values()) for q in prefix_match.QUESTIONS}
    assert answers == {
        "full_blocks": [2, 3, 3],
        "changed_chain": [0, 2, 0],
        "full_hit": [0, 0, 16, 48, 48, 64],
        "without_cap": ["runs", "error", "runs", "runs", "error", "runs"],
        "lookup": [0, 1, 0],
        "resume": [16, 1],
        "salts": [0, 32, 0],
        "twins": [64, 16],
        "duplicates": [5, 2, 1],
        "eviction": [8, 0],
        "eagle": [0, 32, 48],
        "block_size": [96, 64, 992, 960],
    }


def test_an_error_without_the_cap_is_the_refusal_of_a_step_without_tokens() -> None:
    why = QUESTIONS["without_cap"].answer().why
    assert why["64"].startswith("ValueError: allocate_slots('again'): num_new_tokens is 0, but must be at least 1")
    assert why["17"] == "hit 16: 1 of 17 tokens left to compute"


# ---- practice


@pytest.mark.parametrize("grade_id", CHECKS)
def test_the_right_answers_in_the_released_cell_pass_the_check(
    grade_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(grade_id, student(grade_id, *RIGHT[grade_id]), capsys).startswith(f"{grade_id}: ok, ")


@pytest.mark.parametrize("grade_id", CHECKS)
def test_the_released_cell_is_told_to_be_filled_in(grade_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(grade_id, student(grade_id), capsys) == f"{grade_id}: {BLANK}"


@pytest.mark.parametrize(
    ("grade_id", "answers", "words"),
    [
        ("hash_block_tokens", ["(token_ids, extra_keys)"], ["behind two different blocks", "without the parent"]),
        ("hash_block_tokens", ["(parent_block_hash, extra_keys)"], ["the block's tokens have to enter"]),
        ("hash_block_tokens", ["(parent_block_hash, token_ids)"], ["salts 'x' and 'y'", "one tenant hits"]),
        ("hash_block_tokens", ["(parent_block_hash, sorted(token_ids), extra_keys)"], ["order of the tokens"]),
        (
            "hash_block_tokens",
            ["(parent_block_hash, ''.join(map(str, token_ids)), extra_keys)"],
            ["where a token ends"],
        ),
        ("hash_block_tokens", ["hash_block_tokens.missing"], ["AttributeError", "the function raised"]),
        ("hash_block_tokens", ["token_ids.clear() or ('x',)"], ["a changed list", "read it, don't edit it"]),
        (
            "request_block_hasher",
            ["-(-len(token_ids) // block_size)", "cache_salt and index == 0", "parent"],
            ["18 tokens at block size 4", "4 hashes", "5 hashes", "only full blocks"],
        ),
        (
            "request_block_hasher",
            ["(len(token_ids) - 1) // block_size", "cache_salt and index == 0", "parent"],
            ["16 tokens at block size 4", "3 hashes", "full with its last token"],
        ),
        (
            "request_block_hasher",
            ["len(token_ids) // block_size", "cache_salt and index == 0", "None"],
            ["another first token", "as the parent of the next block"],
        ),
        (
            "request_block_hasher",
            ["len(token_ids) // block_size", "False", "parent"],
            ["salt 'x'", "the salt has to enter the first block"],
        ),
        ("max_cache_hit_length", ["request.num_tokens"], ["63", "64", "no position gives the logits"]),
        ("max_cache_hit_length", ["request.num_prompt_tokens - 1"], ["8 outputs", "comes back with its outputs"]),
        ("max_cache_hit_length", ["(request.num_tokens - 1) // 16 * 16"], ["48", "knows no block size"]),
        ("max_cache_hit_length", ["request.num_tokens - 16"], ["48", "knows no block size"]),
        ("max_cache_hit_length", ["request.num_computed_tokens"], ["num_computed_tokens or a hit of nothing"]),
        ("max_cache_hit_length", ["request.num_tokens - 2"], ["62", "all but the last"]),
        ("max_cache_hit_length", ["'63'"], ["'63'", "an int"]),
        ("max_cache_hit_length", ["None"], ["None", "an int"]),
        (
            "find_longest_cache_hit",
            ["None", "if block_id is None: break\n        hit.append(block_id)"],
            ["at most 63 tokens", "[1, 2, 3, 4]", "the bound is in tokens"],
        ),
        (
            "find_longest_cache_hit",
            ["-(-max_length // block_size)", "if block_id is None: break\n        hit.append(block_id)"],
            ["at most 63 tokens", "63 // 16 = 3"],
        ),
        (
            "find_longest_cache_hit",
            ["(max_length - 1) // block_size", "if block_id is None: break\n        hit.append(block_id)"],
            ["at most 64 tokens", "the - 1 of the cap is in max_length already"],
        ),
        (
            "find_longest_cache_hit",
            ["max_length // 16", "if block_id is None: break\n        hit.append(block_id)"],
            ["block size 4", "don't write another number"],
        ),
        (
            "find_longest_cache_hit",
            ["max_length // block_size", "if block_id is None: continue\n        hit.append(block_id)"],
            ["[1, 3, 4] cached", "goes on behind a hole"],
        ),
        ("find_longest_cache_hit", ["max_length // block_size", "hit.append(block_id)"], ["None is no block"]),
        ("find_longest_cache_hit", ["max_length // block_size", "pass"], ["[]", "nothing is kept"]),
        ("find_longest_cache_hit", ["max_length // block_size"], ["[]", "nothing is kept"]),
        (
            "find_longest_cache_hit",
            ["max_length // block_size", "hit.append(block_hash)"],
            ["these are hashes", "…"],
        ),
    ],
)
def test_a_wrong_idea_is_named(
    grade_id: str, answers: Sequence[str], words: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = told(grade_id, student(grade_id, *answers), capsys)
    assert shown.splitlines()[0].split() == ["object", "expected", "actual", "why"]
    assert [word for word in words if word not in shown] == []


@pytest.mark.parametrize("grade_id", CHECKS)
@pytest.mark.parametrize("nonsense", [None, 4, lambda: 1, lambda *_: None, lambda *_: ______, lambda *_: [______]])
def test_nonsense_is_told_in_one_message_and_raises_nothing(
    grade_id: str, nonsense: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = told(grade_id, nonsense, capsys)
    assert ": ok" not in shown
    assert len(shown.splitlines()) == 3 or shown == f"{grade_id}: {BLANK}"


# ---- the lookup beside the engine

find_longest_cache_hit = student("find_longest_cache_hit", *RIGHT["find_longest_cache_hit"])
max_cache_hit_length = student("max_cache_hit_length", *RIGHT["max_cache_hit_length"])
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
    (refused, admitted) = [frame for frame in _lookups("resumed") if frame[2] == 17]
    assert refused[0] + 1 == admitted[0] and refused[3] == admitted[3]


def _lookups(load: str) -> list[tuple[Any, ...]]:
    from minivllm.lesson.prefix_match.in_engine import compare_lookups

    return [tuple(row) for row in compare_lookups(find_longest_cache_hit, max_cache_hit_length, LOADS[load]).rows]


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


# ---- views


def engine(block_size: int, num_gpu_blocks: int) -> Scheduler:
    cache = CacheConfig(block_size, num_gpu_blocks)
    return Scheduler(EngineConfig(SchedulerConfig(max_num_batched_tokens=64), cache))


def test_hash_chain_shows_parents_tokens_salt_and_what_is_left_over() -> None:
    rows = hash_chain(range(10), 4, cache_salt="x").rows
    assert [row[0] for row in rows] == [0, 1]
    assert (rows[0][1], rows[0][2], rows[0][3]) == ("-", "0 1 2 3", "x")
    assert (rows[1][1], rows[1][3]) == (rows[0][4], "-")
    assert hash_chain(range(10), 4).note.startswith("2 tokens at the end fill no block")
    assert hash_chain(range(8), 4).note == ""


def test_prefix_cache_shows_twice_filed_hashes_and_the_free_queue() -> None:
    scheduler = engine(block_size=4, num_gpu_blocks=9)
    serve(scheduler, "A", range(8))
    serve(scheduler, "B", range(8))
    table = prefix_cache(scheduler)
    assert [row[1:] for row in table.rows] == [(1, 0, "yes"), (2, 0, "yes"), (3, 0, "yes")]
    assert table.rows[1][0] == table.rows[2][0]
    assert table.note == "free queue: [4, 5, 6, 7, 8, 2, 3, 1]"


def test_a_long_free_queue_is_cut() -> None:
    assert prefix_cache(engine(block_size=4, num_gpu_blocks=64)).note.endswith("16, …], 63 blocks")


def test_serve_refuses_what_it_cannot_run_and_says_why() -> None:
    scheduler = engine(block_size=4, num_gpu_blocks=64)
    with pytest.raises(LessonError, match="one step took 64 of 65 tokens; raise max_num_batched_tokens"):
        serve(scheduler, "long", range(65))
    with pytest.raises(LessonError, match="the scheduler still has long; make a new Scheduler"):
        serve(scheduler, "next", range(4))


# ---- prose and metadata


def test_the_cells_that_are_played_hold_the_loads_of_the_questions() -> None:
    played = [cell.source for cell in code_cells(source(NAME)) if cell.source.startswith("play(")]
    names = {"play": lambda recording: recording, "record": lambda load: load, "Load": Load, "Arrival": Arrival}
    resumed, duplicates = (eval(code, dict(names)) for code in played)
    assert (resumed, duplicates) == (LOADS["resumed"], prefix_match.DUPLICATES)
    assert all(len(record(load).frames) > 2 for load in (resumed, duplicates))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_prose_of_the_resumed_load_gives_its_numbers(language: str) -> None:
    load = LOADS["resumed"]
    (text,) = [t for t in prose(NAME, language) if re.match(r"## (A hit with outputs|带着输出的命中)", t)]
    a, b = (arrival.prompt for arrival in load.arrivals)
    known = next(row[2] for row in _lookups("resumed") if row[0] > 0)
    assert list(map(int, re.findall(r"\d+", text))) == [a, b, load.blocks - 1, load.block_size, known, known // 4]


def test_numbers_in_the_explanations_are_the_engines() -> None:
    text = "\n".join(prose(NAME, "en"))
    tables = {
        size: serve(Scheduler(EngineConfig(cache=CacheConfig(block_size=size))), "r", range(1000)) for size in (16, 64)
    }
    assert f"1000 tokens are {len(tables[16].table)} blocks of 16 or {len(tables[64].table)} blocks of 64" in text
    hits = QUESTIONS["full_hit"].answer().actual
    assert [name for name, hit in hits.items() if hit == int(name) - 1] == ["17", "65"]
    assert "only 17 and 65 come out at their length less 1" in text
    assert f"65 hits {QUESTIONS['eagle'].answer().actual['65']}" in text


def test_a_block_taken_out_on_purpose_leaves_a_hole_that_ends_the_hit() -> None:
    scheduler = engine(block_size=4, num_gpu_blocks=9)
    serve(scheduler, "A", range(14))
    scheduler.kv_cache_manager.evict_blocks([2])
    assert serve(scheduler, "A again", range(14)).hit == 4


def test_the_notebook_treats_its_claims() -> None:
    cells = [cell for cell in source(NAME).cells if cell.metadata.get("lang") == "en"]
    treated = {claim for cell in cells for claim in cell.metadata.get("minivllm", {}).get("claims", [])}
    assert treated == {7, 8, 9, 10, 11, 16, 17, 26, 27, 28, 29, 30, 35, 37}


def test_q2_is_graded_by_a_person_like_q1() -> None:
    def answers(name: str, grade_id: str) -> list[tuple[Any, Any]]:
        cells = [c for c in source(name).cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
        return [(c.metadata.nbgrader | {"grade_id": ""}, c.metadata.minivllm.stub) for c in cells]

    assert answers(NAME, "q2_answer") == answers("1-budget-planner", "q1_answer")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_criteria_stand_beside_q2_word_for_word_as_beside_q1(language: str) -> None:
    def criteria(name: str, question: str) -> list[str]:
        (text,) = [t for t in prose(name, language) if t.startswith(f"## {question}")]
        return [line for line in text.splitlines() if line.startswith("- ")]

    assert criteria(NAME, "Q2") == criteria("1-budget-planner", "Q1")
    assert len(criteria(NAME, "Q2")) == 4


def test_a_lookup_asks_about_the_request_as_it_is() -> None:
    request = Request("r", range(9), SamplingParams())
    assert max_cache_hit_length(request) == 8
    request.append_output_token_ids(1)
    assert max_cache_hit_length(request) == 9
