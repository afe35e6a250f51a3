"""Figures of a whole run: their numbers are the run's, whatever the run."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.patches import StepPatch

from minivllm.core.sched.scheduler import Scheduler
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.common.run import record
from minivllm.observe.recording import Recording
from minivllm.viz.figures import Picture, block_occupancy, budget_over_time, timeline
from tests.viz.pictures import CROWDED, assert_every_text_lies_inside, assert_told_apart_without_colour, crowded, xs, ys

Draw = Callable[[Recording], Picture]
FIGURES = [budget_over_time, block_occupancy, timeline]
figure = pytest.mark.parametrize("draw", FIGURES)


def layers(picture: Picture) -> list[list[float]]:
    """The thickness of each stacked area, one value a step."""
    areas = [patch for patch in picture.figure.axes[0].patches if isinstance(patch, StepPatch)]
    thickness = []
    for area in areas:
        ceiling, _, floor = area.get_data()
        thickness.append([float(height) for height in np.asarray(ceiling) - np.asarray(floor)])
    return thickness


def test_the_tokens_of_a_step_add_up_to_what_was_scheduled() -> None:
    recording = crowded()
    prefill, decode, drafts = layers(budget_over_time(recording))
    for frame, *parts in zip(recording.frames, prefill, decode, drafts, strict=True):
        assert sum(parts) == frame.output.total_num_scheduled_tokens
        assert parts[2] == sum(map(len, frame.output.scheduled_spec_decode_tokens.values()))


def test_a_prompt_is_prefill_a_sampled_token_is_decode_and_so_is_nothing_else() -> None:
    recording = record(Load([Arrival("L", prompt=20, max_tokens=3)], budget=8))
    prefill, decode, drafts = layers(budget_over_time(recording))
    assert (prefill, decode, drafts) == ([8, 8, 4, 0, 0], [0, 0, 0, 1, 1], [0] * 5)


def test_a_last_chunk_of_one_token_is_prefill() -> None:
    recording = record(Load([Arrival("L", prompt=9, max_tokens=2)], budget=8))
    prefill, decode, _ = layers(budget_over_time(recording))
    assert (prefill, decode) == ([8, 1, 0], [0, 0, 1])


def test_what_a_resumed_request_computes_again_is_prefill() -> None:
    recording = crowded()
    (first, *_) = [frame for frame in recording.frames if frame.output.scheduled_resumed_reqs]
    again = sum(r.scheduled for r in first.requests if r.request_id in first.admitted)
    assert layers(budget_over_time(recording))[0][first.index] >= again > 0


def test_the_budget_is_a_dashed_line_and_is_left_out_where_it_is_far_above() -> None:
    picture = budget_over_time(crowded())
    (line,) = picture.figure.axes[0].lines
    assert (line.get_linestyle(), set(ys(line))) == ("--", {CROWDED.budget})
    far = budget_over_time(record(Load([Arrival("A", prompt=6)], budget=2048)))
    assert far.figure.axes[0].get_ylim()[1] < 10
    assert "budget 2048 (above the picture)" in [text.get_text() for text in far.figure.legends[0].get_texts()]


def test_owned_cached_and_free_blocks_add_up_to_the_pool() -> None:
    recording = crowded()
    used, cached, free = layers(block_occupancy(recording))
    for frame, *parts in zip(recording.frames, used, cached, free, strict=True):
        assert sum(parts) == CROWDED.blocks - 1
        assert parts[0] == frame.num_used_blocks
        assert parts[1] == sum(frame.blocks[block].hash_number is not None for block in frame.free_queue)


def test_preemptions_are_marked_above_their_steps() -> None:
    recording = crowded()
    marks = block_occupancy(recording).figure.axes[0].lines[0]
    assert xs(marks) == [frame.index for frame in recording.frames if frame.preempted]
    quiet = block_occupancy(record(Load([Arrival("A", prompt=6)])))
    assert "a preemption" not in [text.get_text() for text in quiet.figure.legends[0].get_texts()]


def test_the_timeline_follows_every_request_through_every_step_of_its_life() -> None:
    recording = crowded()
    told = timeline(recording).alt
    for request_id in (arrival.request_id for arrival in CROWDED.arrivals):
        sentence = re.search(rf"\b{request_id}: (.*?)\.", told)
        assert sentence is not None
        steps = [
            step
            for first, last in re.findall(r" (\d+)(?: to (\d+))?", f" {sentence[1]}")
            for step in range(int(first), int(last or first) + 1)
        ]
        assert steps == [f.index for f in recording.frames if request_id in [r.request_id for r in f.requests]]


def test_the_timeline_says_who_was_preempted_and_when_it_came_back() -> None:
    recording = crowded()
    told = timeline(recording).alt
    for frame in recording.frames:
        for request_id in frame.preempted:
            assert re.search(rf"{request_id}: [^.]*preempted {frame.index}\b", told)
        for data in frame.output.scheduled_resumed_reqs:
            assert re.search(rf"{data.req_id}: [^.]*resumed {frame.index}\b", told)


def test_a_running_request_that_gets_no_token_is_told_apart_from_a_waiting_one() -> None:
    load = Load([Arrival(name, prompt=2, drafts=3) for name in "ABC"], budget=8)
    (frame, *_) = [f for f in record(load).frames if not f.output.num_scheduled_tokens.get("C")]
    assert frame.running == ("A", "B", "C")
    assert re.search(rf"C: prefill 0, held {frame.index}", timeline(record(load)).alt)


@figure
def test_areas_are_told_apart_without_colour(draw: Draw) -> None:
    legend = draw(crowded()).figure.legends[0]
    assert_told_apart_without_colour(legend.get_patches())
    assert len(legend.get_patches()) >= 3


@figure
@pytest.mark.parametrize("requests", [1, 4, 40])
def test_no_text_is_cut_off(draw: Draw, requests: int) -> None:
    load = Load([Arrival(f"request-{i}", prompt=9, step=i) for i in range(requests)], budget=16, blocks=30)
    assert_every_text_lies_inside(draw(record(load)))


@figure
def test_a_picture_is_an_image_whose_alt_text_a_terminal_prints(draw: Draw) -> None:
    picture = draw(crowded())
    assert repr(picture) == picture.alt
    assert picture._repr_html_().startswith(f'<img alt="{picture.alt}" src="data:image/svg+xml;base64,')
    assert picture._repr_html_() == draw(crowded())._repr_html_()


@figure
def test_a_recording_without_a_step_says_what_to_do(draw: Draw) -> None:
    recording = Recording(Scheduler(CROWDED.config))
    with pytest.raises(ValueError, match=f"{draw.__name__}: the recording holds no step: let its scheduler take"):
        draw(recording)
