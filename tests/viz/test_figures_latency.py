"""Latencies: nothing measured is left out, and the marks are the median and p99 of what was measured."""

import math
import random
import statistics

import pytest

from minivllm.bench.machine import percentile
from minivllm.viz.figures import latency_figure
from tests.viz.pictures import assert_every_text_lies_inside, xs, ys

ITL = {"budget 2048": [0.02 + 0.001 * (i % 7) for i in range(120)] + [0.4, 0.5], "budget 128": [0.03] * 50}


def test_every_measurement_is_a_dot_in_the_row_of_its_label() -> None:
    axes = latency_figure(ITL, title="ITL").figure.axes[0]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [text.get_text() for text in axes.get_yticklabels()] == list(ITL)
    for row, (line, seconds) in enumerate(zip(dots, ITL.values(), strict=True)):
        assert xs(line) == [1000 * value for value in seconds]
        assert all(row - 0.25 <= height <= row + 0.25 for height in ys(line))


def test_the_line_is_the_median_and_the_diamond_is_p99() -> None:
    axes = latency_figure(ITL, title="ITL").figure.axes[0]
    diamonds = [xs(line)[0] for line in axes.lines if line.get_marker() == "D"]
    medians = [xs(line)[0] for line in axes.lines if line.get_marker() == "None"]
    assert medians == [1000 * statistics.median(seconds) for seconds in ITL.values()]
    assert diamonds == [1000 * percentile(seconds, 99) for seconds in ITL.values()]


@pytest.mark.parametrize(("count", "rank"), [(1, 1), (2, 2), (99, 99), (100, 99), (101, 100), (200, 198), (1000, 990)])
def test_p99_is_the_smallest_value_that_99_percent_do_not_exceed(count: int, rank: int) -> None:
    values = [float(value) for value in range(1, count + 1)]
    random.Random(0).shuffle(values)
    assert percentile(values, 99) == rank


def test_the_alt_text_tells_count_median_p99_and_range() -> None:
    assert latency_figure({"b": [0.3, 0.1, 0.2]}, title="TTFT").alt == (
        "TTFT. b: 3 measured, median 200 ms, p99 300 ms, from 100 to 300 ms."
    )


def test_a_second_and_more_is_told_in_seconds() -> None:
    assert "median 1.5 s, p99 2 s" in latency_figure({"b": [1.0, 1.5, 2.0]}, title="TTFT").alt


@pytest.mark.parametrize(
    "latencies",
    [ITL, {"one": [1.2]}, {"zero": [0.0]}, {f"a rather long label {i}": [0.1, 0.01 * i + 0.001] for i in range(9)}],
    ids=["ITL", "one", "zero", "nine"],
)
def test_no_text_is_cut_off(latencies: dict[str, list[float]]) -> None:
    assert_every_text_lies_inside(latency_figure(latencies, title="ITL of 8 decodes beside a prompt of 4,000 tokens"))


@pytest.mark.parametrize("seconds", [[], [math.nan], [math.inf], [-0.1]])
def test_what_is_no_latency_is_refused_by_its_label(seconds: list[float]) -> None:
    with pytest.raises(
        ValueError, match=r"latency_figure: 'slow' holds .*, but must hold at least one number of seconds"
    ):
        latency_figure({"fast": [0.1], "slow": seconds}, title="ITL")


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="latencies is empty"):
        latency_figure({}, title="ITL")
