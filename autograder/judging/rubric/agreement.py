"""How far suggestions and labels agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from autograder.judging.rubric.points import MAXIMUM

_STEPS = 4
"""Between 0 and 2 points, half a point each."""


class Judgement(NamedTuple):
    suggested: float
    label: float
    abstains: bool


class Agreement(NamedTuple):
    """Shares from 0 to 1; None where there is nothing to share out, or where kappa has no meaning."""

    n: int
    kappa: float | None
    exact: float | None
    within_half: float | None
    over_award_share: float | None
    coverage: float | None
    confident_kappa: float | None


def kappa(judgements: Sequence[Judgement]) -> float | None:
    """Cohen's kappa with quadratic weights; None where both sides know one and the same value only."""
    ours = [round(one.suggested * _STEPS / MAXIMUM) for one in judgements]
    theirs = [round(one.label * _STEPS / MAXIMUM) for one in judgements]
    observed = sum((a - b) ** 2 for a, b in zip(ours, theirs, strict=True)) * len(judgements)
    expected = sum((a - b) ** 2 for a in ours for b in theirs)
    return 1 - observed / expected if expected else None


def agreement(judgements: Sequence[Judgement]) -> Agreement:
    confident = [one for one in judgements if not one.abstains]
    return Agreement(
        len(judgements),
        kappa(judgements),
        _share(judgements, lambda one: one.suggested == one.label),
        _share(judgements, lambda one: abs(one.suggested - one.label) <= 0.5),
        _share(judgements, lambda one: one.suggested - one.label >= 1),
        _share(judgements, lambda one: not one.abstains),
        kappa(confident),
    )


def _share(judgements: Sequence[Judgement], holds: Callable[[Judgement], bool]) -> float | None:
    return sum(map(holds, judgements)) / len(judgements) if judgements else None
