"""Right code in an odd notebook gets its points, whatever stands around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.autograder.classroom import NOTEBOOK
from tests.autograder.intake.solved import FULL, executed, points_of, taken
from tests.autograder.odd.cases import CASES, Case

pytestmark = pytest.mark.requires_debian("bubblewrap")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_right_code_gets_its_points(case: Case, tmp_path: Path) -> None:
    rebuilt = taken(tmp_path, case.notebook()).notebooks[NOTEBOOK]
    ran = executed(rebuilt, case.files)
    assert points_of(ran) == FULL, (ran.notes, ran.outputs)
    assert ran.faults == []
    assert "flagged" not in {note.kind for note in ran.notes}, ran.notes
