"""What a run cost: every position that was computed twice is counted."""

import pytest

from minivllm.lesson import Arrival, Load, costs, record
from minivllm.lesson.common.cost import Cost, cost
from minivllm.lesson.preemption import questions as preemption


def test_a_cost_counts_the_positions_that_were_computed_twice() -> None:
    load = preemption.GOES_ON
    assert cost(record(load)) == Cost(steps=19, scheduled=102, recomputed=16, preemptions=1, most_running=2)
    least = sum(arrival.prompt + arrival.max_tokens - 1 for arrival in load.arrivals)
    assert 102 - 16 == least


@pytest.mark.parametrize("load", [*preemption.THRASH.values(), *preemption.CAPS.values()])
def test_without_recomputation_every_position_is_scheduled_once(load: Load) -> None:
    it = cost(record(load))
    assert it.scheduled - it.recomputed == sum(arrival.prompt + arrival.max_tokens - 1 for arrival in load.arrivals)


def test_the_caps_of_question_three_give_the_numbers_of_the_facts() -> None:
    found = {name: cost(record(load)) for name, load in preemption.CAPS.items()}
    assert {name: (it.scheduled, it.steps, it.recomputed) for name, it in found.items()} == {
        "max_num_seqs=2": (712, 240, 0),
        "max_num_seqs=4": (850, 164, 138),
        "max_num_seqs=8": (952, 149, 240),
    }
    config = preemption.CAPS["max_num_seqs=8"].config
    assert (config.scheduler.policy, config.scheduler.watermark, config.scheduler.scheduler_reserve_full_isl) == (
        "fcfs",
        0.0,
        True,
    )
    assert config.cache.enable_prefix_caching


def test_a_run_that_ends_before_its_requests_do_names_them() -> None:
    load = Load([Arrival("A", prompt=4, max_tokens=1), Arrival("B", prompt=40)], blocks=4)
    assert costs({"small": record(load)}).note == "small ended without B"


def test_a_run_without_steps_costs_nothing() -> None:
    assert repr(costs({"nobody": record(Load([]))})).split()[-6:] == ["nobody", "0", "0", "0", "0", "0"]
