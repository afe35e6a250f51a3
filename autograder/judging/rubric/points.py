"""Points of an answer from its labels: the lesson's fixed rule."""

from __future__ import annotations

QUESTIONS = ("Q1", "Q2", "Q3")
DIMENSIONS = ("objects", "state", "chain")
MAXIMUM = 2.0
_OF_SUM = {0.0: 0.0, 0.5: 0.5, 1.0: 0.5, 1.5: 1.0, 2.0: 1.5, 2.5: 1.5, 3.0: 2.0}


def points(
    objects: float, state: float, chain: float, *, veto: str | None = None, factual_error: bool = False
) -> float:
    """0, 0.5, 1, 1.5 or 2. The labels are 0, 0.5 or 1; anything else raises ValueError."""
    for name, label in zip(DIMENSIONS, (objects, state, chain), strict=True):
        if label not in (0, 0.5, 1):
            raise ValueError(f"{name} is {label!r}: a label is 0, 0.5 or 1")
    if veto is not None:
        return 0.0
    if chain == 0 and (state == 0 or factual_error):
        return 0.0
    of_sum = _OF_SUM[float(objects + state + chain)]
    return min(of_sum, 1.0) if factual_error else of_sum
