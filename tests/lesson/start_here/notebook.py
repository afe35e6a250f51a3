"""What the tests of 0-start-here share."""

from typing import Any

from tests.lesson.notebooks import code_cells, source

NAME = "0-start-here"


def cell(start: str) -> str:
    """The code cell that begins so, without the marks around an answer."""
    found = [
        c.source.replace("### BEGIN SOLUTION\n", "").replace("### END SOLUTION", "") for c in code_cells(source(NAME))
    ]
    return next(str(text) for text in found if text.startswith(start))


def defined(start: str) -> Any:
    """What that cell defines."""
    names: dict[str, Any] = {}
    exec(cell(start), names)
    return names[start.removeprefix("def ").split("(")[0].split(" ")[0]]
