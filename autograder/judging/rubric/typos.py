"""English words of the rubric, misspelt: put right where only one word is meant."""

from __future__ import annotations

import re
from functools import lru_cache

from rapidfuzz.distance import OSA

from autograder.judging.rubric.normalise import Text

_SHORTEST, _LONG = 5, 8
_FAR = 2
_WORD = re.compile(r"[a-z_]{5,40}")
# Right words that lie one letter beside a word of a rubric.
_RIGHT = frozenset(
    {
        "those",
        "these",
        "their",
        "there",
        "where",
        "which",
        "while",
        "whole",
        "would",
        "could",
        "should",
        "about",
        "after",
    }
    | {
        "again",
        "other",
        "under",
        "being",
        "every",
        "never",
        "first",
        "later",
        "layer",
        "score",
        "scores",
        "state",
        "stage",
    }
    | {"slower", "sample", "simple", "single", "space", "place", "based", "batch", "match", "catch", "cache", "reach"}
    | {"least", "lease", "final", "since", "prices", "price", "print", "point", "points", "count", "court", "total"}
    | {
        "taken",
        "takes",
        "makes",
        "shape",
        "share",
        "sharp",
        "spare",
        "short",
        "start",
        "stats",
        "still",
        "steps",
        "stops",
    }
    | {"times", "thing", "things", "think", "thick", "three", "threw", "through", "though", "thought", "heads", "reads"}
    | {"loads", "lower", "power", "longer", "larger", "lists", "lasts", "costs", "casts", "parts", "ports", "forward"}
)


def correct(text: Text, words: frozenset[str]) -> Text:
    wrong = {word: right for word in set(_WORD.findall(text.read)) if (right := _meant(word, words)) != word}
    if not wrong:
        return text
    return text.replace(re.compile("|".join(rf"(?<![a-z_]){word}(?![a-z_])" for word in sorted(wrong))), wrong)


@lru_cache(maxsize=20_000)
def _meant(word: str, words: frozenset[str]) -> str:
    if word in _RIGHT or any(word.startswith(stem) for stem in words):
        return word
    far = _FAR if len(word) >= _LONG else 1
    near = sorted(
        (distance, other)
        for other in words
        if len(other) >= _SHORTEST and other[0] == word[0] and abs(len(other) - len(word)) <= far
        if (distance := OSA.distance(word, other, score_cutoff=far)) <= far
    )
    if len(word) < _LONG:  # another letter in a short word makes another word: "works", "words"
        near = [one for one in near if len(one[1]) != len(word) or sorted(one[1]) == sorted(word)]
    if not near or (len(near) > 1 and near[0][0] == near[1][0] and not near[1][1].startswith(near[0][1])):
        return word
    return near[0][1]
