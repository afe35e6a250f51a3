"""What the tests of 5-on-the-gpu share."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.lesson.notebooks import code_cells, solved

NAME = "5-on-the-gpu"


def answer(grade_id: str) -> str:
    """The solved source of a fill-in."""
    cells = code_cells(solved(NAME, "en"))
    (cell,) = [c for c in cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
    return re.sub(r"### (BEGIN|END) SOLUTION\n?", "", str(cell.source))


def student(grade_id: str, *changes: tuple[str, str]) -> str:
    """The answer with some of its expressions replaced."""
    code = answer(grade_id)
    for right, wrong in changes:
        assert code.count(right) == 1, f"{right!r} stands {code.count(right)} times in {grade_id}"
        code = code.replace(right, wrong)
    return code


def told(check: Callable[[Any], None], code: str, name: str, capsys: pytest.CaptureFixture[str]) -> str:
    namespace: dict[str, Any] = {}
    exec("from minivllm.lesson.outcome import ______\n" + code, namespace)
    check(namespace[name])
    return capsys.readouterr().out
