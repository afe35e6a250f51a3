"""Points follow from the labels by the lesson's fixed rule."""

from itertools import product

import pytest

from autograder.judging.rubric.points import points

LABELS = (0, 0.5, 1)
OF_SUM = {0.5: 0.5, 1: 0.5, 1.5: 1, 2: 1.5, 2.5: 1.5, 3: 2}


@pytest.mark.parametrize("labels", list(product(LABELS, repeat=3)))
def test_points_are_two_thirds_of_the_sum_rounded_to_halves(labels: tuple[float, float, float]) -> None:
    _, state, chain = labels
    earned = chain > 0 or state > 0
    assert points(*labels) == (OF_SUM[sum(labels)] if earned else 0)


@pytest.mark.parametrize("labels", list(product(LABELS, repeat=3)))
def test_a_veto_takes_everything(labels: tuple[float, float, float]) -> None:
    assert points(*labels, veto="peak_as_general") == 0


@pytest.mark.parametrize("labels", list(product(LABELS, repeat=3)))
def test_a_factual_error_leaves_at_most_a_point_and_nothing_without_a_chain(
    labels: tuple[float, float, float],
) -> None:
    given = points(*labels, factual_error=True)
    assert given == (0 if labels[2] == 0 else min(points(*labels), 1))


def test_objects_alone_earn_nothing() -> None:
    assert points(1, 0, 0) == 0


@pytest.mark.parametrize("labels", [(0.25, 0, 0), (0, 2, 0), (0, 0, -1)])
def test_another_label_is_refused(labels: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match=r"a label is 0, 0\.5 or 1"):
        points(*labels)
