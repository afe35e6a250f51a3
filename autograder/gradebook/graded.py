"""What a worker hands over to the gradebook: a graded submission, its notebooks and their cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from nbformat import NotebookNode

from autograder.gradebook.tables import State
from autograder.intake.notes import Note


@dataclass(frozen=True)
class Digests:
    """Of what points depend on: the files handed in, the released lesson, the grader."""

    files: str
    release: str
    grader: str

    @classmethod
    def of(cls, state: State) -> Digests:
        return cls(state.files, state.release, state.grader)


@dataclass(frozen=True)
class GradedCell:
    """One cell with points or with an answer in it.

    Attributes:
        points: None where a person gives them, or where the cell has none (`of` is None).
        text: the digest of the answer that the points are for.
        told: what the tests said, one sentence each.
    """

    points: float | None
    of: float | None
    text: str
    blank: bool = False
    told: tuple[str, ...] = ()


@dataclass(frozen=True)
class GradedNotebook:
    """A notebook as it comes into autograded/, its cells by grade id, and suggestions for the answers in prose."""

    shown: NotebookNode
    cells: Mapping[str, GradedCell]
    suggestions: Mapping[str, Mapping[str, Any]]

    @property
    def kept(self) -> dict[str, Any]:
        return {
            "cells": {name: asdict(cell) for name, cell in self.cells.items()},
            "suggestions": {name: dict(suggested) for name, suggested in self.suggestions.items()},
        }


@dataclass
class Graded:
    """What came of a submission. `failed` says why nothing could be graded, in one sentence."""

    digests: Digests
    seconds: float = 0.0
    edition: str = "en"
    failed: str = ""
    notes: list[Note] = field(default_factory=list)
    notebooks: dict[str, GradedNotebook] = field(default_factory=dict)
    beside: dict[str, bytes] = field(default_factory=dict)
    """Files that nbgrader wants in autograded/: the time of handing in, above all."""
    handed_in_at: str = ""
