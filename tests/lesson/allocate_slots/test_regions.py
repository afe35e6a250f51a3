"""The views of a pool and of block tables."""

from minivllm.core.block_pool import BlockPool
from minivllm.lesson import regions, watch_tables
from minivllm.lesson.allocate_slots import gate_questions
from minivllm.lesson.allocate_slots.regions import PoolView


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
