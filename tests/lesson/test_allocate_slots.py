"""The notebook 3-allocate-slots: practice is checked beside the engine, wrong ideas are named, numbers are the engine's."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from minivllm.config import SchedulerConfig
from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_utils import KVCacheBlock
from minivllm.core.single_type_kv_cache_manager import cdiv
from minivllm.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec
from minivllm.lesson import (
    Arrival,
    Load,
    ______,
    check_allocate_slots,
    check_free,
    check_get_num_blocks_to_allocate,
    play,
    record_slots,
    regions,
    run_slots,
    watch_tables,
)
from minivllm.lesson.allocate_slots import gate_questions, questions
from minivllm.lesson.allocate_slots.in_engine import LOADS
from minivllm.lesson.allocate_slots.regions import PoolView
from minivllm.lesson.allocate_slots.slot_states import ASKING, LEAVING
from minivllm.lesson.common.errors import LessonError
from minivllm.lesson.predictions import QUESTIONS
from tests.lesson.notebooks import code_cells, execute, printed, prose, released, solved, source

NAME = "3-allocate-slots"
Blocks = list[KVCacheBlock]
blank: Any = ______
BLANK = "the blank ______ is not filled in: replace every ______ by your own expression and run the cell again"


# ---- what a reader may write


def num_blocks(num_tokens: int, table: Blocks, hit: Blocks, block_size: int) -> int:
    num_new = max(cdiv(num_tokens, block_size) - len(table) - len(hit), 0)
    return num_new + sum(block.ref_cnt == 0 for block in hit)


def without_free_hits(num_tokens: int, table: Blocks, hit: Blocks, block_size: int) -> int:
    return max(cdiv(num_tokens, block_size) - len(table) - len(hit), 0)


def mutates(num_tokens: int, table: Blocks, hit: Blocks, block_size: int) -> int:
    table.append(KVCacheBlock(99))
    return num_blocks(num_tokens, table[:-1], hit, block_size)


WRONG_COUNTS: dict[str, tuple[Callable[..., Any], str]] = {
    "rounds down": (lambda t, table, hit, s: t // s, "round up"),
    "one more than full blocks": (lambda t, table, hit, s: t // s + 1, "need no further one"),
    "forgets the table": (
        lambda t, table, hit, s: max(cdiv(t, s) - len(hit), 0) + sum(b.ref_cnt == 0 for b in hit),
        "its table holds 3 blocks already",
    ),
    "forgets the hit": (lambda t, table, hit, s: max(cdiv(t, s) - len(table), 0), "they are in no queue"),
    "counts every hit block": (
        lambda t, table, hit, s: max(cdiv(t, s) - len(table) - len(hit), 0) + len(hit),
        "they are in no queue",
    ),
    "forgets free hits": (without_free_hits, "forgot that free hit blocks leave the free queue"),
    "goes below 0": (
        lambda t, table, hit, s: cdiv(t, s) - len(table) - len(hit) + sum(b.ref_cnt == 0 for b in hit),
        "never below 0",
    ),
    "changes the table": (mutates, "it only counts"),
    "divides": (lambda t, table, hit, s: t / s, "a whole number of blocks is wanted"),
    "returns nothing": (lambda *args: None, "a whole number of blocks is wanted"),
    "raises": (lambda *args: args[9], "IndexError: tuple index out of range"),
    "takes fewer arguments": (lambda t: t, "takes 1 positional argument but 4 were given"),
    "is a blank": (lambda *args: blank, BLANK),
    "uses a blank": (lambda *args: blank + 1, BLANK),
}


def slots(
    order: str = "check touch take",
    *,
    count: Callable[..., int] = num_blocks,
    lookahead: bool = True,
    fits: Callable[[int, int], bool] = lambda needed, free: needed <= free,
    missing: Callable[[int, int], int] = lambda needed, lacking: max(lacking, 0),
    returns: Callable[[Blocks, Blocks], Any] = lambda new, table: new,
) -> Callable[..., Any]:
    """An `allocate_slots`, right unless it is told otherwise."""

    def allocate_slots(
        pool: BlockPool, table: Blocks, computed: int, new: int, num_lookahead: int, hit: Blocks, size: int
    ) -> Any:
        num_tokens = computed + new + (num_lookahead if lookahead else 0)
        needed = count(num_tokens, table, hit, size)
        new_blocks: Blocks = []
        for part in order.split():
            if part == "check" and not fits(needed, pool.get_num_free_blocks()):
                return None
            if part == "touch":
                pool.touch(hit)
            if part in ("touch", "extend"):
                table.extend(hit)
            if part == "take":
                new_blocks = pool.get_new_blocks(missing(needed, cdiv(num_tokens, size) - len(table)))
                table.extend(new_blocks)
        return returns(new_blocks, table)

    return allocate_slots


WRONG_ALLOCATIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "touches before the check": (slots("touch check take"), "touched before the capacity check"),
    "pops before the check": (slots("touch take check"), "popped before the check"),
    "pops without a check": (slots("touch take"), "popped before the check"),
    "takes before it touches": (slots("check take touch"), "touch the hit and put it into the table first"),
    "does not touch": (slots("check extend take"), "the hit is not touched once"),
    "forgets free hits": (slots(count=without_free_hits), "includes the hit's own free blocks"),
    "forgets lookahead": (slots(lookahead=False), "lookahead forgotten"),
    "refuses an exact fit": (slots(fits=lambda needed, free: needed < free), "an exact fit is enough"),
    "pops what leaves the queue": (slots(missing=lambda needed, lacking: needed), "take only what the table lacks"),
    "pops a negative number": (slots(missing=lambda needed, lacking: lacking), "a negative number of blocks"),
    "returns the table": (slots(returns=lambda new, table: list(table)), "without the hit's"),
    "returns a number": (slots(returns=lambda new, table: len(new)), "the new blocks in a list, or None"),
    "always refuses": (lambda *args: None, "13 tokens fit: enough blocks are free"),
    "raises": (lambda *args: 1 / 0, "ZeroDivisionError: division by zero"),
    "is a blank": (lambda *args: blank, BLANK),
}


def freeing(
    *,
    forwards: bool = False,
    drops: int = 1,
    only_unowned: bool = True,
    ends: Callable[[Blocks, Blocks], tuple[Blocks, Blocks]] = lambda without_hash, with_hash: (without_hash, with_hash),
    clears: bool = True,
    keeps_hashes: bool = True,
) -> Callable[[BlockPool, Blocks], None]:
    """A `free`, right unless it is told otherwise."""

    def free(pool: BlockPool, table: Blocks) -> None:
        freed = []
        for block in table if forwards else reversed(table):
            block.ref_cnt -= drops
            if block.ref_cnt == 0 or not only_unowned:
                freed.append(block)
        without_hash = [block for block in freed if block.block_hash is None]
        front, end = ends(without_hash, [block for block in freed if block.block_hash is not None])
        pool.free_block_queue.prepend_n(front)
        pool.free_block_queue.append_n(end)
        for block in [] if keeps_hashes else freed:
            block.block_hash = None
        if clears:
            table.clear()

    return free


WRONG_FREES: dict[str, tuple[Callable[..., Any], str]] = {
    "forwards": (freeing(forwards=True), "freed forwards"),
    "forwards, everything to the end": (freeing(forwards=True, ends=lambda u, h: ([], [*h, *u])), "freed forwards"),
    "everything to the end": (freeing(ends=lambda u, h: ([], [*u, *h])), "goes to the front, not to the end"),
    "everything to the front": (freeing(ends=lambda u, h: ([*u, *h], [])), "goes to the end, not to the front"),
    "keeps the references": (freeing(drops=0), "each block of the table loses one reference"),
    "frees what others hold": (freeing(only_unowned=False), "while another table holds it"),
    "keeps the table": (freeing(clears=False), "freed twice"),
    "drops two references": (freeing(drops=2), "each block of the table loses one reference"),
    "does nothing": (lambda pool, table: None, "each block of the table loses one reference"),
    "puts a block in twice": (freeing(ends=lambda u, h: ([*u, *h], h)), "into the free queue twice"),
    "clears hashes": (freeing(keeps_hashes=False), "a freed block keeps its hash"),
    "raises": (lambda pool, table: 1 / 0, "ZeroDivisionError"),
    "is a blank": (lambda pool, table: blank.append_n(table), BLANK),
}


# ---- practice checks


def test_right_functions_pass_in_every_state(capsys: pytest.CaptureFixture[str]) -> None:
    check_get_num_blocks_to_allocate(num_blocks)
    check_allocate_slots(slots())
    check_free(freeing())
    assert capsys.readouterr().out.splitlines() == [
        f"get_num_blocks_to_allocate: ok, {len(ASKING)} states as in minivllm.core",
        f"allocate_slots: ok, {len(ASKING)} states as in minivllm.core",
        f"free: ok, {len(LEAVING)} states as in minivllm.core, each freed twice",
    ]


def test_the_pools_own_free_passes_too(capsys: pytest.CaptureFixture[str]) -> None:
    def free(pool: BlockPool, table: Blocks) -> None:
        pool.free_blocks(reversed(table))
        table.clear()

    check_free(free)
    assert capsys.readouterr().out.startswith("free: ok")


@pytest.mark.parametrize("idea", WRONG_COUNTS)
def test_a_wrong_count_is_named(idea: str, capsys: pytest.CaptureFixture[str]) -> None:
    function, sentence = WRONG_COUNTS[idea]
    check_get_num_blocks_to_allocate(function)
    told = capsys.readouterr().out
    assert sentence in told and ": ok" not in told


@pytest.mark.parametrize("idea", WRONG_ALLOCATIONS)
def test_a_wrong_allocation_is_named(idea: str, capsys: pytest.CaptureFixture[str]) -> None:
    function, sentence = WRONG_ALLOCATIONS[idea]
    check_allocate_slots(function)
    told = capsys.readouterr().out
    assert sentence in told and ": ok" not in told


@pytest.mark.parametrize("idea", WRONG_FREES)
def test_a_wrong_free_is_named(idea: str, capsys: pytest.CaptureFixture[str]) -> None:
    function, sentence = WRONG_FREES[idea]
    check_free(function)
    told = capsys.readouterr().out
    assert sentence in told and ": ok" not in told


def test_states_cover_sharing_partial_blocks_lookahead_spare_blocks_and_refusals() -> None:
    built = [state.build() for state in ASKING]
    assert any(hit.ref_cnt for s in built for hit in s.hit_blocks)
    assert any(hit.ref_cnt == 0 for s in built for hit in s.hit_blocks)
    assert any(s.num_tokens_need_slot % s.block_size for s in built)
    assert any(s.num_lookahead_tokens for s in built)
    assert any(len(s.table) > cdiv(s.num_tokens_need_slot, s.block_size) for s in built)
    assert sum(s.allocate() is None for s in built) == 4
    assert len({state.name for state in (*ASKING, *LEAVING)}) == len(ASKING) + len(LEAVING)


# ---- the functions in a scheduler


@pytest.mark.parametrize("load", ["sharing", "pressure", "drafter"])
def test_right_functions_agree_with_the_engine_to_the_end(load: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_slots(slots(), freeing(), load)
    assert re.search(r"^\d+ calls, every one as the engine's\.$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    ("allocate_slots", "free", "load", "sentence"),
    [
        (slots(), freeing(), "watermark", "First difference, step 1, allocate_slots(B): result: yours new 11 12 13 14, engine None"),
        (slots(), freeing(), "gate", "First difference, step 1, allocate_slots(B): result: yours new 6 7 8 9 10, engine None"),
        (slots(), freeing(forwards=True), "sharing", "First difference, step 3, free(A): free queue: yours [7, 8, 9, 3, 4], engine [7, 8, 9, 4, 3]"),
        (slots("check extend take"), freeing(), "sharing", "First difference, step 1, allocate_slots(B): ref counts: yours {1: 1,"),
        (slots("touch check take"), freeing(), "pressure", "First difference, step 3, allocate_slots(B): ref counts: yours {1: 1, 2: 1, 3: 1, 4: 1}"),
        (slots(lookahead=False), freeing(), "drafter", "First difference, step 0, allocate_slots(A): result: yours new 1 2, engine new 1 2 3"),
        (slots("touch take"), freeing(), "pressure", "Stopped in step 2, allocate_slots(A): it raised ValueError"),
        (slots(), freeing(ends=lambda u, h: ([*u, *h], h)), "sharing", "Stopped in step 3, free(A): the free queue is broken"),
        (lambda *args: blank, freeing(), "sharing", f"Stopped in step 0, allocate_slots(A): {BLANK}"),
        (lambda *args: ["x"], freeing(), "sharing", "Stopped in step 0, allocate_slots(A): it returned ['x'], not a list of blocks or None"),
        (slots(), lambda pool, table: blank + 1, "sharing", f"Stopped in step 3, free(A): {BLANK}"),
        (lambda *args: None, freeing(), "sharing", "First difference, step 0, allocate_slots(A): result: yours None, engine new 1 2 3 4"),
    ],
)  # fmt: skip
def test_the_first_difference_is_told_by_step_call_and_object(
    allocate_slots: Callable[..., Any],
    free: Callable[..., Any],
    load: str,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_slots(allocate_slots, free, load)
    assert sentence in capsys.readouterr().out


def test_a_reader_may_run_a_load_of_ones_own_and_an_unknown_or_hybrid_one_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_slots(slots(), freeing(), Load([Arrival("A", prompt=9)]))
    assert "every one as the engine's" in capsys.readouterr().out
    with pytest.raises(LessonError, match="there is no load 'shared'; the loads are sharing, pressure"):
        run_slots(slots(), freeing(), "shared")
    with pytest.raises(LessonError, match="this load has 2 KV cache groups"):
        record_slots(slots(), freeing(), gate_questions.HYBRID)


def test_a_run_of_ones_own_functions_is_recorded_step_by_step(capsys: pytest.CaptureFixture[str]) -> None:
    recording = record_slots(slots(), freeing(), "pressure")
    assert [frame.preempted for frame in recording.frames if frame.preempted] == [("B",)]
    assert not capsys.readouterr().out
    stopped = record_slots(slots(), lambda pool, table: 1 / 0, "pressure")
    assert len(stopped.frames) < len(recording.frames)
    assert "Stopped in step 2: it raised ZeroDivisionError" in capsys.readouterr().out


def shorter_table(pool: BlockPool, table: Blocks, *args: Any) -> Blocks:
    return pool.get_new_blocks(1)


def same_block_twice(pool: BlockPool, table: Blocks, *args: Any) -> Blocks:
    new_blocks = pool.get_new_blocks(1)
    table.extend([*new_blocks, *new_blocks])
    return new_blocks


def stranger(pool: BlockPool, table: Any, *args: Any) -> Blocks:
    table.append(3)
    return []


@pytest.mark.parametrize("load", LOADS)
def test_no_function_however_wrong_ends_a_run_with_an_error(load: str, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = [function for function, _ in WRONG_ALLOCATIONS.values()]
    for allocate_slots in (*wrong, shorter_table, same_block_twice, stranger):
        run_slots(allocate_slots, freeing(), load)
        play(record_slots(allocate_slots, freeing(), load))
        play(record_slots(allocate_slots, freeing(only_unowned=False), load))
    for free, _ in WRONG_FREES.values():
        run_slots(slots(), free, load)
        play(record_slots(slots(), free, load))
    told = capsys.readouterr().out
    assert "First difference, step" in told and "Stopped in step" in told


# ---- the views


def test_regions_tell_null_owned_and_free_blocks_with_the_queue_in_order() -> None:
    pool = BlockPool(5)
    pool.touch(pool.get_new_blocks(1))
    table = regions(pool)
    assert [tuple(row) for row in table.rows] == [
        ("null", 1, "0"),
        ("owned", 1, "1 (ref 2)"),
        ("free, cached", 0, "-"),
        ("free, not cached", 3, "2, 3, 4"),
    ]
    assert table.note.endswith("2 3 4")
    pool.get_new_blocks(3)
    assert regions(pool).note.endswith(": empty")


def test_a_free_queue_whose_links_run_in_a_circle_is_not_walked_for_ever_and_is_called_broken() -> None:
    pool = BlockPool(4)
    (block,) = pool.get_new_blocks(1)
    for _ in range(2):
        pool.free_block_queue.prepend_n([block])
    view = PoolView.of(pool)
    assert view.tangled and len(view.free) < 4
    assert regions(pool).note.endswith("(broken: 4 are counted)")


def test_tables_show_one_column_a_group_and_null_blocks_left_of_the_window() -> None:
    shown = watch_tables(gate_questions.HYBRID)
    assert [column for column in shown.columns if "group" in column] == ["block table, group 0", "block table, group 1"]
    assert shown.rows[1][5].split()[:3] == ["0", "0", "0"]  # type: ignore[attr-defined]


# ---- the notebook


def test_the_solved_notebook_agrees_with_the_engine_until_a_gate_matters(tmp_path: Path) -> None:
    shown = {cell.source: printed(cell) for cell in code_cells(execute(solved(NAME, "zh"), tmp_path))}
    assert all(": ok, " in text for line, text in shown.items() if line.startswith("check_"))
    runs = {m[1]: text for line, text in shown.items() if (m := re.match(r'run_slots\(.*"(\w+)"\)', line))}
    assert list(runs) == list(LOADS)
    assert [load for load, text in runs.items() if "First difference" in text] == ["watermark", "gate"]


def test_the_released_notebook_asks_for_every_blank_and_goes_on(tmp_path: Path) -> None:
    notebook = execute(released(NAME, "en"), tmp_path, allow_errors=True)
    assert not [output for cell in code_cells(notebook) for output in cell.outputs if output.output_type == "error"]
    asking = [
        cell for cell in code_cells(notebook) if cell.source.startswith(("check_", "run_slots", "play(record_slots"))
    ]
    assert len(asking) == 3 + len(LOADS) + 1 and all(BLANK in printed(cell) for cell in asking)


@pytest.mark.parametrize(
    ("question", "numbers"),
    [
        ("free_queue", {questions.FREE_ORDER.arrivals[0].prompt, questions.FREE_ORDER.blocks - 1}),
        ("hit_leaves_the_queue", {a.prompt for a in questions.HIT.arrivals[1:]} | {questions.HIT.arrivals[1].shared}),
        ("ref_of_a_hit", {questions.SHARING.arrivals[1].prompt, questions.SHARING.arrivals[1].shared}),
        ("blocks_needed", {questions.BLOCKS.arrivals[0].prompt}),
        ("blocks_of_a_hit", {questions.HIT.arrivals[1].prompt, questions.HIT.arrivals[1].shared}),
        ("lookahead", {questions.LOOKAHEAD.arrivals[0].prompt, 4}),
        ("refused", {questions.REFUSED.blocks - 1, questions.REFUSED.arrivals[2].prompt, 8}),
        ("watermark", {gate_questions.WATERMARK.blocks, 10, 9, 4, 15}),
        ("full_sequence_gate", {gate_questions.GATE.blocks - 1, gate_questions.GATE.budget, gate_questions.GATE.arrivals[1].prompt}),
        ("gate_reserves_nothing", {gate_questions.RESERVE.blocks - 1, gate_questions.RESERVE.budget, 8, 24, 20}),
        ("gate_and_decode", {gate_questions.DECODES.blocks - 1, gate_questions.DECODES.arrivals[0].prompt, 4}),
        ("window_blocks", {gate_questions.HYBRID.arrivals[0].prompt, 8, 41}),
    ],
)  # fmt: skip
def test_the_prose_before_a_prediction_gives_the_numbers_of_its_load(question: str, numbers: set[int]) -> None:
    cells = source(NAME).cells
    place = next(i for i, cell in enumerate(cells) if cell.source.startswith(f'predict("{question}"'))
    for cell in cells[place - 2 : place]:
        assert numbers <= set(map(int, re.findall(r"\d+", cell.source))), (question, cell.metadata.lang)


def test_numbers_in_the_explanations_are_the_engines() -> None:
    english, chinese = "\n".join(prose(NAME, "en")), "\n".join(prose(NAME, "zh"))
    actual = {name: QUESTIONS[name].answer().actual for name in ("free_queue", "hit_leaves_the_queue", "refused")}
    queue = f"`{' '.join(map(str, actual['free_queue'].values()))}`"
    assert queue in english and queue in chinese
    assert QUESTIONS["refused"].answer().why["free blocks"].startswith("5 blocks would leave the queue")
    assert "It needs 5 blocks out of the queue" in english and "它要从队列里拿走 5 个块" in chinese
    held = {len([b for b in str(row[5]).split() if b != "0"]) for row in watch_tables(gate_questions.HYBRID).rows[1:]}
    assert held == {2, 3} and "it holds 2 or 3 blocks" in english and "它只持有 2 或 3 个块" in chinese
    default = SchedulerConfig()
    assert (default.watermark, default.scheduler_reserve_full_isl) == (0.0, True)
    assert "its default is 0.0: off" in english and "默认值是 0.0，即关闭" in chinese


def test_what_the_change_it_cells_ask_for_can_be_found() -> None:
    admitted = [
        watermark
        for watermark in (0.25, 0.29, 0.3)
        if "waiting"
        not in [row[2] for row in watch_tables(replace(gate_questions.WATERMARK, watermark=watermark)).rows]
    ]
    assert admitted == [0.25, 0.29]  # int(0.3 * 20) = 6 is the smallest that keeps B out
    rows = {w: watch_tables(replace(gate_questions.RESERVE, watermark=w)).rows for w in (0.0, 0.3)}
    assert "preempted" in [row[2] for row in rows[0.0]] and "preempted" not in [row[2] for row in rows[0.3]]
    assert rows[0.3][-1][0] > rows[0.0][-1][0]  # type: ignore[operator]


def test_the_loads_in_the_cells_are_those_of_the_questions() -> None:
    names = {
        "Load": Load, "Arrival": Arrival, "FullAttentionSpec": FullAttentionSpec,
        "SlidingWindowSpec": SlidingWindowSpec, "watch_tables": lambda load: load, "watch_load": lambda load: load,
    }  # fmt: skip
    cells = [c.source[c.source.index("watch_") :] for c in code_cells(source(NAME)) if "watch_" in c.source]
    shown = [eval(code, names) for code in cells]
    expected = [
        questions.HIT,
        replace(gate_questions.WATERMARK, watermark=0.3),
        gate_questions.RESERVE,
        replace(gate_questions.HYBRID, arrivals=[Arrival("A", prompt=20, max_tokens=12)]),
    ]
    assert [(load.config, load.arrivals) for load in shown] == [(load.config, load.arrivals) for load in expected]


def test_comments_beside_the_runs_say_what_their_loads_are() -> None:
    comments = {
        m[1]: m[2]
        for cell in code_cells(source(NAME))
        if (m := re.match(r'run_slots\(.*"(\w+)"\)  # (.*)', cell.source))
    }
    gate = LOADS["gate"]
    assert comments == {
        "pressure": f"{LOADS['pressure'].blocks - 1} usable blocks for two requests that grow",
        "drafter": f"a draft model with {LOADS['drafter'].lookahead} drafts a step",
        "watermark": f"watermark={LOADS['watermark'].watermark}",
        "gate": f"a prompt of {gate.arrivals[1].prompt} tokens, a budget of {gate.budget}, 5 free blocks",
    }
