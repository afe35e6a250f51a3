"""The views of a prefix cache: hash chains, what is filed, the free queue."""

import pytest

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig
from minivllm.core.sched.scheduler import Scheduler
from minivllm.lesson import hash_chain, prefix_cache, serve
from minivllm.lesson.common.errors import LessonError


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


def test_a_block_taken_out_on_purpose_leaves_a_hole_that_ends_the_hit() -> None:
    scheduler = engine(block_size=4, num_gpu_blocks=9)
    serve(scheduler, "A", range(14))
    scheduler.kv_cache_manager.evict_blocks([2])
    assert serve(scheduler, "A again", range(14)).hit == 4
