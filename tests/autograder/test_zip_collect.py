"""`nbgrader zip_collect` finds what learning platforms' downloads hold, and whose it is."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from autograder.paths import CLONE
from tests.autograder.classroom import LESSON, NOTEBOOK

NAMES = {
    f"lesson-2_anna_b_attempt_2026-01-31-12-00-00_{NOTEBOOK}.ipynb": "anna_b",
    f"bert_attempt_2026-01-31-12-00-00_{NOTEBOOK}.ipynb": "bert",
    f"Zoë O'Brien_1234_assignsubmission_file/{NOTEBOOK}.ipynb": "Zoë O'Brien_1234",
    f"王小明_77_assignsubmission_file_{NOTEBOOK}.ipynb": "王小明_77",
    f"carolmiller_1234_5678_{NOTEBOOK}.ipynb": "carolmiller",
    f"dave_LATE_1234_5678_{NOTEBOOK}.ipynb": "dave",
}


def collect(place: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", "zip_collect", LESSON],
        cwd=CLONE,
        env={**os.environ, "MINIVLLM_CLASSROOM": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_the_notebooks_in_a_platforms_zip_and_beside_it_come_to_their_students(tmp_path: Path) -> None:
    place = tmp_path / "a_1_2_b"  # its own name says nothing of a student
    archive = place / "downloaded" / LESSON / "archive"
    archive.mkdir(parents=True)
    *zipped, beside = NAMES
    with zipfile.ZipFile(archive / "download.zip", "w") as file:
        for name in zipped:
            file.writestr(name, name)
        file.writestr("of nobody.ipynb", "")
    (archive / beside).write_text(beside, encoding="utf-8")
    told = collect(place)
    collected = {path.parent.parent.name: path for path in place.glob(f"submitted/*/{LESSON}/{NOTEBOOK}.ipynb")}
    assert {student: path.read_text(encoding="utf-8") for student, path in collected.items()} == {
        student: name for name, student in NAMES.items()
    }
    assert (collected["anna_b"].parent / "timestamp.txt").read_text().startswith("2026-01-31 12:00:00")
    assert "of nobody.ipynb" in told and not (CLONE / str(place)[1:]).exists()
