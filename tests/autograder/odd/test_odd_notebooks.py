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
    found = taken(tmp_path, case.notebook())
    ran = executed(found.notebooks[NOTEBOOK], case.files)
    assert points_of(ran) == FULL, (ran.notes, ran.outputs)
    assert ran.faults == []
    flagged = [note.text for note in (*found.notes, *ran.notes) if note.kind == "flagged"]
    assert all("filled in twice" in text for text in flagged) if case.name.startswith("a draft") else not flagged
