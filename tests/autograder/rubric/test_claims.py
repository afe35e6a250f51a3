"""A right beginning with one more claim: false ones are found in any words, true ones that look like them are not."""

import pytest

from autograder.judging.rubric.scorer import score
from tests.autograder.rubric.claims import BASE, FALSE, NEAR_MISSES, TRUE, VETOES, claims


@pytest.mark.parametrize("question", list(BASE))
def test_the_beginnings_are_right(question: str) -> None:
    alone = score(question, BASE[question])
    assert alone.points == 1.5
    assert not alone.factual_error
    assert alone.veto is None


@pytest.mark.parametrize(("question", "claim"), claims(FALSE))
def test_a_false_claim_takes_the_answer_to_at_most_one_point(question: str, claim: str) -> None:
    found = score(question, BASE[question] + claim)
    assert found.factual_error or found.veto
    assert found.points <= 1


@pytest.mark.parametrize(("question", "claim"), claims(VETOES))
def test_a_vetoed_claim_voids_the_answer(question: str, claim: str) -> None:
    found = score(question, BASE[question] + claim)
    assert found.veto is not None
    assert found.points == 0


@pytest.mark.parametrize(("question", "claim"), [*claims(TRUE), *claims(NEAR_MISSES)])
def test_a_true_claim_costs_nothing(question: str, claim: str) -> None:
    found = score(question, BASE[question] + claim)
    assert found.veto is None
    assert not found.factual_error
    assert found.points >= score(question, BASE[question]).points


def test_a_slip_beside_the_point_lowers_the_state_only() -> None:
    text = BASE["Q3"] + "The victim loses its blocks, its progress is reset, and it goes to the head of waiting. "
    whole, slipped = score("Q3", text), score("Q3", text + "The victim is the oldest request.")
    assert whole.dimensions["state"].label == 1
    assert slipped.dimensions["state"].label == 0.5
    assert not slipped.factual_error
