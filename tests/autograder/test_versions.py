"""The catalogue of student versions: every wrong one loses what it is wrong about, every right one keeps all 3 points."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autograder.judging.parts import grade
from autograder.judging.reference.plan_tests import PARTS
from minivllm.lesson.outcome import ______, door
from tests.autograder.versions import Version, right_versions, wrong_versions

WRONG = wrong_versions()
RIGHT = right_versions()
VERSIONS = [pytest.param(version, id=version.name) for version in (*WRONG, *RIGHT)]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What ``python -m autograder try … --json`` says of every version, by name."""
    folder = tmp_path_factory.mktemp("versions")
    files = {}
    for number, version in enumerate((*WRONG, *RIGHT)):
        path = folder / f"{number:03d}.py"
        path.write_text(version.source, encoding="utf-8")
        files[str(path)] = version.name
    command = [sys.executable, "-m", "autograder", "try", "unified_token_plan", "--json", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["file"] for row in rows] == list(files)
    return {files[row["file"]]: row for row in rows}


def test_the_catalogue_is_large_and_subtle() -> None:
    names = [version.name for version in (*WRONG, *RIGHT)]
    assert len(names) == len(set(names))
    assert len(WRONG) >= 40
    assert sum("examples" not in version.lost for version in WRONG) >= 10, "too few pass the two visible assertions"
    assert len(RIGHT) >= 20


def test_the_parts_are_quarters_of_three_points() -> None:
    assert {part.points for part in PARTS} == {0.25}
    assert sum(part.points for part in PARTS) == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_in_its_own_process_loses_exactly_the_ideas_it_is_wrong_about(
    version: Version, tried: dict[str, dict[str, Any]]
) -> None:
    row = tried[version.name]
    assert {name for name, points in row["parts"].items() if points == 0} == version.lost
    assert row["points"] == sum(row["parts"].values()) == 3 - 0.25 * len(version.lost)
    assert row["of"] == 3
    if version.lost:
        assert version.says in row["messages"][0]
        assert all("\n" not in message for message in row["messages"])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_loses_the_same_ideas_inside_the_kernel(version: Version, monkeypatch: pytest.MonkeyPatch) -> None:
    module = type(sys)("student_notebook")
    module.__dict__["______"] = ______
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with contextlib.redirect_stdout(io.StringIO()):
        with contextlib.suppress(AssertionError, SyntaxError):  # of the version's own last lines, as in a notebook
            exec(version.source, module.__dict__)
        report = grade(PARTS, door(module.__dict__))
    assert {name for name, points in report.parts.items() if points == 0} == version.lost


def test_every_idea_is_lost_by_a_version_that_keeps_nearly_all_others() -> None:
    for part in PARTS:
        fewest = min(len(version.lost) for version in WRONG if part.name in version.lost)
        assert fewest <= 3, f"no version tells {part.name} from other ideas"


def test_try_prints_one_row_a_file(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(RIGHT[0].source, encoding="utf-8")
    wrong.write_text(WRONG[0].source, encoding="utf-8")
    command = [sys.executable, "-m", "autograder", "try", "unified_token_plan", str(right), str(wrong)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "unified_token_plan: 2 files" in done.stdout
    assert "3/3" in done.stdout and "2.25/3" in done.stdout and "waiting was served before running" in done.stdout
    assert done.stderr == ""
