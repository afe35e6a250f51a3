"""Suggested points of what students write in words: Q1, Q2, Q3 and the three findings."""

from autograder.judging.rubric.scorer import Judged, Suggestion, score

__all__ = ["Judged", "Suggestion", "score"]
