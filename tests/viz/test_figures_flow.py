"""Figure 2-2 as the source has it."""

from minivllm.viz.figures import schedule_flow
from minivllm.viz.figures.flow import _NODES, _PATHS
from tests.viz.pictures import assert_every_text_lies_inside

WAYS = {
    ("start", "running", ""),
    ("running", "need", "yes"),
    ("running", "any", "no"),
    ("need", "running", "0"),
    ("need", "allocate", "> 0"),
    ("allocate", "charge", "yes"),
    ("charge", "running", ""),
    ("allocate", "preempt", "no"),
    ("preempt", "allocate", "victim is another"),
    ("preempt", "any", "victim is itself"),
    ("any", "output", "yes"),
    ("any", "waiting", "no"),
    ("waiting", "output", "no"),
    ("waiting", "lookup", "yes"),
    ("lookup", "admit", ""),
    ("admit", "output", "no"),
    ("admit", "enter", "yes"),
    ("enter", "waiting", ""),
    ("output", "gpu", ""),
    ("gpu", "update", ""),
}


def test_the_ways_through_a_step_are_those_of_the_source() -> None:
    assert {(path.start, path.end, " ".join(path.label.split())) for path in _PATHS} == WAYS


def test_running_is_served_before_waiting_and_a_refused_admission_never_preempts() -> None:
    ways = {(start, end) for start, end, _ in WAYS}
    assert [start for start, end in ways if end == "preempt"] == ["allocate"]
    assert [end for start, end in ways if start == "start"] == ["running"]
    assert {end for start, end in ways if start == "admit"} == {"enter", "output"}


def test_every_way_starts_at_its_box_and_ends_at_its_box() -> None:
    for path in _PATHS:
        (x0, y0), (x1, y1) = path.points[0], path.points[-1]
        start, end = _NODES[path.start], _NODES[path.end]
        assert abs(x0 - start.x) + abs(y0 - start.y) <= 0.15 and abs(x1 - end.x) + abs(y1 - end.y) <= 0.15, path
        assert all(a[0] == b[0] or a[1] == b[1] for a, b in zip(path.points, path.points[1:], strict=False)), path


def test_every_box_is_drawn_and_no_text_is_cut_off() -> None:
    picture = schedule_flow()
    drawn = [text.get_text() for text in picture.figure.axes[0].texts]
    assert [node.text for node in _NODES.values() if node.text not in drawn] == []
    assert_every_text_lies_inside(picture)


def test_the_alt_text_walks_through_the_step_in_order() -> None:
    told = schedule_flow().alt
    order = [told.index(words) for words in ("RUNNING requests", "victim", "WAITING requests", "update_from_output")]
    assert order == sorted(order)
    assert "if not, the loop ends and nobody is preempted" in told
