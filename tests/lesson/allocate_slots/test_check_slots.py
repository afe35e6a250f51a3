"""The practice of 3-allocate-slots: right functions pass in every state, wrong ideas are named."""

import pytest

from minivllm.core.block_pool import BlockPool
from minivllm.core.single_type_kv_cache_manager import cdiv
from minivllm.lesson import check_allocate_slots, check_free, check_get_num_blocks_to_allocate
from minivllm.lesson.allocate_slots.slot_states import ASKING, LEAVING
from tests.lesson.allocate_slots.student import (
    WRONG_ALLOCATIONS,
    WRONG_COUNTS,
    WRONG_FREES,
    Blocks,
    freeing,
    num_blocks,
    slots,
)


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
