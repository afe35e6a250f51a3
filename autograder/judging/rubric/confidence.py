"""How sure a suggestion is, from 0 to 1: what the rules have not understood makes it unsure."""

from __future__ import annotations

from dataclasses import dataclass

SURE = 0.65
"""Below this a suggestion abstains: a person should read the answer before the others."""


@dataclass(frozen=True)
class Signals:
    """What the rules saw of an answer."""

    length: int
    """Characters that say something."""
    understood: float
    """Share of them in clauses that a part, an error or a veto rests on."""
    parts: int
    errors: int
    vetoes: int
    wrong_reason: bool
    unread: bool
    """Whether the text goes on behind what was read."""


def confidence(points: float, chain: float, signals: Signals) -> float:
    if signals.unread:
        return 0.1
    if signals.length < 12:
        return 0.95
    if points == 0:
        return _of_nothing(signals)
    sure = 0.25 + 0.6 * signals.understood
    if points == 2:
        sure += 0.25  # so many parts don't meet by accident
    if signals.errors:
        sure -= 0.3
    if chain == 0:
        sure -= 0.1
    return round(min(max(sure, 0.0), 0.99), 2)


def _of_nothing(signals: Signals) -> float:
    if signals.vetoes:
        return 0.75
    if signals.errors:
        return 0.8 if signals.errors > 1 or signals.parts < 4 else 0.6
    if signals.parts == 0:
        return 0.9 if signals.length < 60 else 0.6
    if signals.wrong_reason:
        return 0.45
    return 0.65 if signals.length < 60 else 0.4
