"""How sure a suggestion is."""

from __future__ import annotations

from collections.abc import Mapping


def confidence(
    points: float, labels: Mapping[str, float], signals: Mapping[str, float], present: Mapping[str, frozenset[str]]
) -> float:
    return 1.0
