"""Configurations in which every pair of values of any two dimensions meets."""

import itertools
from typing import Any


def covering_array(dimensions: dict[str, tuple[Any, ...]], times: int = 1) -> list[dict[str, Any]]:
    """Greedy and deterministic: the configuration with the most pairs that have not met yet, until all have.

    Args:
        times: how often that is done, each time with configurations that were not chosen before.
    """
    everything = [dict(zip(dimensions, values, strict=True)) for values in itertools.product(*dimensions.values())]
    chosen: list[dict[str, Any]] = []
    for _ in range(times):
        chosen += _cover(dimensions, [config for config in everything if config not in chosen])
    return chosen


def _cover(dimensions: dict[str, tuple[Any, ...]], candidates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    missing = {
        ((a, x), (b, y)) for a, b in itertools.combinations(dimensions, 2) for x in dimensions[a] for y in dimensions[b]
    }
    chosen = []
    while missing:
        best = max(candidates, key=lambda config: len(missing & set(itertools.combinations(config.items(), 2))))
        missing -= set(itertools.combinations(best.items(), 2))
        chosen.append(best)
    return chosen
