import io
import struct
from itertools import combinations

import pytest

from minivllm.lesson import Arrival, Load
from minivllm.lesson.common.run import Run
from minivllm.viz.figures import Bar, budget_figure, to_html

WORKED = [
    Bar("A", "running", computed=6, scheduled=1, drafts=3, target=10),
    Bar("B", "waiting", computed=0, scheduled=4, drafts=0, target=7),
]


def texts(bars: list[Bar], budget: int) -> list[str]:
    figure = budget_figure(bars, budget).figure
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_every_segment_carries_its_number() -> None:
    assert texts(WORKED, 8) == ["A: 4", "B: 4", "6", "1", "3", "4", "3"]


def test_budget_that_is_left_is_labelled() -> None:
    assert texts(WORKED[1:], 6)[:2] == ["B: 4", "left: 2"]


def test_the_alt_text_says_what_the_picture_shows() -> None:
    assert budget_figure(WORKED, 8).alt == (
        "Token budget 8, 0 left. "
        "A (running): 6 computed before, 1 known and 3 drafts scheduled, 0 remaining. "
        "B (waiting): 0 computed before, 4 known scheduled, 3 remaining."
    )


def test_kinds_of_segments_differ_in_hatch_as_well_as_in_colour() -> None:
    legend = budget_figure(WORKED, 8).figure.legends[0]
    looks = [(patch.get_hatch() or "", patch.get_facecolor()) for patch in legend.get_patches()]
    assert len(looks) == 4
    assert len({hatch for hatch, _ in looks}) == len({colour for _, colour in looks}) == 4


def test_the_legend_names_only_what_is_there() -> None:
    legend = budget_figure(WORKED[1:], 6).figure.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["scheduled: known tokens", "remaining gap"]


def test_labels_of_narrow_segments_stand_above_them_and_inside_the_figure() -> None:
    bars = [Bar("A", "running", computed=200, scheduled=1, drafts=0, target=201)]
    figure = budget_figure(bars, 256).figure
    figure.savefig(io.BytesIO(), format="png")  # lays the figure out
    frame = figure.bbox
    for axes in figure.axes:
        for text in axes.texts:
            box = text.get_window_extent()
            assert frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
    assert [text.get_verticalalignment() for text in figure.axes[0].texts] == ["bottom", "center"]


@pytest.mark.parametrize("shares", [(1, 1), (1, 1, 1, 60), (2,) * 12, (1,) * 40, (24, 24, 1, 1, 1)])
def test_no_label_of_a_bar_stands_on_another(shares: tuple[int, ...]) -> None:
    bars = [Bar(f"r{i}", "running", 40 - i, share, 1, 50 - i + share) for i, share in enumerate(shares)]
    figure = budget_figure(bars, 96).figure
    figure.savefig(io.BytesIO(), format="png")  # lays the figure out
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts]
        assert boxes and [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])] == []
        assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)


def test_two_narrow_shares_are_both_told() -> None:
    bars = [Bar(name, "running", computed=8, scheduled=1, drafts=0, target=9) for name in "AB"]
    assert [text.get_text() for text in budget_figure(bars, 64).figure.axes[0].texts] == ["A: 1", "B: 1", "left: 62"]


@pytest.mark.parametrize("bars", [[], WORKED, WORKED * 6], ids=["idle", "two", "twelve"])
def test_a_picture_of_any_step_is_drawn(bars: list[Bar]) -> None:
    buffer = io.BytesIO()
    budget_figure(bars, 48).figure.savefig(buffer, format="png", dpi=100)
    width, height = struct.unpack(">II", buffer.getvalue()[16:24])
    assert width == 720 and height >= 150


def test_html_is_one_inline_image_with_its_alt_text_escaped() -> None:
    html = to_html(budget_figure([Bar('<"x">', "running", computed=0, scheduled=1, drafts=0, target=1)], 8))
    assert html.startswith('<img alt="Token budget 8, 7 left. &lt;&quot;x&quot;&gt; (running):')
    assert 'src="data:image/svg+xml;base64,' in html


def test_a_step_is_a_picture_with_the_table_as_its_twin() -> None:
    run = Run(Load([Arrival("A", prompt=6, drafts=3), Arrival("B", prompt=7, step=1)]))
    run.step()
    step = run.step()
    html = step._repr_html_()
    assert "A (running): 6 computed before, 1 known and 3 drafts scheduled, 0 remaining." in html
    assert "<summary>The same as a table</summary>" in html
    assert "budget 8: 8 scheduled, 0 left" in html
    assert repr(step).splitlines()[2:] == [
        "A        running  6         10      4    4",
        "B        waiting  0         7       7    4",
        "budget 8: 8 scheduled, 0 left",
    ]


def test_a_padded_newcomers_placeholders_count_as_drafts_and_its_hit_as_computed() -> None:
    load = Load(
        [Arrival("A", prompt=6, drafts=3, shared=4), Arrival("B", prompt=5, drafts=3, shared=4, step=1)], budget=16
    )
    run = Run(load)
    run.step()
    assert "B (waiting): 4 computed before, 1 known and 3 drafts scheduled, 0 remaining." in run.step()._repr_html_()
