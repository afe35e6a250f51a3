"""How far suggestions and labels agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autograder.rubric.points import MAXIMUM

_LEVELS = 5


class Judgement(NamedTuple):
    suggested: float
    label: float
    abstains: bool


def kappa(judgements: Sequence[Judgement]) -> float | None:
    """Cohen's kappa with quadratic weights over 0, 0.5 ... 2; None where both sides know one value only."""
    if not judgements:
        return None
    ours = [round(one.suggested * (_LEVELS - 1) / MAXIMUM) for one in judgements]
    theirs = [round(one.label * (_LEVELS - 1) / MAXIMUM) for one in judgements]
    n = len(judgements)
    observed = sum((a - b) ** 2 for a, b in zip(ours, theirs, strict=True)) / n
    expected = sum((a - b) ** 2 for a in ours for b in theirs) / n**2
    if expected == 0:
        return None
    return 1 - observed / expected


def summary(judgements: Sequence[Judgement]) -> dict[str, float | int | None]:
    n = len(judgements)
    confident = [one for one in judgements if not one.abstains]
    return {
        "n": n,
        "kappa": kappa(judgements),
        "exact": _share(judgements, lambda one: one.suggested == one.label),
        "within_half": _share(judgements, lambda one: abs(one.suggested - one.label) <= 0.5),
        "over_award_share": _share(judgements, lambda one: one.suggested - one.label >= 1),
        "coverage": len(confident) / n if n else None,
        "confident_kappa": kappa(confident),
    }


def _share(judgements, holds):  # type: ignore
    return sum(map(holds, judgements)) / len(judgements) if judgements else None
