"""What a student reads beside the points, in English or Chinese."""

from __future__ import annotations

from collections.abc import Mapping

from autograder.judging.rubric.points import MAXIMUM

Says = dict[str, str]
_WORDS = {
    "en": {
        "points": "Suggested: {points:g} of {of:g}, to be confirmed by a person.",
        "fault": "Look again: {}.",
        "missing": "{}: say also {}.",
        "or": "; or ",
        "full": "Objects, state changes and the chain are there.",
        "objects": "Objects",
        "state": "State changes",
        "chain": "Chain",
    },
    "zh": {
        "points": "建议分：{points:g} / {of:g}，由人确认。",
        "fault": "再想一想：{}。",
        "missing": "{}：还可以说明{}。",
        "or": "；或",
        "full": "对象、状态变化、因果链都有。",
        "objects": "对象",
        "state": "状态变化",
        "chain": "因果链",
    },
}
_MOST = 2
"""Missing parts that are named of a dimension; more would be the answer."""


def comment(language: str, points: float, missing: Mapping[str, tuple[Says, ...]], faults: tuple[Says, ...]) -> str:
    """Raises ValueError where `language` is neither en nor zh."""
    if language not in _WORDS:
        raise ValueError(f"language is {language!r}: choose en or zh")
    words = _WORDS[language]
    lines = [words["points"].format(points=points, of=MAXIMUM)]
    lines += [words["fault"].format(says[language]) for says in faults[:_MOST]]
    lines += [
        words["missing"].format(words[name], words["or"].join(says[language] for says in of[:_MOST]))
        for name, of in missing.items()
        if of
    ]
    if len(lines) == 1:
        lines.append(words["full"])
    return "\n".join(lines)
